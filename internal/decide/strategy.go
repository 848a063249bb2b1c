package decide

import (
	"github.com/segue-dev/segue/api/v1alpha1"
)

// plan is how the replacement of a pod that must be held is made, or why it is not.
type plan struct {
	strategy v1alpha1.Strategy // empty: not chosen yet
	reason   Reason
	message  string
	// restart asks for the rollout now.
	restart bool
	// removes says that a rollout is under way that takes the pod away by itself once its replacement is Available.
	removes bool
	// release asks to make the Handover the controller of the pod now.
	release bool
}

// choose picks the strategy: a rollout when the workload has one pod or all of them are at risk, and Replace when others
// stay or a rollout will not do. One that has begun is kept: half of each would be two replacements.
func choose(w World, need int) plan {
	if w.Pod.Released || replaces(w) {
		return planReplace(w)
	}
	p := planRollout(w, need)
	if begun := p.strategy == v1alpha1.StrategyRollout && !p.restart; begun || !mayReplace(w) {
		return p
	}
	r := planReplace(w)
	switch {
	case p.reason == ReasonRolloutReverted && r.strategy == "":
		return p // the record is what keeps the rollout from being started again
	case p.reason == ReasonDeploymentPaused, p.reason == ReasonRolloutBelowFloor, p.reason == ReasonRolloutReverted, someStay(w):
		return r
	}
	return p
}

// replaces reports whether the pod's Handover has chosen Replace.
func replaces(w World) bool {
	return active(w) && w.Handover.Strategy == v1alpha1.StrategyReplace
}

// someStay reports whether other pods of the workload serve on nodes that stay: then not all are at risk, and a rollout
// would replace more than it must.
func someStay(w World) bool {
	for _, p := range w.Pods {
		if p.Name != w.PodName && !p.Released && counted(p) && stays(w, p.Node) {
			return true
		}
	}
	return false
}
