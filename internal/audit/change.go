package audit

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Change says what it would do to a cluster to go from the old manifests to the new ones: which nodes drift, which pods restart,
// which protection is loosened. It says nothing of what is wrong with the new ones by themselves; that is Run's.
func Change(old, new []*Object, o Options) Report {
	before, after := newInventory(old, nil, o.Schemas), newInventory(new, nil, o.Schemas)
	var found []Finding
	for _, rule := range Rules() {
		if rule.change != nil {
			rule.change(pairs(before, after), &reporter{rule: rule, found: &found})
		}
	}
	return report(found, len(new), o)
}

// change is an object before and after; one of the two is nil when it comes or goes.
type change struct {
	old, new *Object
}

// changes are all objects of two inventories, matched by group, kind, namespace and name.
type changes struct {
	before, after *Inventory
	list          []change
}

func pairs(before, after *Inventory) changes {
	key := func(o *Object) string { return o.Group() + "/" + o.Kind + "/" + o.Namespace + "/" + o.Name }
	byKey := map[string]change{}
	for _, o := range before.Objects {
		byKey[key(o)] = change{old: o}
	}
	for _, o := range after.Objects {
		c := byKey[key(o)]
		c.new = o
		byKey[key(o)] = c
	}
	all := changes{before: before, after: after}
	for _, k := range slices.Sorted(maps.Keys(byKey)) {
		all.list = append(all.list, byKey[k])
	}
	return all
}

// both returns the objects of a kind that are there before and after.
func (c changes) both(group, kind string) []change {
	var found []change
	for _, one := range c.list {
		if one.old != nil && one.new != nil && one.new.Group() == group && one.new.Kind == kind {
			found = append(found, one)
		}
	}
	return found
}

func changeRules() []Rule {
	return []Rule{
		{
			ID: "change-drifts-nodes", Severity: Warning, Title: "a change that replaces nodes that run",
			Why: "Karpenter compares each node with the template of its pool and with its node class. When labels, annotations, taints, startupTaints, the nodeClassRef, " +
				"expireAfter or terminationGracePeriod of the template change, all nodes of the pool drift; when the requirements change, those whose labels no longer fit. " +
				"Drifted nodes are replaced in rounds, as many at a time as the pool's budgets allow. Found by --diff.",
			Remedy: "Roll it out when the service bears it: with a budget for the reason Drifted, after a hold, or as a pool of a new name.",
			change: changeDrift,
		},
		{
			ID: "change-restarts-pods", Severity: Info, Title: "a change that restarts pods",
			Why:    "A change of the pod template makes new pods and stops the old ones; labels and annotations of the template count too. Found by --diff.",
			Remedy: "Nothing to do where the rollout surges; look at the update strategy else.",
			change: changeRestarts,
		},
		{
			ID: "change-loosens-protection", Severity: Warning, Title: "a change that takes protection away",
			Why: "A budget that goes or allows more, fewer replicas at the quietest time, a shorter grace period, an annotation or a label that protected: each is easy to miss in a long " +
				"diff, and is felt at the next drain. Found by --diff.",
			Remedy: "Check that it is meant; else take it back.",
			change: changeLoosens,
		},
	}
}

// hashed are the fields of a pool's template that are in Karpenter's drift hash (NodePool.Hash).
var hashed = [][]string{
	{"metadata", "labels"}, {"metadata", "annotations"}, {"spec", "taints"}, {"spec", "startupTaints"}, {"spec", "nodeClassRef"},
	{"spec", "expireAfter"}, {"spec", "terminationGracePeriod"},
}

