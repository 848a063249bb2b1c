package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/segue-dev/segue/internal/audit/schemas"
)

// writtenRules compare what is written with what the server keeps.
func writtenRules() []Rule {
	return []Rule{
		{
			ID: "field-unknown", Severity: Error, Title: "a field that the API server drops",
			Why: "An API server drops fields that the kind does not have. With client-side tools that do not ask for strict validation, and " +
				"with most GitOps controllers, nobody is told: the manifest says one thing, the cluster does another. The usual causes are a field " +
				"one level too high or too low, a misspelling, and a field of an older API version.",
			Remedy: "Move, rename or remove the field.",
			check:  checkFields,
		},
		{
			ID: "field-type", Severity: Error, Title: "a value of the wrong type",
			Why: "The API server refuses the whole object: a quoted number where a number belongs, a bare `true` or number in an annotation, a label " +
				"or an environment variable, a map where a list belongs.",
			Remedy: "Write the value with the type of the field.",
			check:  func(*Inventory, *reporter) {}, // found while the fields are walked
		},
		{
			ID: "field-value", Severity: Error, Title: "a value that the field does not allow",
			Why:    "The field takes one of a few words, and another one stands there: the API server refuses the whole object.",
			Remedy: "Use one of the allowed values.",
			check:  func(*Inventory, *reporter) {}, // found while the fields are walked
		},
		{
			ID: "field-twice", Severity: Error, Title: "a key that stands twice in one map",
			Why: "Of two equal keys in one map the last one wins with lenient clients, and strict ones refuse the file. Which one is in force " +
				"depends on the tool, and in a long manifest nobody sees the other.",
			Remedy: "Remove one of the two.",
			check:  checkDuplicates,
		},
		{
			ID: "api-version-gone", Severity: Error, Title: "an API version that is no longer served",
			Why: "The server does not know this version of the kind: the object cannot be applied, or, if a conversion left an old copy in " +
				"place, changes to it no longer reach the cluster.",
			Remedy: "Write the object in a version that is served.",
			check:  checkVersions,
		},
		{
			ID: "dead-name", Severity: Warning, Title: "an annotation, label or taint that nothing reads any more",
			Why: "Annotations and labels are free text: a name that was renamed in a later release is accepted for ever and does nothing. Most often " +
				"it is a protection that ended with an upgrade.",
			Remedy: "Use the successor.",
			check:  checkDeadNames,
		},
		{
			ID: "annotation-misplaced", Severity: Error, Title: "a pod annotation that stands on the workload",
			Why: "Karpenter and the Cluster Autoscaler look at the annotations of pods. An annotation in the metadata of a Deployment stays there: " +
				"the pods are made from `spec.template` and do not have it.",
			Remedy: "Move it to spec.template.metadata.annotations.",
			check:  checkMisplacedAnnotations,
		},
	}
}

// checkFields walks every object along its schema.
func checkFields(inv *Inventory, r *reporter) {
	if inv.schemas == nil {
		return
	}
	fields := map[*schemas.Schema]map[string][]namesake{}
	for _, o := range inv.Objects {
		group, version := o.Group(), o.APIVersion[strings.LastIndex(o.APIVersion, "/")+1:]
		root := inv.schemas.Kind(group, version, o.Kind)
		if root == nil {
			continue
		}
		w := &walk{set: inv.schemas, root: root, object: o, reporter: r, fields: fields}
		w.value(o.Content, root, "", 0)
	}
}

const refused = "nothing: the object is refused"

// walk is the way through one object.
type walk struct {
	set      *schemas.Set
	root     *schemas.Schema
	object   *Object
	reporter *reporter
	// fields is, by kind, where all fields are, by their lower-case names.
	fields map[*schemas.Schema]map[string][]namesake
}

func (w *walk) value(v any, s *schemas.Schema, path string, depth int) {
	s = w.set.Resolve(s)
	if s == nil || v == nil || path == "status" {
		return
	}
	if !fits(v, s.Type) {
		w.report("field-type", detail{path: path,
			message:   fmt.Sprintf("%s is %s, and the field takes %s: the API server refuses the object", shown(v), kindOf(v), article(s.Type)),
			effective: refused, remedy: typeRemedy(v, s.Type)})
		return
	}
	switch v := v.(type) {
	case map[string]any:
		w.members(v, s, path, depth)
	case []any:
		for i, item := range v {
			w.value(item, s.Items, path+"["+strconv.Itoa(i)+"]", depth+1)
		}
	case string:
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			w.report("field-value", detail{path: path, message: fmt.Sprintf("%q is not allowed here: the API server refuses the object", v), effective: refused,
				remedy: "Use one of " + strings.Join(s.Enum, ", ") + "."})
		}
	}
}

func (w *walk) members(m map[string]any, s *schemas.Schema, path string, depth int) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := join(path, key)
		switch property := s.Properties[key]; {
		case property != nil:
			w.value(m[key], property, at, depth+1)
		case s.Values != nil:
			w.value(m[key], s.Values, at, depth+1)
		case !s.Open && s.Properties != nil:
			w.unknown(m[key], s, path, key)
		}
	}
}

func (w *walk) report(id string, d detail) {
	r := *w.reporter
	r.rule = r.rules[id]
	r.add(w.object, d)
}

// unknown reports a dropped field, with the place where it belongs when one can be told.
func (w *walk) unknown(v any, s *schemas.Schema, path, key string) {
	where := path
	if where == "" {
		where = "a " + w.object.Kind
	}
	d := detail{path: join(path, key), message: fmt.Sprintf("%s has no field %s: the API server drops it, so %s is not in force", where, key, shown(v))}
	right := w.placeFor(s, path, key, v)
	if right == "" {
		d.effective = "nothing: the field is dropped"
		d.remedy = "Remove it, or look up the field that is meant in the reference of " + w.object.APIVersion + " " + w.object.Kind + "."
	} else {
		d.effective = right + " is " + w.inForce(right)
		d.remedy = "Write it as " + right + "."
	}
	w.report("field-unknown", d)
}

