package audit

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload is an object that runs pods, or a bare pod.
type Workload struct {
	Object *Object
	// Replicas is what is asked for; 1 when nothing is written, as the server has it.
	Replicas int
	// ReplicasWritten says whether the number is in the manifest; a server writes it into live objects.
	ReplicasWritten bool
	// Labels and Annotations are those of its pods.
	Labels, Annotations map[string]string
	Pod                 corev1.PodSpec
	// PodPath is where the pod template stands: spec.template; empty for a bare pod.
	PodPath string

	Budgets     []*Budget
	Services    []*Service
	Autoscalers []*Autoscaler
}

// templates holds where the kinds that run pods keep their pod template.
var templates = map[string][]string{
	"apps/Deployment": {"spec", "template"}, "apps/StatefulSet": {"spec", "template"}, "apps/DaemonSet": {"spec", "template"},
	"apps/ReplicaSet": {"spec", "template"}, "/ReplicationController": {"spec", "template"}, "batch/Job": {"spec", "template"},
	"batch/CronJob": {"spec", "jobTemplate", "spec", "template"}, "argoproj.io/Rollout": {"spec", "template"},
	"apps.kruise.io/CloneSet": {"spec", "template"}, "/Pod": {},
}

// newWorkload returns nil for an object that runs no pods, or whose pod cannot be read.
func newWorkload(o *Object) *Workload {
	keys, ok := templates[o.Group()+"/"+o.Kind]
	if !ok || o.controlled() {
		return nil
	}
	content, _ := o.at(keys...)
	template, ok := content.(map[string]any)
	if !ok {
		return nil
	}
	w := &Workload{Object: o, Replicas: 1, PodPath: strings.Join(keys, ".")}
	spec, ok := template["spec"].(map[string]any)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &w.Pod) != nil {
		return nil
	}
	if metadata, ok := template["metadata"].(map[string]any); ok {
		w.Labels, w.Annotations = words(metadata["labels"]), words(metadata["annotations"])
	}
	if replicas, ok := o.at("spec", "replicas"); ok {
		if n, ok := replicas.(int64); ok {
			_, live := o.at("metadata", "resourceVersion")
			w.Replicas, w.ReplicasWritten = int(n), !live || strings.Contains(o.text("metadata", "annotations", lastApplied), `"replicas"`)
		}
	}
	return w
}

// lastApplied holds what kubectl apply was given, by which one can tell what a server has added.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// controlled says whether another object made this one: what there is to say is said of that one.
func (o *Object) controlled() bool {
	v, _ := o.at("metadata", "ownerReferences")
	owners, _ := v.([]any)
	for _, owner := range owners {
		if asMap(owner)["controller"] == true {
			return true
		}
	}
	return false
}