func changeDrift(c changes, r *reporter) {
	for _, one := range c.both("karpenter.sh", "NodePool") {
		var fields []string
		for _, field := range hashed {
			if one.difference(append([]string{"spec", "template"}, field...)...) != "" {
				fields = append(fields, strings.Join(field, "."))
			}
		}
		if len(fields) > 0 {
			n, nodes := c.nodes(one.new.Name)
			r.add(one.new, detail{path: "spec.template", message: fmt.Sprintf("%s changes: all %s of the pool drift and are replaced", strings.Join(fields, ", "), nodes),
				effective: rounds(newPool(one.new), n)})
			continue
		}
		if one.difference("spec", "template", "spec", "requirements") != "" {
			r.add(one.new, detail{path: "spec.template.spec.requirements", message: "the requirements change: nodes whose labels no longer fit drift and are replaced", effective: rounds(newPool(one.new), 0)})
		}
	}
	for _, one := range c.both("karpenter.k8s.aws", "EC2NodeClass") {
		if one.difference("spec") != "" {
			r.add(one.new, detail{path: "spec", message: "the node class changes: the nodes of all pools that use it drift, but where only the selectors change and find the same"})
		}
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// nodes returns how many nodes a pool has, by the NodeClaims and Nodes among the old objects, and in words; 0 when there are none.
func (c changes) nodes(pool string) (int, string) {
	n := 0
	for _, kind := range []string{"NodeClaim", "Node"} {
		for _, o := range c.before.kinds[kind] {
			if o.text("metadata", "labels", labelPool) == pool {
				n++
			}
		}
		if n > 0 {
			return n, strconv.Itoa(n) + " nodes"
		}
	}
	return 0, "nodes"
}

// rounds says how many rounds a drift takes at the pool's tightest budget that always holds, of so many nodes, or of any number
// when it is 0.
func rounds(p *Pool, nodes int) string {
	if p == nil {
		return ""
	}
	budgets := poolBudgets(p)
	if len(budgets) == 0 {
		budgets = []map[string]any{{"nodes": "10%"}} // the default
	}
	most, fixed := 0, math.MaxInt
	for _, b := range budgets {
		reasons, limited := b["reasons"].([]any)
		if b["schedule"] != nil || limited && !slices.Contains(reasons, any("Drifted")) {
			continue
		}
		text, _ := b["nodes"].(string)
		number, isShare := strings.CutSuffix(text, "%")
		value, err := strconv.Atoi(number)
		switch {
		case err != nil:
		case value == 0:
			return "no node is replaced: a budget of the pool is 0"
		case !isShare && nodes == 0:
			fixed = min(fixed, value)
		case !isShare:
			most = max(most, (nodes+value-1)/value)
		default:
			of := nodes
			if of == 0 {
				of = 100
			}
			atOnce := (of*value + 99) / 100
			most = max(most, (of+atOnce-1)/atOnce)
		}
	}
	switch {
	case most > 0:
		return fmt.Sprintf("about %d rounds at the pool's budgets", most)
	case fixed < math.MaxInt:
		return fmt.Sprintf("%d at a time, by the pool's budgets", fixed)
	}
	return "all at once: no budget of the pool limits drift at all times"
}

func changeRestarts(c changes, r *reporter) {
	for _, kind := range []string{"apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "argoproj.io/Rollout"} {
		group, name, _ := strings.Cut(kind, "/")
		for _, one := range c.both(group, name) {
			path := one.difference("spec", "template")
			if path == "" || one.new.controlled() {
				continue
			}
			what := "the pods of its replicas restart"
			if name == "DaemonSet" {
				what = "its pods on all nodes restart"
			}
			r.add(one.new, detail{path: path, message: "the pod template changes: " + what})
		}
	}
}

// difference returns the path of the first difference under some keys, "" when there is none. What a server has put into a live
// object beyond what the new manifest says is no difference.
func (c change) difference(keys ...string) string {
	old, _ := c.old.at(keys...)
	now, _ := c.new.at(keys...)
	_, live := c.old.at("metadata", "resourceVersion")
	return firstDifference(old, now, strings.Join(keys, "."), live)
}

func firstDifference(a, b any, path string, live bool) string {
	if reflect.DeepEqual(a, b) || isEmpty(a) && isEmpty(b) || live && isEmpty(b) {
		return ""
	}
	am, aIsMap := a.(map[string]any)
	bm, bIsMap := b.(map[string]any)
	if aIsMap && bIsMap {
		keys := maps.Clone(am)
		maps.Copy(keys, bm)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if found := firstDifference(am[key], bm[key], join(path, key), live); found != "" {
				return found
			}
		}
		return ""
	}
	al, aIsList := a.([]any)
	bl, bIsList := b.([]any)
	if aIsList && bIsList && len(al) == len(bl) {
		for i := range al {
			if found := firstDifference(al[i], bl[i], path+"["+strconv.Itoa(i)+"]", live); found != "" {
				return found
			}
		}
		return ""
	}
	if live && sameQuantity(a, b) {
		return ""
	}
	return path
}

// sameQuantity says whether two scalars are one quantity, which a server writes in its own form: 1000m is 1.
func sameQuantity(a, b any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	y, err2 := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && err2 == nil && x.Cmp(y) == 0
}

func changeLoosens(c changes, r *reporter) {
	for _, one := range c.list {
		if one.new == nil && one.old.Kind == "PodDisruptionBudget" && c.protects(one.old) {
			r.add(one.old, detail{message: "the budget goes", effective: "no limit on evictions"})
		}
	}
	for _, one := range c.both("", "Namespace") {
		was, is := one.old.text("metadata", "labels", protectLabel), one.new.text("metadata", "labels", protectLabel)
		if was == "enabled" && is != "enabled" {
			r.add(one.new, detail{path: join("metadata.labels", protectLabel), message: "the namespace is no longer protected: its pods are not replaced before they go"})
		}
	}
	old := map[string]*Workload{}
	for _, w := range c.before.Workloads {
		old[w.Object.Kind+"/"+w.Object.Namespace+"/"+w.Object.Name] = w
	}
	for _, w := range c.after.Workloads {
		if was := old[w.Object.Kind+"/"+w.Object.Namespace+"/"+w.Object.Name]; was != nil {
			loosened(was, w, r)
		}
	}
	budgets := map[string]*Budget{}
	for _, b := range c.before.Budgets {
		budgets[b.Object.Namespace+"/"+b.Object.Name] = b
	}
	for _, b := range c.after.Budgets {
		if was := budgets[b.Object.Namespace+"/"+b.Object.Name]; was != nil && len(b.Workloads) == 1 {
			allowsMore(was, b, r)
		}
	}
}

// allowsMore reports a budget that allows more than before, of the replicas that there will be.
func allowsMore(was, b *Budget, r *reporter) {
	replicas, _ := b.Workloads[0].fewest()
	before, _, _ := was.allowed(replicas)
	if now, words, path := b.allowed(replicas); now > before {
		r.add(b.Object, detail{path: path, effective: fmt.Sprintf("%d of %d may be evicted at once", min(now, replicas), replicas),
			message: fmt.Sprintf("the budget allows %d evictions at a time instead of %d (%s)", now, before, words)})
	}
}

// protects says whether a budget of before matches a workload that is still there.
func (c changes) protects(budget *Object) bool {
	for _, b := range c.before.Budgets {
		if b.Object == budget {
			return slices.ContainsFunc(b.Workloads, func(w *Workload) bool { return len(c.after.copies[w.Object.ID()]) > 0 })
		}
	}
	return false
}

// loosened reports what protected a workload and no longer does.
func loosened(was, w *Workload, r *reporter) {
	if !w.serves() {
		return
	}
	before, _ := was.fewest()
	if now, why := w.fewest(); now < before {
		o, path := w.Object, "spec.replicas"
		if len(w.Autoscalers) > 0 {
			o, path = w.Autoscalers[0].Object, "spec"
		}
		r.add(o, detail{path: path, message: fmt.Sprintf("%s %s has %d pods at the quietest time instead of %d (%s)", w.Object.Kind, w.Object.Name, now, before, why)})
	}
	if w.grace() < was.grace() {
		r.add(w.Object, detail{path: w.path("spec.terminationGracePeriodSeconds"), message: fmt.Sprintf("the pods have %d s to stop instead of %d s", w.grace(), was.grace())})
	}
	if key := was.keepsNode(); key != "" && w.keepsNode() == "" {
		r.add(w.Object, detail{path: w.path("metadata.annotations"), message: key + " goes from the pods: they may be disrupted"})
	}
}