// has says whether something is written under a path.
func (w *walk) has(path []string) bool { return w.written(path) != nil }

// written returns what the object has under a path, nil for nothing.
func (w *walk) written(path []string) any {
	var v any = w.object.Content
	for _, step := range path {
		switch current := v.(type) {
		case map[string]any:
			v = current[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(current) {
				v = nil
			} else {
				v = current[i]
			}
		default:
			v = nil
		}
	}
	return v
}

// inForce returns what the object has at a path: what is written there, else the default.
func (w *walk) inForce(path string) string {
	if v := w.written(steps(path)); v != nil {
		return shown(v)
	}
	if value := w.defaultAt(path); value != "" {
		return value + " (the default)"
	}
	return "not set"
}

// defaultAt returns the default of a field: of the schema, or of the built-in kinds, which do not say theirs in it.
func (w *walk) defaultAt(path string) string {
	s, definition := w.root, ""
	last := ""
	for _, step := range steps(path) {
		if s.Ref != "" {
			definition = s.Ref
		}
		if s = w.set.Resolve(s); s == nil {
			return ""
		}
		switch {
		case s.Properties[step] != nil:
			s, last = s.Properties[step], step
		case s.Items != nil:
			s = s.Items
		default:
			return ""
		}
	}
	if s.Default != nil {
		return shown(s.Default)
	}
	return builtInDefaults[definition+"."+last]
}

// builtInDefaults are from pkg/apis/*/v1/defaults.go of Kubernetes.
var builtInDefaults = map[string]string{
	"apps.v1.DeploymentSpec.replicas":                              "1",
	"apps.v1.DeploymentSpec.minReadySeconds":                       "0",
	"apps.v1.DeploymentSpec.progressDeadlineSeconds":               "600",
	"apps.v1.RollingUpdateDeployment.maxSurge":                     "25%",
	"apps.v1.RollingUpdateDeployment.maxUnavailable":               "25%",
	"apps.v1.StatefulSetSpec.replicas":                             "1",
	"apps.v1.StatefulSetSpec.podManagementPolicy":                  "OrderedReady",
	"autoscaling.v2.HorizontalPodAutoscalerSpec.minReplicas":       "1",
	"autoscaling.v2.HPAScalingRules.stabilizationWindowSeconds":    "300 down, 0 up",
	"core.v1.PodSpec.terminationGracePeriodSeconds":                "30",
	"core.v1.PodSpec.restartPolicy":                                "Always",
	"core.v1.PodSpec.priorityClassName":                            "none, which is priority 0",
	"core.v1.Probe.failureThreshold":                               "3",
	"core.v1.Probe.periodSeconds":                                  "10",
	"core.v1.Probe.timeoutSeconds":                                 "1",
	"core.v1.Probe.initialDelaySeconds":                            "0",
	"core.v1.Probe.successThreshold":                               "1",
	"policy.v1.PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy": "IfHealthyBudget",
	"core.v1.TopologySpreadConstraint.nodeTaintsPolicy":            "Ignore",
	"core.v1.ServiceSpec.type":                                     "ClusterIP",
	"batch.v1.JobSpec.backoffLimit":                                "6",
}

// fits says whether a value has the type of a field.
func fits(v any, want string) bool {
	switch want {
	case "", "any":
		return true
	}
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return want == "object"
	case []any:
		return want == "array"
	case bool:
		return want == "boolean"
	case string:
		return want == "string" || want == schemas.IntOrString || want == schemas.Quantity
	case int64:
		return want == "integer" || want == "number" || want == schemas.IntOrString || want == schemas.Quantity
	case float64:
		return want == "number" || want == schemas.Quantity || want == "integer" && v == float64(int64(v))
	}
	return true
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	}
	return "a number"
}

func article(schemaType string) string {
	switch schemaType {
	case "object":
		return "a map"
	case "array":
		return "a list"
	case "integer":
		return "an integer"
	case schemas.IntOrString:
		return "an integer or a string"
	}
	return "a " + schemaType
}

func typeRemedy(v any, want string) string {
	text, isText := v.(string)
	switch {
	case want == "string" && (kindOf(v) == "a number" || kindOf(v) == "a boolean"):
		return "Put it in quotes: " + strconv.Quote(shown(v)) + "."
	case isText && (want == "integer" || want == "number" || want == "boolean"):
		return "Write it without quotes" + map[bool]string{true: ".", false: ", as " + article(want) + "."}[isPlain(text, want)]
	}
	return "Write " + article(want) + " here."
}

// isPlain says whether a text without its quotes would have the wanted type.
func isPlain(text, want string) bool {
	if want == "boolean" {
		return text == "true" || text == "false"
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// shown returns a value for a message, cut where it is long.
func shown(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	text := string(encoded)
	if plain, ok := v.(string); ok && plain != "" && !strings.ContainsAny(plain, "\n\"") {
		text = plain
	}
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:57]) + "..."
	}
	return text
}

func checkDuplicates(inv *Inventory, r *reporter) {
	for _, o := range inv.Objects {
		for _, path := range o.Duplicates {
			w := walk{object: o, root: &schemas.Schema{}, set: inv.schemas}
			d := detail{path: path, message: path + " is written twice; of the two the last one is in force, where the file is taken at all"}
			if inv.schemas != nil {
				d.effective = path + " is " + w.inForce(path)
			}
			r.add(o, d)
		}
	}
}