// words returns the entries of a map that are strings.
func words(v any) map[string]string {
	entries, _ := v.(map[string]any)
	out := make(map[string]string, len(entries))
	for key, value := range entries {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

// is says whether the workload is of one of the kinds.
func (w *Workload) is(kinds ...string) bool {
	for _, kind := range kinds {
		if w.Object.Kind == kind {
			return true
		}
	}
	return false
}

// serves says whether the workload keeps pods running for good, with a number of replicas.
func (w *Workload) serves() bool {
	return w.is("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Rollout", "CloneSet")
}

// path returns the path of something in the pod template.
func (w *Workload) path(below string) string {
	if w.PodPath == "" {
		return below
	}
	return w.PodPath + "." + below
}

// containerPath returns the path of something in a container.
func (w *Workload) containerPath(i int, below string) string {
	at := w.path(fmt.Sprintf("spec.containers[%d]", i))
	if below == "" {
		return at
	}
	return at + "." + below
}

// annotationPath returns the path of an annotation of the pods.
func (w *Workload) annotationPath(key string) string {
	return join(w.path("metadata.annotations"), key)
}

// fewest returns the number of replicas at the quietest time: the autoscaler's minimum where there is one.
func (w *Workload) fewest() (replicas int, why string) {
	for _, a := range w.Autoscalers {
		return a.Minimum, a.Object.Kind + " " + a.Object.Name + " has a minimum of " + fmt.Sprint(a.Minimum)
	}
	if _, written := w.Object.at("spec", "replicas"); !written {
		return w.Replicas, "no replicas are written, which is 1"
	}
	return w.Replicas, fmt.Sprintf("replicas is %d", w.Replicas)
}

// grace returns the termination grace period in seconds.
func (w *Workload) grace() int64 {
	if w.Pod.TerminationGracePeriodSeconds == nil {
		return 30
	}
	return *w.Pod.TerminationGracePeriodSeconds
}

// selector matches the labels of pods.
type selector struct {
	labels  map[string]string
	matcher labels.Selector
	all     bool
}

func (s selector) matches(l map[string]string) bool { return s.matcher.Matches(labels.Set(l)) }

// Budget is a PodDisruptionBudget.
type Budget struct {
	Object                       *Object
	MinAvailable, MaxUnavailable *intstr.IntOrString
	AlwaysAllowsUnhealthy        bool
	Workloads                    []*Workload

	selector selector
}

func newBudget(o *Object) *Budget {
	b := &Budget{Object: o, AlwaysAllowsUnhealthy: o.text("spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"}
	raw, _ := o.at("spec", "selector")
	var s metav1.LabelSelector
	content, ok := raw.(map[string]any)
	if raw != nil && (!ok || runtime.DefaultUnstructuredConverter.FromUnstructured(content, &s) != nil) {
		return nil
	}
	matcher, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return nil
	}
	if raw == nil {
		matcher = labels.Nothing()
	}
	b.selector = selector{s.MatchLabels, matcher, raw != nil && matcher.Empty()}
	b.MinAvailable, b.MaxUnavailable = o.intOrString("spec", "minAvailable"), o.intOrString("spec", "maxUnavailable")
	return b
}

// intOrString returns a number or a percentage, nil when nothing of the kind is written.
func (o *Object) intOrString(keys ...string) *intstr.IntOrString {
	switch v, _ := o.at(keys...); v := v.(type) {
	case int64:
		n := intstr.FromInt32(int32(max(min(v, 1<<30), -1)))
		return &n
	case string:
		n := intstr.FromString(v)
		if _, err := intstr.GetScaledValueFromIntOrPercent(&n, 100, true); err == nil {
			return &n
		}
	}
	return nil
}

// Service is one that selects pods.
type Service struct {
	Object    *Object
	Workloads []*Workload

	selector selector
}

func newService(o *Object) *Service {
	v, _ := o.at("spec", "selector")
	l := words(v)
	if len(l) == 0 {
		return nil
	}
	return &Service{Object: o, selector: selector{labels: l, matcher: labels.SelectorFromSet(l)}}
}

// Autoscaler is a HorizontalPodAutoscaler or a KEDA ScaledObject.
type Autoscaler struct {
	Object  *Object
	Minimum int
	// Target is the workload that it scales, nil when it is not among the objects.
	Target                 *Workload
	TargetKind, TargetName string
}

func (inv *Inventory) addAutoscalers() {
	byName := map[string][]*Workload{}
	for _, w := range inv.Workloads {
		key := w.Object.Namespace + "/" + w.Object.Kind + "/" + w.Object.Name
		byName[key] = append(byName[key], w)
	}
	add := func(o *Object, minimumKey string, minimum int) {
		a := &Autoscaler{Object: o, Minimum: minimum, TargetKind: o.text("spec", "scaleTargetRef", "kind"), TargetName: o.text("spec", "scaleTargetRef", "name")}
		if a.TargetKind == "" && o.Kind == "ScaledObject" {
			a.TargetKind = "Deployment"
		}
		if v, ok := o.at("spec", minimumKey); ok {
			if n, ok := v.(int64); ok {
				a.Minimum = int(n)
			}
		}
		for _, w := range byName[o.Namespace+"/"+a.TargetKind+"/"+a.TargetName] {
			if inv.together(o, w.Object) {
				a.Target = w
				w.Autoscalers = append(w.Autoscalers, a)
			}
		}
		inv.Autoscalers = append(inv.Autoscalers, a)
	}
	for _, o := range inv.of("autoscaling", "HorizontalPodAutoscaler") {
		if o.controlled() {
			continue // KEDA's, for a ScaledObject
		}
		add(o, "minReplicas", 1)
	}
	for _, o := range inv.of("keda.sh", "ScaledObject") {
		add(o, "minReplicaCount", 0)
	}
}
