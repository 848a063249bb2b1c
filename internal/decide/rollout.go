package decide

import (
	"fmt"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// planRollout decides how a pod that its workload cannot spare is replaced by a rollout of its Deployment.
func planRollout(w World, need int) plan {
	d, name := w.Workload.Deployment, "Deployment "+w.Workload.Name
	superseded := d.Observed && d.Revision != "" && w.Pod.Revision != d.Revision
	started := active(w) && (w.Handover.Strategy == v1alpha1.StrategyRollout || w.Handover.Reason == ReasonRolloutReverted)
	underway := plan{strategy: v1alpha1.StrategyRollout, reason: ReasonRolloutStarted,
		message: name + " is being rolled out, which takes the pod away once its replacement is Available"}
	switch {
	case superseded && d.ProgressFailed:
		return plan{strategy: v1alpha1.StrategyRollout, reason: ReasonRolloutStuck,
			message: name + " exceeded its progress deadline; the pod is held until the deadline. See why the new pod does not become Available"}
	case superseded:
		underway.removes = !d.Settled && !d.Paused
		return underway
	case started && d.Settled && d.Observed && d.Generation >= w.Handover.Generation:
		return plan{strategy: v1alpha1.StrategyNone, reason: ReasonRolloutReverted,
			message: name + " was rolled out for this pod, and somebody took the change back; the pod is held until the deadline"}
	case started:
		return underway
	}
	if reason, message := refuseRollout(w, need); reason != "" {
		return plan{strategy: v1alpha1.StrategyNone, reason: reason, message: name + " " + message + "; the pod is held until the deadline"}
	}
	if !d.Settled || !d.Observed {
		return plan{reason: ReasonRolloutInFlight, message: name + " is already rolling out; the next step waits until it has finished"}
	}
	underway.restart = true
	return underway
}

// refuseRollout returns why a rollout must not be started; an empty reason when it may.
func refuseRollout(w World, need int) (Reason, string) {
	d := w.Workload.Deployment
	switch {
	case d.Paused:
		return ReasonDeploymentPaused, "is paused; resume it to let it be rolled out"
	case d.Recreate:
		return ReasonMustStaySingle, "has the strategy Recreate, so a rollout would stop the pod first"
	case d.MaxSurge < 1:
		return ReasonMustStaySingle, "has a maxSurge of 0, so a rollout would stop the pod first"
	case int(d.Replicas-d.MaxUnavailable) < need:
		return ReasonRolloutBelowFloor, fmt.Sprintf("allows %d unavailable, so a rollout would take it below %d", d.MaxUnavailable, need)
	case w.Pod.ExclusiveVolume != "":
		return ReasonExclusiveVolume, fmt.Sprintf("mounts the claim %s, which a second pod elsewhere cannot mount", w.Pod.ExclusiveVolume)
	}
	return "", ""
}

// replacement returns the newest live pod of the current revision other than the subject, preferring one that serves on a
// node that stays, and whether it does.
func replacement(w World) (*v1alpha1.Replacement, bool) {
	var best *Pod
	serves := false
	for i := range w.Pods {
		p := &w.Pods[i]
		if p.Name == w.PodName || p.Released || p.Terminating || p.Terminal || p.Revision != w.Workload.Deployment.Revision {
			continue
		}
		ok := counted(*p) && stays(w, p.Node) && !p.ReadySince.Add(w.Workload.Deployment.MinReady).After(w.Now)
		if best == nil || (ok && !serves) || (ok == serves && newer(p, best)) {
			best, serves = p, ok
		}
	}
	if best == nil {
		return nil, false
	}
	return &v1alpha1.Replacement{Name: best.Name, UID: best.UID, Node: best.Node}, serves
}

// newer orders pods by creation, and by name within the same second, so that the choice does not flap.
func newer(a, b *Pod) bool {
	if a.Created.Equal(b.Created) {
		return a.Name > b.Name
	}
	return a.Created.After(b.Created)
}
