package audit

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/segue-dev/segue/internal/audit/schemas"
)

// Inventory is what all rules look at: the objects, what of them runs pods, and what selects what.
type Inventory struct {
	Objects   []*Object
	Problems  []Problem
	Workloads []*Workload
	Budgets   []*Budget
	Services  []*Service
	// Autoscalers are HorizontalPodAutoscalers and ScaledObjects.
	Autoscalers []*Autoscaler
	Pools       []*Pool

	schemas    *schemas.Set
	kinds      map[string][]*Object // by kind
	copies     map[string][]*Object // by ID: more than one where folders hold environments
	byLabel    map[string][]*Workload
	namespaces map[string][]*Workload
	priorities map[string]int64 // PriorityClass to value
}

func newInventory(objects []*Object, problems []Problem, set *schemas.Set) *Inventory {
	inv := &Inventory{
		Objects: objects, Problems: problems, schemas: set,
		kinds: map[string][]*Object{}, copies: map[string][]*Object{},
		byLabel: map[string][]*Workload{}, namespaces: map[string][]*Workload{},
	}
	for _, o := range objects {
		inv.kinds[o.Kind] = append(inv.kinds[o.Kind], o)
		inv.copies[o.ID()] = append(inv.copies[o.ID()], o)
	}
	inv.priorities = priorityClasses(inv.kinds["PriorityClass"])
	for _, o := range objects {
		if w := newWorkload(o); w != nil {
			inv.addWorkload(w)
		}
		if p := newPool(o); p != nil {
			inv.Pools = append(inv.Pools, p)
		}
	}
	for _, o := range objects {
		inv.addSelector(o)
	}
	inv.addAutoscalers()
	return inv
}

func (inv *Inventory) addWorkload(w *Workload) {
	inv.Workloads = append(inv.Workloads, w)
	inv.namespaces[w.Object.Namespace] = append(inv.namespaces[w.Object.Namespace], w)
	for key, value := range w.Labels {
		at := w.Object.Namespace + "\x00" + key + "=" + value
		inv.byLabel[at] = append(inv.byLabel[at], w)
	}
}

// addSelector reads a budget or a service and connects it with the workloads whose pods it selects.
func (inv *Inventory) addSelector(o *Object) {
	switch {
	case o.Kind == "PodDisruptionBudget" && o.Group() == "policy":
		b := newBudget(o)
		if b == nil {
			return
		}
		inv.Budgets = append(inv.Budgets, b)
		for _, w := range inv.selected(o, b.selector) {
			b.Workloads = append(b.Workloads, w)
			w.Budgets = append(w.Budgets, b)
		}
	case o.Kind == "Service" && o.Group() == "":
		s := newService(o)
		if s == nil {
			return
		}
		inv.Services = append(inv.Services, s)
		for _, w := range inv.selected(o, s.selector) {
			s.Workloads = append(s.Workloads, w)
			w.Services = append(w.Services, s)
		}
	}
}

// selected returns the workloads of the selecting object's namespace and environment whose pods a selector matches.
func (inv *Inventory) selected(o *Object, s selector) []*Workload {
	candidates := inv.namespaces[o.Namespace]
	for key, value := range s.labels {
		if with := inv.byLabel[o.Namespace+"\x00"+key+"="+value]; len(with) < len(candidates) {
			candidates = with
		}
	}
	var found []*Workload
	for _, w := range candidates {
		if s.matches(w.Labels) && inv.together(o, w.Object) {
			found = append(found, w)
		}
	}
	return found
}

// together says whether two objects belong to one environment. Folders often hold several, such as staging and production, with
// the same objects in each: of several copies the nearest belongs.
func (inv *Inventory) together(a, b *Object) bool {
	return inv.nearest(a, b) && inv.nearest(b, a)
}

// nearest says whether no copy of o in another folder is nearer to where from stands.
func (inv *Inventory) nearest(from, o *Object) bool {
	copies := inv.copies[o.ID()]
	if len(copies) < 2 {
		return true
	}
	own := common(from.File(), o.File())
	return !slices.ContainsFunc(copies, func(c *Object) bool { return common(from.File(), c.File()) > own })
}

// common returns how many leading folders two files share.
func common(a, b string) int {
	as, bs := strings.Split(path.Dir(a), "/"), strings.Split(path.Dir(b), "/")
	n := 0
	for n < len(as) && n < len(bs) && as[n] == bs[n] {
		n++
	}
	return n
}

// of returns the objects of a kind in any version of a group.
func (inv *Inventory) of(group, kind string) []*Object {
	var found []*Object
	for _, o := range inv.kinds[kind] {
		if o.Group() == group {
			found = append(found, o)
		}
	}
	return found
}

func priorityClasses(objects []*Object) map[string]int64 {
	values := map[string]int64{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
	for _, o := range objects {
		if v, ok := o.at("value"); ok {
			if value, ok := v.(int64); ok {
				values[o.Name] = value
				if isDefault, _ := o.at("globalDefault"); isDefault == true {
					values[""] = value
				}
			}
		}
	}
	return values
}

// priority returns a pod's priority, and whether it can be told from the objects.
func (inv *Inventory) priority(pod *corev1.PodSpec) (int64, bool) {
	if pod.Priority != nil {
		return int64(*pod.Priority), true
	}
	value, ok := inv.priorities[pod.PriorityClassName]
	return value, ok || pod.PriorityClassName == ""
}
