package decide

import (
	"fmt"
	"time"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// Departure decides whether the World's subject may go now, and what has to be done about it. The guard, the controllers and the
// command line ask nothing else.
func Departure(w World) Verdict {
	f := gather(w)
	v := f.answer(w)
	v.Checks = f.checks(w)
	v.Actions = f.actions(w, v)
	v.LookAgain = f.lookAgain(w, v)
	return v
}

// facts are what the answer rests on.
type facts struct {
	present, protected, counted, handled, held bool
	// signal is why the pod must go; empty when nothing says so.
	signal v1alpha1.Signal
	// need and have are the workload's floor and its Available pods on staying nodes without the subject.
	need, have int
	floorWhy   string
	// available is when a pod that is Ready becomes Available.
	available time.Time
	// deadline is when the pod is let go at the latest, and release a margin before it; zero when no Handover exists.
	deadline, release time.Time
	plan              plan
}

func gather(w World) facts {
	f := facts{protected: w.Namespace.Protection == v1alpha1.ProtectionEnabled || w.Namespace.Protection == v1alpha1.ProtectionObserve}
	f.handled = w.Workload != nil && w.Workload.Deployment != nil && !w.Workload.Deployment.Terminating
	f.deadline, f.release = deadline(w)
	if w.Pod != nil {
		f.present, f.counted, f.held = true, counted(*w.Pod), heldByUser(*w.Pod, w.Now)
		f.signal = signal(w)
	}
	if !f.handled {
		return f
	}
	f.need, f.floorWhy = floor(w)
	f.have, f.available = staying(w, f.present && !f.held && (w.Pod.Released || replaces(w)))
	switch {
	case f.held:
		f.plan = plan{strategy: v1alpha1.StrategyNone, reason: ReasonUserDoNotDisrupt,
			message: "the pod's user asked not to disrupt it; an eviction is held until the deadline"}
	case f.present:
		f.plan = choose(w, f.need)
	}
	return f
}

// signal returns why the pod must go: its node leaves, or somebody evicts it, or did so earlier and was held.
func signal(w World) v1alpha1.Signal {
	if s := w.Nodes[w.Pod.Node].Signal; s != "" {
		return s
	}
	if w.Eviction || (active(w) && w.Handover.Signal == v1alpha1.SignalEviction) {
		return v1alpha1.SignalEviction
	}
	return ""
}

// deadline returns when the pod is let go at the latest. It can move closer, never away: the stored one is kept.
func deadline(w World) (at, release time.Time) {
	at = nodeDeadline(w)
	if w.Handover != nil {
		at = earliest(at, earliest(w.Handover.Created.Add(w.Settings.MaxWait), w.Handover.Deadline))
	}
	if at.IsZero() {
		return at, at
	}
	return at, at.Add(-w.Settings.Margin)
}

// newDeadline is the deadline of a Handover that is made now. Times in the API have whole seconds; rounded down, the one
// that is stored is never later than the one that the Handover's creation gives.
func newDeadline(w World) time.Time {
	return earliest(w.Now.Add(w.Settings.MaxWait).Truncate(time.Second), nodeDeadline(w))
}

// nodeDeadline is when the pod must begin to stop so that it can do so gracefully before Karpenter ends its node; zero when
// the node has no such time. It mirrors the rule of Karpenter's pkg/controllers/node/termination/terminator/terminator.go.
func nodeDeadline(w World) time.Time {
	if w.Pod == nil || w.Nodes[w.Pod.Node].TerminatesAt.IsZero() {
		return time.Time{}
	}
	return w.Nodes[w.Pod.Node].TerminatesAt.Add(-w.Pod.Grace)
}

// active reports whether a Handover is under way.
func active(w World) bool { return w.Handover != nil && !w.Handover.Phase.Finished() }

// spent reports whether the pod's Handover ended at its deadline, so that the pod is not held a second time: as long as its
// node still leaves, and as long again as it was held.
func spent(w World, f facts) bool {
	if w.Handover == nil || w.Handover.Phase != v1alpha1.PhaseFailed {
		return false
	}
	return (f.signal != "" && f.signal != v1alpha1.SignalEviction) || w.Now.Before(w.Handover.Finished.Add(w.Settings.MaxWait))
}

// late reports whether the deadline is so near that the pod has to be let go. A Handover that has ended no longer counts.
func (f facts) late(w World) bool {
	if w.Handover != nil && w.Handover.Phase.Finished() {
		end := nodeDeadline(w)
		return !end.IsZero() && !w.Now.Before(end.Add(-w.Settings.Margin))
	}
	return !f.release.IsZero() && !w.Now.Before(f.release)
}

func (f facts) answer(w World) Verdict {
	allow := func(r Reason, format string, a ...any) Verdict {
		return Verdict{Outcome: Allow, Reason: r, Message: fmt.Sprintf(format, a...)}
	}
	switch {
	case !f.present:
		return allow(ReasonPodGone, "pod %s does not exist", w.PodName)
	case !f.protected:
		return allow(ReasonNotProtected, "namespace %s is not protected; label it %s=%s", w.Namespace.Name, v1alpha1.ProtectLabel, v1alpha1.ProtectionEnabled)
	case !f.counted:
		return allow(ReasonPodNotCounted, "pod %s is not Ready, or is ending, so nobody depends on it", w.PodName)
	case w.Workload != nil && w.Workload.Deployment != nil && w.Workload.Deployment.Terminating:
		return allow(ReasonWorkloadDeleted, "Deployment %s is being deleted", w.Workload.Name)
	case !f.handled:
		return allow(ReasonNoStrategyForKind, "pod %s does not belong to a Deployment", w.PodName)
	case f.signal == "":
		return allow(ReasonNodeStays, "nothing says that pod %s must go", w.PodName)
	case f.plan.removes && w.Namespace.Protection == v1alpha1.ProtectionEnabled && active(w) && w.Handover.Strategy == v1alpha1.StrategyRollout && !f.late(w):
		// Evicted now, the pod would be made anew by its old ReplicaSet, which the rollout has not scaled in yet.
		return Verdict{Outcome: Hold, Reason: f.plan.reason, Message: f.plan.message}
	case f.have >= f.need:
		if active(w) && (w.Handover.Strategy == v1alpha1.StrategyRollout || (w.Pod.Released && !f.held)) {
			return allow(ReasonReplaced, "Deployment %s has the %d Available on nodes that stay that it needs", w.Workload.Name, f.need)
		}
		return allow(ReasonSpare, "Deployment %s keeps the %d Available on nodes that stay that it needs", w.Workload.Name, f.need)
	case spent(w, f) || f.late(w):
		return allow(ReasonDeadlineReached, "pod %s is let go without a replacement that serves: %s", w.PodName, f.plan.message)
	case w.Namespace.Protection == v1alpha1.ProtectionObserve:
		return allow(ReasonObserved, "observed only; would be held: %s", f.plan.message)
	}
	return Verdict{Outcome: Hold, Reason: f.plan.reason, Message: f.plan.message}
}

// checks lists every question with its answer, whatever the answer was decided by.
func (f facts) checks(w World) []Check {
	cs := []Check{
		{"exists", !f.present, fmt.Sprintf("pod %s exists: %t", w.PodName, f.present)},
		{"protected", !f.protected, fmt.Sprintf("%s=%s on namespace %s", v1alpha1.ProtectLabel, w.Namespace.Protection, w.Namespace.Name)},
		{"counted", !f.counted, fmt.Sprintf("Ready, scheduled and not ending: %t", f.counted)},
		{"workload", !f.handled, fmt.Sprintf("belongs to a live Deployment: %t", f.handled)},
		{"leaving", f.signal == "", fmt.Sprintf("signal: %s", orNone(string(f.signal)))},
	}
	if f.handled {
		cs = append(cs, Check{"floor", f.have >= f.need, fmt.Sprintf("%d Available on staying nodes without this pod; needs %s", f.have, f.floorWhy)})
	}
	if !f.release.IsZero() {
		cs = append(cs, Check{"deadline", !w.Now.Before(f.release), "let go at " + f.release.UTC().Format(time.RFC3339)})
	}
	if f.present && f.handled {
		cs = append(cs, Check{"strategy", false, fmt.Sprintf("%s: %s", orNone(string(f.plan.strategy)), f.plan.reason)})
	}
	return cs
}

func (f facts) lookAgain(w World, v Verdict) time.Time {
	if v.Outcome == Hold {
		again := earliest(f.available, f.release)
		for _, g := range w.Grants {
			if end := g.At.Add(w.Settings.GrantTTL); end.After(w.Now) {
				again = earliest(again, end)
			}
		}
		return again
	}
	if w.Handover != nil && w.Handover.Phase.Finished() {
		return w.Handover.Finished.Add(w.Settings.Keep)
	}
	return time.Time{}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
