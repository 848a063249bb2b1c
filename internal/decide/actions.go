package decide

import (
	"time"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// actions lists what has to be written so that the World agrees with the verdict. Deciding again after they are applied
// yields none.
func (f facts) actions(w World, v Verdict) []Action {
	outlived := w.Handover != nil && w.Handover.Phase.Finished() && !w.Now.Before(w.Handover.Finished.Add(w.Settings.Keep))
	switch {
	case outlived && v.Outcome == Allow && v.Reason != ReasonObserved && v.Reason != ReasonDeadlineReached:
		return append(append(f.grant(w), undo(w)...), Action{Kind: DeleteHandover})
	case v.Reason == ReasonUserDoNotDisrupt && !w.Eviction && !active(w):
		return undo(w)
	case v.Outcome == Hold:
		return f.hold(w, v)
	case v.Reason == ReasonObserved:
		return f.observe(w, v)
	}
	return append(f.grant(w), f.letGo(w, v)...)
}

// hold records the Handover first, then asks for the replacement and marks the pod: whatever is cut off in between is found
// again from the record.
func (f facts) hold(w World, v Verdict) []Action {
	var as []Action
	if f.held {
		as = undo(w) // the pod is its user's, also when they said so in the middle
	}
	h := w.Handover
	if h != nil && h.Phase.Finished() {
		as, h = append(as, Action{Kind: DeleteHandover}), nil
	}
	if h == nil {
		as = append(as, Action{Kind: CreateHandover, Signal: f.signal, PodUID: w.Pod.UID})
	}
	// The new pod's start is what takes time, so the rollout comes first; Karpenter looks for a seat a second later at the
	// earliest, and the guard holds the pod meanwhile.
	if f.plan.restart {
		as = append(as, Action{Kind: RestartRollout, Value: w.Now.UTC().Format("2006-01-02T15:04:05.000Z07:00")})
	}
	if value := f.mark(w); value != "" {
		as = append(as, Action{Kind: MarkPod, PodUID: w.Pod.UID, Value: value})
	}
	if f.plan.release {
		as = append(as, Action{Kind: TakeControl, PodUID: w.Pod.UID})
	}
	phase := v1alpha1.PhasePending
	if f.plan.strategy != "" && f.plan.strategy != v1alpha1.StrategyNone {
		phase = v1alpha1.PhaseWaiting
	}
	return append(as, f.status(w, h, Status{Phase: phase, Strategy: f.plan.strategy, Reason: v.Reason, Message: v.Message})...)
}

// observe records that the pod would have been held, and nothing else.
func (f facts) observe(w World, v Verdict) []Action {
	if w.Handover != nil && w.Handover.Phase == v1alpha1.PhaseObserved {
		return nil
	}
	as := undo(w)
	if w.Handover == nil {
		as = append(as, Action{Kind: CreateHandover, Signal: f.signal, PodUID: w.Pod.UID})
	}
	return append(as, f.status(w, w.Handover, Status{Phase: v1alpha1.PhaseObserved, Reason: v.Reason, Message: v.Message, Finished: w.Now})...)
}

// grant records in the ledger an allowed eviction that takes a counted pod from a protected workload.
func (f facts) grant(w World) []Action {
	if !w.Eviction || !f.present || !f.counted || !f.handled || w.Namespace.Protection != v1alpha1.ProtectionEnabled || granted(w, *w.Pod) {
		return nil
	}
	return []Action{{Kind: GrantEviction, PodUID: w.Pod.UID}}
}

// letGo moves the Handover of a pod that may go to its next phase.
func (f facts) letGo(w World, v Verdict) []Action {
	if !active(w) {
		if v.Reason == ReasonNodeStays || v.Reason == ReasonNotProtected {
			return undo(w)
		}
		return unmark(w)
	}
	s := Status{Phase: v1alpha1.PhaseReleasing, Strategy: w.Handover.Strategy, Reason: v.Reason, Message: v.Message}
	switch {
	case v.Reason == ReasonPodGone:
		return f.status(w, w.Handover, f.finish(w))
	case v.Reason == ReasonPodNotCounted && w.Pod.Terminating && w.Handover.Phase == v1alpha1.PhaseReleasing:
		return nil
	case v.Reason == ReasonPodNotCounted && w.Pod.Terminating && f.handled && f.have >= f.need:
		s.Reason, s.Message = ReasonReplaced, "the pod is stopping, and the workload keeps its floor without it"
		return f.status(w, w.Handover, s)
	case v.Reason == ReasonPodNotCounted && (w.Pod.Terminating || w.Pod.Terminal):
		return f.status(w, w.Handover, s)
	case v.Reason == ReasonReplaced && w.Pod.Released:
		var as []Action
		if w.Handover.Replicas > 0 {
			as = append(as, Action{Kind: Discount, PodUID: w.Pod.UID})
		}
		return append(append(as, f.status(w, w.Handover, s)...), Action{Kind: EvictPod, PodUID: w.Pod.UID})
	case v.Reason == ReasonReplaced:
		// The Deployment removes the pod; the mark stays on until then, else Karpenter buys a second seat for it.
		return f.status(w, w.Handover, s)
	case v.Reason == ReasonSpare:
		return append(undo(w), f.status(w, w.Handover, s)...)
	case v.Reason == ReasonDeadlineReached:
		s.Phase, s.Finished = v1alpha1.PhaseFailed, w.Now
		as := unmark(w)
		if f.signal == v1alpha1.SignalEviction {
			as = undo(w) // the node may stay, and then two copies must become one again
		}
		return append(as, f.status(w, w.Handover, s)...)
	}
	s.Phase, s.Finished = v1alpha1.PhaseCancelled, w.Now
	return append(undo(w), f.status(w, w.Handover, s)...)
}

// finish says how a Handover ended whose pod is gone.
func (f facts) finish(w World) Status {
	s := Status{Phase: v1alpha1.PhaseDone, Strategy: w.Handover.Strategy, Reason: ReasonReplaced,
		Message: "the replacement served before the pod was gone", Finished: w.Now}
	switch {
	case !f.handled:
		s.Phase, s.Reason, s.Message = v1alpha1.PhaseCancelled, ReasonWorkloadDeleted, "the workload is gone"
	case f.have < f.need:
		s.Phase, s.Reason, s.Message = v1alpha1.PhaseFailed, ReasonPodGone, "the pod was taken away before a replacement served"
	}
	return s
}

// mark returns the value for karpenter.sh/do-not-disrupt, or nothing when the pod is not to be marked. The value is a
// duration from the pod's start until a minute after the deadline, so that it ends by itself should Segue be gone.
func (f facts) mark(w World) string {
	if f.held || !w.Nodes[w.Pod.Node].Karpenter || w.Pod.Held != "" || w.Pod.DoNotDisrupt != "" || w.Pod.StartTime.IsZero() {
		return ""
	}
	until := f.deadline
	if !active(w) {
		until = newDeadline(w)
	}
	return until.Add(time.Minute).Sub(w.Pod.StartTime).Round(time.Second).String()
}

// undo takes back all that was done to the pod.
func undo(w World) []Action {
	as := unmark(w)
	if w.Pod != nil && w.Pod.Released && !w.Pod.Terminating {
		as = append(as, Action{Kind: GiveBack, PodUID: w.Pod.UID})
	}
	return as
}

func unmark(w World) []Action {
	if w.Pod == nil || w.Pod.Held == "" {
		return nil
	}
	return []Action{{Kind: UnmarkPod, PodUID: w.Pod.UID}}
}

// status returns the write of a status, unless h already says the same.
func (f facts) status(w World, h *Handover, s Status) []Action {
	if w.Workload != nil && w.Workload.Deployment != nil && s.Strategy != "" && s.Strategy != v1alpha1.StrategyNone {
		s.Replacement, s.Serves = replacement(w)
	}
	if s.Replacement == nil && h != nil {
		s.Replacement = h.Replacement
	}
	if h == nil {
		s.Deadline = newDeadline(w)
	} else {
		s.Deadline = f.deadline
		same := h.Phase == s.Phase && h.Strategy == s.Strategy && h.Reason == s.Reason && h.Message == s.Message && h.Deadline.Equal(s.Deadline)
		if same && (s.Replacement == nil) == (h.Replacement == nil) && (s.Replacement == nil || *s.Replacement == *h.Replacement) {
			return nil
		}
	}
	return []Action{{Kind: SetStatus, Status: &s}}
}
