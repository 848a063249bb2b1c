package audit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// term is one condition of a workload on the labels of its nodes.
type term struct {
	Requirement
	path string
}

// alternatives returns what a workload requires of its nodes: one of the lists, each with all of its terms. Without requirements
// there is one empty list.
func (w *Workload) alternatives() [][]term {
	var fixed []term
	for _, key := range slices.Sorted(maps.Keys(w.Pod.NodeSelector)) {
		fixed = append(fixed, term{Requirement{key, "In", []string{w.Pod.NodeSelector[key]}}, join(w.path("spec.nodeSelector"), key)})
	}
	if w.Pod.Affinity == nil || w.Pod.Affinity.NodeAffinity == nil || w.Pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return [][]term{fixed}
	}
	var out [][]term
	for i, alternative := range w.Pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		terms := slices.Clone(fixed)
		for j, e := range alternative.MatchExpressions {
			path := w.path(fmt.Sprintf("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d].matchExpressions[%d]", i, j))
			terms = append(terms, term{Requirement{e.Key, string(e.Operator), e.Values}, path})
		}
		out = append(out, terms)
	}
	return out
}

// terms returns all of a workload's terms, each once.
func (w *Workload) terms() []term {
	var out []term
	seen := map[string]bool{}
	for _, alternative := range w.alternatives() {
		for _, t := range alternative {
			if !seen[t.path] {
				seen[t.path] = true
				out = append(out, t)
			}
		}
	}
	return out
}

// satisfies says whether some node of the pool may fulfil a term.
func (p *Pool) satisfies(t term) bool {
	switch t.Operator {
	case string(corev1.NodeSelectorOpIn):
		return slices.ContainsFunc(t.Values, func(v string) bool { return p.allows(t.Key, v) })
	case string(corev1.NodeSelectorOpNotIn):
		if own, ok := p.Labels[t.Key]; ok {
			return !slices.Contains(t.Values, own)
		}
		if t.Key == labelPool {
			return !slices.Contains(t.Values, p.Object.Name)
		}
		for _, r := range p.Requirements {
			if r.Key == t.Key && r.Operator == "In" {
				return slices.ContainsFunc(r.Values, func(v string) bool { return !slices.Contains(t.Values, v) })
			}
		}
		return true
	case string(corev1.NodeSelectorOpExists):
		return p.names(t.Key) || providerSets(t.Key)
	case string(corev1.NodeSelectorOpDoesNotExist):
		return !p.names(t.Key) && t.Key != labelPool && t.Key != labelCapacityType
	}
	return true
}

// names says whether a pool's labels or requirements have a key.
func (p *Pool) names(key string) bool {
	_, labelled := p.Labels[key]
	return labelled || slices.ContainsFunc(p.Requirements, func(r Requirement) bool { return r.Key == key })
}

// fits says whether the pool fulfils one of the alternatives, taints not looked at.
func (p *Pool) fits(w *Workload) bool {
	return slices.ContainsFunc(w.alternatives(), func(alternative []term) bool {
		return !slices.ContainsFunc(alternative, func(t term) bool { return !p.satisfies(t) })
	})
}

// takes says whether the pool may run a workload's pods.
func (p *Pool) takes(w *Workload) bool { return p.fits(w) && tolerated(w.Pod.Tolerations, p.Taints) }

// poolsFor returns the pools that may run a workload's pods.
func (inv *Inventory) poolsFor(w *Workload) []*Pool {
	var found []*Pool
	for _, p := range inv.Pools {
		if inv.together(p.Object, w.Object) && p.takes(w) {
			found = append(found, p)
		}
	}
	return found
}

// onSpot says whether a workload's pods run on spot nodes for sure: they ask for it, or all pools that take them have nothing else.
func (inv *Inventory) onSpot(w *Workload) bool {
	asks := !slices.ContainsFunc(w.alternatives(), func(alternative []term) bool {
		return !slices.ContainsFunc(alternative, func(t term) bool {
			spot := map[string]string{labelCapacityType: "spot", "eks.amazonaws.com/capacityType": "SPOT"}[t.Key]
			return spot != "" && t.Operator == "In" && len(t.Values) == 1 && t.Values[0] == spot
		})
	})
	if asks {
		return true
	}
	if !slices.ContainsFunc(w.terms(), func(t term) bool { return inv.named(t.Key) }) {
		return false // it may run on nodes that no pool makes
	}
	pools := inv.poolsFor(w)
	return len(pools) > 0 && !slices.ContainsFunc(pools, func(p *Pool) bool { return !p.onlySpot() })
}

// named says whether a key is one that pools give to their nodes.
func (inv *Inventory) named(key string) bool {
	return key == labelPool || slices.ContainsFunc(inv.Pools, func(p *Pool) bool { return p.names(key) && !providerSets(key) })
}
