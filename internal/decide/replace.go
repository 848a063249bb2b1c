package decide

import (
	"github.com/segue-dev/segue/api/v1alpha1"
)

// planReplace decides how a pod that its workload cannot spare is replaced alone: its Handover becomes its controller, so
// that its ReplicaSet makes exactly one other pod, while Services and budgets, which go by labels, still see it.
func planReplace(w World) plan {
	name := "Deployment " + w.Workload.Name
	wait := plan{reason: ReasonRolloutInFlight}
	if replaces(w) {
		wait.strategy = v1alpha1.StrategyReplace
	}
	switch {
	case w.Pod.Released:
	case scalingIn(w):
		wait.message = name + " is scaling in; the next step waits until it has finished"
		return wait
	case !w.Workload.Deployment.Settled:
		wait.message = name + " is already rolling out; the next step waits until it has finished"
		return wait
	}
	return plan{strategy: v1alpha1.StrategyReplace, reason: ReasonReplaceStarted, release: !w.Pod.Released,
		message: name + " makes one more pod; this one serves until that one does, on a node that stays"}
}

// mayReplace reports whether a pod can be replaced alone: its ReplicaSet is known, a second copy is allowed, and no volume ties
// the copies together. On a node that Cluster Autoscaler drains it is not: that gives up on a node with a pod whose controller
// it does not know (--skip-nodes-with-custom-controller-pods).
func mayReplace(w World) bool {
	d := w.Workload.Deployment
	return w.Pod.ReplicaSet != nil && !d.Recreate && d.MaxSurge > 0 && w.Pod.ExclusiveVolume == "" &&
		w.Nodes[w.Pod.Node].Signal != v1alpha1.SignalClusterAutoscalerDeletion
}

// scalingIn reports whether the workload's controller still has to take pods away: then the subject may be spare in a moment.
func scalingIn(w World) bool {
	live := 0
	for _, p := range w.Pods {
		if !p.Released && !p.Terminating && !p.Terminal {
			live++
		}
	}
	return w.Workload.Deployment.Settled && live > int(w.Workload.Deployment.Replicas)
}
