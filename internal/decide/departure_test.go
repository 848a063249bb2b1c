package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// onePod is a World in which the only pod of a Deployment is on a node that Karpenter disrupts.
func onePod() World {
	p := Pod{Name: "p0", UID: "uid-0", Node: "a", Revision: "r1", Ready: true, ReadySince: start.Add(-time.Hour), StartTime: start.Add(-time.Hour), Grace: 60 * time.Second,
		ReplicaSet: &OwnerSet{Name: "web-r1", UID: "rs"}}
	return World{
		Now: start, Settings: DefaultSettings(), Namespace: Namespace{Name: "ns", Protection: v1alpha1.ProtectionEnabled},
		PodName: "p0", Pod: &p, Pods: []Pod{p},
		Nodes: map[string]Node{"a": {Name: "a", Signal: v1alpha1.SignalKarpenterDisrupted, Karpenter: true}, "b": {Name: "b"}},
		Workload: &Workload{APIVersion: "apps/v1", Kind: KindDeployment, Name: "web", UID: "d", Deployment: &Deployment{
			Replicas: 1, MaxSurge: 1, Observed: true, Settled: true, Revision: "r1"}},
	}
}

// withSome is a World with a second replica on a node that stays, and a budget that wants both.
func withSome(w World) World {
	w.Workload.Deployment.Replicas = 2
	w.Pods = append(w.Pods, Pod{Name: "p1", UID: "uid-1", Node: "b", Revision: "r1", Ready: true, ReadySince: start.Add(-time.Hour)})
	w.Budgets = []Budget{{Name: "web", DesiredHealthy: 2}}
	return w
}

// release makes the Handover the controller of the subject, and adds the pod that replaces it, Ready for a while.
func release(w *World, h *Handover, ready time.Duration) {
	h.Strategy, h.Replicas = v1alpha1.StrategyReplace, 1
	w.Handover, w.Pod.Released, w.Pod.DoNotDisrupt, w.Pod.Held = h, true, "2h", "2h"
	w.Pods[0] = *w.Pod
	w.Pods = append(w.Pods, Pod{Name: "p2", UID: "uid-2", Node: "b", Revision: "r1", Ready: true, ReadySince: start.Add(-ready)})
}

func with(w World, change func(*World)) World {
	change(&w)
	return w
}

func kinds(v Verdict) []ActionKind {
	var out []ActionKind
	for _, a := range v.Actions {
		out = append(out, a.Kind)
	}
	return out
}

