package audit

import (
	"fmt"
	"slices"
	"strings"
)

// Compare reports where two environments differ in what matters when nodes leave: one that was tried out only there, or that holds
// only here. Sizes, such as replicas and limits, may differ and are not compared. name is that of the other environment for messages.
func Compare(objects, other []*Object, name string, o Options) Report {
	var found []Finding
	c := comparison{here: newInventory(objects, nil, o.Schemas), there: newInventory(other, nil, o.Schemas), name: name}
	for _, rule := range Rules() {
		if rule.compare != nil {
			rule.compare(c, &reporter{rule: rule, found: &found})
		}
	}
	return report(found, len(objects), o)
}

// comparison is two environments.
type comparison struct {
	here, there *Inventory
	name        string
}

func compareRules() []Rule {
	return []Rule{{
		ID: "environments-differ", Severity: Warning, Title: "two environments that differ in what matters when nodes leave",
		Why: "What was tried in one environment says little about another with other budgets, probes, grace periods, tolerations or pools: install steps and settings that are in " +
			"staging only are found out in production. Objects are matched by kind and name, namespaces may differ; replicas, images, limits and resources are not compared. Found by --compare.",
		Remedy:  "Make them the same, or ignore the finding with the reason for the difference.",
		compare: compareEnvironments,
	}}
}

// guarding are the kinds of which one must not be missing in an environment.
var guarding = []string{
	"policy/PodDisruptionBudget", "autoscaling/HorizontalPodAutoscaler", "keda.sh/ScaledObject", "karpenter.sh/NodePool", "karpenter.k8s.aws/EC2NodeClass",
	"apps/DaemonSet", "/LimitRange", "scheduling.k8s.io/PriorityClass",
}

// compared are the paths of a kind that must be equal where both environments have the object.
var compared = map[string][]string{
	"karpenter.sh/NodePool": {
		"spec.disruption", "spec.template.metadata.labels", "spec.template.spec.taints", "spec.template.spec.startupTaints", "spec.template.spec.requirements",
		"spec.template.spec.expireAfter", "spec.template.spec.terminationGracePeriod",
	},
	"policy/PodDisruptionBudget":      {"spec"},
	"scheduling.k8s.io/PriorityClass": {"value"},
	"/Namespace":                      {`metadata.labels["` + protectLabel + `"]`},
}

// comparedPod are the paths below a pod template that must be equal.
var comparedPod = []string{
	"spec.terminationGracePeriodSeconds", "spec.tolerations", "spec.nodeSelector", "spec.affinity", "spec.priorityClassName",
}

// comparedContainer are the fields of a container that must be equal.
var comparedContainer = []string{"readinessProbe", "livenessProbe", "startupProbe", "lifecycle"}

func compareEnvironments(c comparison, r *reporter) {
	there := index(c.there)
	here := index(c.here)
	for _, o := range c.here.Objects {
		other := there[matchKey(o)]
		switch {
		case other != nil:
			c.compare(o, other, r)
		case slices.Contains(guarding, o.Group()+"/"+o.Kind) && !o.controlled():
			r.add(o, detail{message: fmt.Sprintf("%s has no %s %s", c.name, o.Kind, o.Name)})
		}
	}
	for _, o := range c.there.Objects {
		if here[matchKey(o)] == nil && slices.Contains(guarding, o.Group()+"/"+o.Kind) && !o.controlled() {
			r.add(o, detail{message: fmt.Sprintf("only %s has the %s %s", c.name, o.Kind, o.Name)})
		}
	}
}

func matchKey(o *Object) string { return o.Group() + "/" + o.Kind + "/" + o.Name }

// index returns the objects that have a kind and name of their own; of those with one name in several namespaces nobody can tell
// which is meant.
func index(inv *Inventory) map[string]*Object {
	all := map[string]*Object{}
	for _, o := range inv.Objects {
		if other, twice := all[matchKey(o)]; twice && other != nil && other.Namespace != o.Namespace {
			all[matchKey(o)] = nil
			continue
		}
		all[matchKey(o)] = o
	}
	return all
}

func (c comparison) compare(o, other *Object, r *reporter) {
	paths := slices.Clone(compared[o.Group()+"/"+o.Kind])
	if keys, runs := templates[o.Group()+"/"+o.Kind]; runs && !o.controlled() {
		template := strings.Join(keys, ".")
		for _, below := range comparedPod {
			paths = append(paths, strings.TrimPrefix(template+"."+below, "."))
		}
		paths = append(paths, containerPaths(o, strings.TrimPrefix(template+".spec.containers", "."))...)
	}
	for _, path := range paths {
		a, b := walkTo(o, path), walkTo(other, path)
		if difference := firstDifference(b, a, path, false); difference != "" {
			r.add(o, detail{path: difference, effective: fmt.Sprintf("%s here, %s there", orNothing(walkTo(o, difference)), orNothing(walkTo(other, difference))),
				message: fmt.Sprintf("%s differs from %s", path, c.name)})
		}
	}
}

// containerPaths returns the compared paths of all containers of an object.
func containerPaths(o *Object, at string) []string {
	list, _ := walkTo(o, at).([]any)
	var paths []string
	for i := range list {
		for _, field := range comparedContainer {
			paths = append(paths, fmt.Sprintf("%s[%d].%s", at, i, field))
		}
	}
	return paths
}

func walkTo(o *Object, path string) any { return (&walk{object: o}).written(steps(path)) }

func orNothing(v any) string {
	if v == nil {
		return "nothing"
	}
	return shown(v)
}
