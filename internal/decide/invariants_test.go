package decide

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// worlds calls f with many Worlds; a failure names the seed.
func worlds(t *testing.T, f func(t *testing.T, w World)) {
	t.Helper()
	for seed := range uint64(10000) {
		f(t, world(rand.New(rand.NewPCG(seed, 1))))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Invariant 1: no Allow takes a protected workload below its floor, but at the deadline. The twin counts by hand.
func TestInvariant1_AllowKeepsTheFloor(t *testing.T) {
	allowed, held := 0, 0
	worlds(t, func(t *testing.T, w World) {
		v := Departure(w)
		if w.Namespace.Protection != v1alpha1.ProtectionEnabled || w.Pod == nil || w.Workload == nil || w.Workload.Deployment.Terminating ||
			!w.Pod.Ready || w.Pod.Node == "" || w.Pod.Terminal || w.Pod.Terminating {
			if v.Outcome != Allow {
				t.Errorf("held a pod that nobody depends on: %s", v.Message)
			}
			return
		}
		stay := 0
		for _, p := range w.Pods {
			n, known := w.Nodes[p.Node]
			grantedAt := slices.IndexFunc(w.Grants, func(g Grant) bool { return g.Pod == p.UID && w.Now.Sub(g.At) < 2*time.Minute })
			if p.Name != "p0" && p.Ready && !p.Terminal && !p.Terminating && known && n.Signal == "" && n.Hint == "" && grantedAt < 0 &&
				w.Now.Sub(p.ReadySince) >= w.Workload.Deployment.MinReady {
				stay++
			}
		}
		need := map[int32]int{0: 0, 1: 1, 2: 1, 3: 2, 4: 3, 5: 3}[w.Workload.Deployment.Replicas]
		switch v.Outcome {
		case Hold:
			held++
		case Allow:
			if v.Reason == ReasonDeadlineReached || v.Reason == ReasonNodeStays {
				return
			}
			allowed++
			if stay < need {
				t.Errorf("%s with %d on staying nodes, floor %d", v.Reason, stay, need)
			}
		}
	})
	if allowed < 100 || held < 100 {
		t.Errorf("the Worlds prove little: %d allowed, %d held", allowed, held)
	}
}

// Invariant 2: whatever is held is let go when its time is over, by the guard alone: no status is needed for it.
func TestInvariant2_NothingIsHeldLongerThanMaxWait(t *testing.T) {
	worlds(t, func(t *testing.T, w World) {
		w.Eviction = true
		v := Departure(w)
		if v.Outcome != Hold {
			return
		}
		guardOnly := slices.DeleteFunc(slices.Clone(v.Actions), func(a Action) bool { return a.Kind != CreateHandover && a.Kind != DeleteHandover })
		w = apply(w, guardOnly)
		w.Now = w.Now.Add(w.Settings.MaxWait)
		if later := Departure(w); later.Outcome != Allow {
			t.Errorf("still held after maxWait: %s", later.Message)
		}
	})
}

// Invariant 3: a rollout is started only when none is in flight, and never for a pod that does not need it.
func TestInvariant3_NoSecondRollout(t *testing.T) {
	started := 0
	worlds(t, func(t *testing.T, w World) {
		v := Departure(w)
		if !slices.ContainsFunc(v.Actions, func(a Action) bool { return a.Kind == RestartRollout }) {
			return
		}
		started++
		d := w.Workload.Deployment
		if !d.Settled || !d.Observed || d.Paused || d.Recreate || d.MaxSurge < 1 || w.Pod.Terminating || !w.Pod.Ready {
			t.Errorf("rolled out: %+v for %+v", d, w.Pod)
		}
		if again := Departure(apply(w, v.Actions)); slices.ContainsFunc(again.Actions, func(a Action) bool { return a.Kind == RestartRollout }) {
			t.Error("rolled out twice")
		}
	})
	if started < 30 {
		t.Errorf("the Worlds prove little: %d rollouts", started)
	}
}

// Invariant 4: every Hold says why and until when.
func TestInvariant4_EveryHoldHasAnEnd(t *testing.T) {
	worlds(t, func(t *testing.T, w World) {
		v := Departure(w)
		if v.Reason == "" || v.Message == "" || len(v.Checks) == 0 {
			t.Errorf("verdict without a reason: %+v", v)
		}
		if v.Outcome != Hold || (v.Reason == ReasonUserDoNotDisrupt && !w.Eviction) {
			return
		}
		after := apply(w, v.Actions)
		if again := Departure(after); again.Outcome == Hold && (again.LookAgain.IsZero() || !again.LookAgain.After(w.Now.Add(-time.Second))) {
			t.Errorf("held without an end: %+v", again)
		}
	})
}

// Invariant 6: deciding again after applying the actions yields no actions. Giving a pod back to its ReplicaSet changes what
// the Deployment controller counts, so there one more pass may follow.
func TestInvariant6_Idempotent(t *testing.T) {
	worlds(t, func(t *testing.T, w World) {
		v := Departure(w)
		after := apply(w, v.Actions)
		again := Departure(after)
		if slices.ContainsFunc(v.Actions, func(a Action) bool { return a.Kind == GiveBack }) {
			again = Departure(apply(after, again.Actions))
		}
		if len(again.Actions) > 0 {
			t.Errorf("first %s %s, then %s %s: %s", v.Outcome, v.Reason, again.Outcome, again.Reason, cmp.Diff([]Action{}, again.Actions))
		}
	})
}

// Invariant 7: one more pod of the current revision that serves on a staying node never turns Allow into Hold.
func TestInvariant7_MoreReadyPodsNeverHold(t *testing.T) {
	worlds(t, func(t *testing.T, w World) {
		if Departure(w).Outcome != Allow {
			return
		}
		revision := ""
		if w.Workload != nil {
			revision = w.Workload.Deployment.Revision
		}
		w.Nodes["extra"] = Node{Name: "extra"}
		w.Pods = append(slices.Clone(w.Pods), Pod{Name: "extra", UID: "extra", Node: "extra", Ready: true, ReadySince: start.Add(-time.Hour), Revision: revision, Services: []string{"web"}})
		if v := Departure(w); v.Outcome != Allow {
			t.Errorf("one pod more, and it is held: %s", v.Message)
		}
	})
}

// Invariant 8: what a handover wrote on a pod is taken off by its end, and ends by itself when Segue is gone.
func TestInvariant8_MarksEnd(t *testing.T) {
	marked := 0
	worlds(t, func(t *testing.T, w World) {
		v := Departure(w)
		for _, a := range v.Actions {
			if a.Kind == MarkPod {
				marked++
				d, err := time.ParseDuration(a.Value)
				if err != nil {
					t.Errorf("mark %q is no duration", a.Value)
				}
				if end := w.Pod.StartTime.Add(d); end.After(w.Now.Add(w.Settings.MaxWait + 2*time.Minute)) {
					t.Errorf("mark %q ends at %s", a.Value, end)
				}
			}
		}
		after := apply(w, v.Actions)
		if after.Handover != nil && after.Handover.Phase.Finished() && after.Pod != nil && after.Pod.Held != "" && v.Reason != ReasonObserved {
			t.Errorf("%s left the mark %q on the pod", v.Reason, after.Pod.Held)
		}
	})
	if marked < 30 {
		t.Errorf("the Worlds prove little: %d marks", marked)
	}
}

// A World and its Verdict survive JSON, so that a snapshot decides as the cluster did.
func TestWorld_JSON(t *testing.T) {
	worlds(t, func(t *testing.T, w World) {
		data, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var back World
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Departure(w), Departure(back)); diff != "" {
			t.Error(diff)
		}
	})
}