func TestDeparture(t *testing.T) {
	handover := func(age time.Duration, phase v1alpha1.Phase) *Handover {
		return &Handover{Name: "h", PodUID: "uid-0", Node: "a", Signal: v1alpha1.SignalKarpenterDisrupted, Created: start.Add(-age), Phase: phase}
	}
	for name, c := range map[string]struct {
		world   World
		outcome Outcome
		reason  Reason
		actions []ActionKind
		phase   v1alpha1.Phase // what SetStatus writes; not compared when empty
	}{
		"E1: the only pod is replaced first": {onePod(), Hold, ReasonRolloutStarted,
			[]ActionKind{CreateHandover, RestartRollout, MarkPod, SetStatus}, ""},
		"E9: a pod that is not Ready goes at once": {with(onePod(), func(w *World) { w.Pod.Ready = false }), Allow, ReasonPodNotCounted, nil, ""},
		"E10: a rollout in flight is waited for": {with(onePod(), func(w *World) { w.Workload.Deployment.Settled = false }), Hold, ReasonRolloutInFlight,
			[]ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"E10: a pod that a rollout replaces anyway": {with(onePod(), func(w *World) {
			w.Workload.Deployment.Settled, w.Workload.Deployment.Revision = false, "r2"
		}), Hold, ReasonRolloutStarted, []ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"a rollout under way takes the pod away itself, also when enough others serve": {with(onePod(), func(w *World) {
			d := w.Workload.Deployment
			d.Settled, d.Revision = false, "r2"
			w.Handover = handover(time.Minute, v1alpha1.PhaseWaiting)
			w.Handover.Strategy = v1alpha1.StrategyRollout
			w.Pods = append(w.Pods, Pod{Name: "p1", UID: "uid-1", Node: "b", Revision: "r2", Ready: true, ReadySince: start.Add(-time.Minute)})
		}), Hold, ReasonRolloutStarted, []ActionKind{MarkPod, SetStatus}, ""},
		"a rollout in flight may take one of those that stay: they do not all count": {with(withSome(onePod()), func(w *World) {
			d := w.Workload.Deployment
			d.Settled, d.Revision = false, "r2"
			w.Pods = append(w.Pods, Pod{Name: "p2", UID: "uid-2", Node: "b", Revision: "r2", Ready: true, ReadySince: start.Add(-time.Minute)})
		}), Hold, ReasonRolloutStarted, []ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"scaling in may take the one that stays": {with(withSome(onePod()), func(w *World) {
			w.Workload.Deployment.Replicas, w.Budgets = 1, nil
		}), Hold, ReasonRolloutInFlight, []ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"another pod was already allowed to go": {with(withSome(onePod()), func(w *World) {
			w.Budgets, w.Eviction = nil, true
			w.Grants = []Grant{{Pod: "uid-1", At: start.Add(-time.Minute)}}
		}), Hold, ReasonReplaceStarted, []ActionKind{CreateHandover, MarkPod, TakeControl, SetStatus}, ""},
		"a grant of which nothing came is over": {with(withSome(onePod()), func(w *World) {
			w.Budgets, w.Eviction = nil, true
			w.Grants = []Grant{{Pod: "uid-1", At: start.Add(-2 * time.Minute)}}
		}), Allow, ReasonSpare, []ActionKind{GrantEviction}, ""},
		"a pod that is Ready but not Available yet does not count": {with(withSome(onePod()), func(w *World) {
			w.Budgets, w.Workload.Deployment.MinReady = nil, 10*time.Second
			w.Pods[1].ReadySince = start.Add(-9 * time.Second)
		}), Hold, ReasonReplaceStarted, []ActionKind{CreateHandover, MarkPod, TakeControl, SetStatus}, ""},
		"a pod on a cordoned node does not count": {with(withSome(onePod()), func(w *World) {
			w.Budgets = nil
			w.Nodes["b"] = Node{Name: "b", Hint: "Cordoned"}
		}), Hold, ReasonRolloutStarted, []ActionKind{CreateHandover, RestartRollout, MarkPod, SetStatus}, ""},
		"E12: Recreate": {with(onePod(), func(w *World) { w.Workload.Deployment.Recreate = true }), Hold, ReasonMustStaySingle,
			[]ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"E13: maxSurge 0": {with(onePod(), func(w *World) { w.Workload.Deployment.MaxSurge, w.Workload.Deployment.MaxUnavailable = 0, 1 }), Hold, ReasonMustStaySingle,
			[]ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"E13: maxUnavailable covers all replicas: replaced alone": {with(onePod(), func(w *World) { w.Workload.Deployment.MaxUnavailable = 1 }), Hold, ReasonReplaceStarted,
			[]ActionKind{CreateHandover, MarkPod, TakeControl, SetStatus}, ""},
		"E14: paused: the Deployment is not touched": {with(onePod(), func(w *World) { w.Workload.Deployment.Paused = true }), Hold, ReasonReplaceStarted,
			[]ActionKind{CreateHandover, MarkPod, TakeControl, SetStatus}, ""},
		"some stay, and the floor needs all: replaced alone": {withSome(onePod()), Hold, ReasonReplaceStarted,
			[]ActionKind{CreateHandover, MarkPod, TakeControl, SetStatus}, ""},
		"on a node that Cluster Autoscaler drains, a rollout": {with(withSome(onePod()), func(w *World) {
			w.Nodes["a"] = Node{Name: "a", Signal: v1alpha1.SignalClusterAutoscalerDeletion}
		}), Hold, ReasonRolloutStarted, []ActionKind{CreateHandover, RestartRollout, SetStatus}, ""},
		"released and replaced: evicted by us": {with(withSome(onePod()), func(w *World) { release(w, handover(time.Minute, v1alpha1.PhaseWaiting), 6*time.Second) }),
			Allow, ReasonReplaced, []ActionKind{Discount, SetStatus, EvictPod}, ""},
		"released, and the replacement has not settled": {with(withSome(onePod()), func(w *World) { release(w, handover(time.Minute, v1alpha1.PhaseWaiting), 4*time.Second) }),
			Hold, ReasonReplaceStarted, []ActionKind{SetStatus}, ""},
		"released, and the replacement is not in the EndpointSlice": {with(withSome(onePod()), func(w *World) {
			release(w, handover(time.Minute, v1alpha1.PhaseWaiting), 6*time.Second)
			w.Pod.Services = []string{"web"}
		}), Hold, ReasonReplaceStarted, []ActionKind{SetStatus}, ""},
		"released, and the node stays after all: given back": {with(withSome(onePod()), func(w *World) {
			release(w, handover(time.Minute, v1alpha1.PhaseWaiting), 0)
			w.Nodes["a"] = Node{Name: "a"}
		}), Allow, ReasonNodeStays, []ActionKind{UnmarkPod, GiveBack, SetStatus}, ""},
		"E16: the rollout exceeded its progress deadline": {with(onePod(), func(w *World) {
			d := w.Workload.Deployment
			d.Settled, d.Revision, d.ProgressFailed = false, "r2", true
			w.Handover = handover(time.Minute, v1alpha1.PhaseWaiting)
		}), Hold, ReasonRolloutStuck, []ActionKind{MarkPod, SetStatus}, ""},
		"E19: a volume that only one pod can mount": {with(onePod(), func(w *World) { w.Pod.ExclusiveVolume = "data" }), Hold, ReasonExclusiveVolume,
			[]ActionKind{CreateHandover, MarkPod, SetStatus}, ""},
		"E22: the rollout was taken back: another strategy": {with(onePod(), func(w *World) {
			w.Handover = handover(time.Minute, v1alpha1.PhaseWaiting)
			w.Handover.Strategy, w.Handover.Generation, w.Workload.Deployment.Generation = v1alpha1.StrategyRollout, 2, 3
		}), Hold, ReasonReplaceStarted, []ActionKind{MarkPod, TakeControl, SetStatus}, ""},
		"E22: a cache that has not seen the rollout yet is not a taken back one": {with(onePod(), func(w *World) {
			w.Handover = handover(time.Minute, v1alpha1.PhaseWaiting)
			w.Handover.Strategy, w.Handover.Generation, w.Workload.Deployment.Generation = v1alpha1.StrategyRollout, 2, 1
		}), Hold, ReasonRolloutStarted, []ActionKind{MarkPod, SetStatus}, ""},
		"E27: no Deployment": {with(onePod(), func(w *World) { w.Workload = nil }), Allow, ReasonNoStrategyForKind, nil, ""},
		"E28: terminating":   {with(onePod(), func(w *World) { w.Pod.Terminating = true }), Allow, ReasonPodNotCounted, nil, ""},
		"E30: let go at the node's end minus grace minus margin": {with(onePod(), func(w *World) {
			n := w.Nodes["a"]
			n.TerminatesAt = start.Add(70 * time.Second)
			w.Nodes["a"], w.Handover = n, handover(time.Minute, v1alpha1.PhaseWaiting)
			w.Pod.DoNotDisrupt, w.Pod.Held = "2h", "2h"
			w.Pods[0] = *w.Pod
		}), Allow, ReasonDeadlineReached, []ActionKind{UnmarkPod, SetStatus}, ""},
		"E30: a second earlier it is still held": {with(onePod(), func(w *World) {
			n := w.Nodes["a"]
			n.TerminatesAt = start.Add(71 * time.Second)
			w.Nodes["a"] = n
		}), Hold, ReasonRolloutStarted, []ActionKind{CreateHandover, RestartRollout, MarkPod, SetStatus}, ""},
		"E32: the node stays after all": {with(onePod(), func(w *World) {
			w.Nodes["a"] = Node{Name: "a"}
			w.Handover = handover(time.Minute, v1alpha1.PhaseWaiting)
			w.Pod.DoNotDisrupt, w.Pod.Held = "2h", "2h"
			w.Pods[0] = *w.Pod
		}), Allow, ReasonNodeStays, []ActionKind{UnmarkPod, SetStatus}, ""},
		"E41: a cordon starts nothing": {with(onePod(), func(w *World) { w.Nodes["a"] = Node{Name: "a", Hint: "Cordoned"} }), Allow, ReasonNodeStays, nil, ""},
		"E41: but an eviction on a cordoned node does": {with(onePod(), func(w *World) { w.Nodes["a"], w.Eviction = Node{Name: "a", Hint: "Cordoned"}, true }),
			Hold, ReasonRolloutStarted, []ActionKind{CreateHandover, RestartRollout, SetStatus}, ""},
		"E43: the user's do-not-disrupt: the signal starts nothing": {with(onePod(), func(w *World) { w.Pod.DoNotDisrupt = "true" }), Hold, ReasonUserDoNotDisrupt, nil, ""},
		"E43: the user's do-not-disrupt: an eviction is held": {with(onePod(), func(w *World) { w.Pod.DoNotDisrupt, w.Eviction = "true", true }),
			Hold, ReasonUserDoNotDisrupt, []ActionKind{CreateHandover, SetStatus}, ""},
		"E43: a duration that is over is not in force": {with(onePod(), func(w *World) { w.Pod.DoNotDisrupt = "30m" }), Hold, ReasonRolloutStarted,
			[]ActionKind{CreateHandover, RestartRollout, SetStatus}, ""},
		"E47: observed": {with(onePod(), func(w *World) { w.Namespace.Protection = v1alpha1.ProtectionObserve }), Allow, ReasonObserved,
			[]ActionKind{CreateHandover, SetStatus}, ""},
		"maxWait is over": {with(onePod(), func(w *World) { w.Handover = handover(10*time.Minute-10*time.Second, v1alpha1.PhaseWaiting) }), Allow, ReasonDeadlineReached,
			[]ActionKind{SetStatus}, ""},
		"let go once at the deadline, a pod is not held again": {with(onePod(), func(w *World) {
			w.Handover = handover(20*time.Minute, v1alpha1.PhaseFailed)
			w.Handover.Finished = start.Add(-10 * time.Minute)
		}), Allow, ReasonDeadlineReached, nil, ""},
		"a cancelled handover does not stand in the way of a new one": {with(onePod(), func(w *World) {
			w.Handover = handover(20*time.Minute, v1alpha1.PhaseCancelled)
			w.Handover.Finished = start.Add(-10 * time.Minute)
		}), Hold, ReasonRolloutStarted, []ActionKind{DeleteHandover, CreateHandover, RestartRollout, MarkPod, SetStatus}, ""},
		"the pod is gone and its replacement serves": {with(onePod(), func(w *World) {
			w.Handover = handover(time.Minute, v1alpha1.PhaseReleasing)
			w.Pod, w.Pods[0].Name, w.Pods[0].Node = nil, "p1", "b"
		}), Allow, ReasonPodGone, []ActionKind{SetStatus}, v1alpha1.PhaseDone},
		"the pod is gone and nothing serves": {with(onePod(), func(w *World) {
			w.Handover = handover(time.Minute, v1alpha1.PhaseWaiting)
			w.Pod, w.Pods = nil, nil
		}), Allow, ReasonPodGone, []ActionKind{SetStatus}, v1alpha1.PhaseFailed},
		"a volume is in the way of replacing the pod alone, too": {with(withSome(onePod()), func(w *World) { w.Pod.ExclusiveVolume = "data" }),
			Hold, ReasonExclusiveVolume, []ActionKind{CreateHandover, MarkPod, SetStatus}, v1alpha1.PhasePending},
		"E12: Recreate with several replicas": {with(withSome(onePod()), func(w *World) { w.Workload.Deployment.Recreate = true }),
			Hold, ReasonMustStaySingle, []ActionKind{CreateHandover, MarkPod, SetStatus}, v1alpha1.PhasePending},
		"nothing was done yet, and the pod has become spare": {with(withSome(onePod()), func(w *World) {
			w.Budgets, w.Handover = nil, handover(time.Minute, v1alpha1.PhasePending)
			w.Pod.DoNotDisrupt, w.Pod.Held = "2h", "2h"
		}), Allow, ReasonSpare, []ActionKind{UnmarkPod, SetStatus}, v1alpha1.PhaseReleasing},
		"E43: the user says do-not-disrupt when the pod is released: given back, not evicted": {with(withSome(onePod()), func(w *World) {
			release(w, handover(time.Minute, v1alpha1.PhaseWaiting), time.Minute)
			w.Pod.DoNotDisrupt = "true"
			w.Budgets = nil
		}), Allow, ReasonSpare, []ActionKind{UnmarkPod, GiveBack, SetStatus}, v1alpha1.PhaseReleasing},
		"a finished handover is removed after a while": {with(onePod(), func(w *World) {
			w.Handover = handover(25*time.Hour, v1alpha1.PhaseDone)
			w.Handover.Finished, w.Pod, w.Pods = start.Add(-24*time.Hour), nil, nil
		}), Allow, ReasonPodGone, []ActionKind{DeleteHandover}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := Departure(c.world)
			if v.Outcome != c.outcome || v.Reason != c.reason {
				t.Errorf("%s, %s (%s); want %s, %s", v.Outcome, v.Reason, v.Message, c.outcome, c.reason)
			}
			if got := kinds(v); !slices.Equal(got, c.actions) {
				t.Errorf("actions %v, want %v", got, c.actions)
			}
			for _, a := range v.Actions {
				if a.Kind == SetStatus && c.phase != "" && a.Status.Phase != c.phase {
					t.Errorf("phase %s, want %s", a.Status.Phase, c.phase)
				}
			}
		})
	}
}
