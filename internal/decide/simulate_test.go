package decide

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// start is when every simulated World begins.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// apply returns the World after the actions were written, as the API server and nothing else would change it.
func apply(w World, actions []Action) World {
	restarted := false
	for _, a := range actions {
		switch a.Kind {
		case CreateHandover:
			w.Handover = &Handover{Name: "h", PodUID: a.PodUID, Node: w.Pod.Node, Signal: a.Signal, Created: w.Now.Truncate(time.Second), Replicas: 1}
		case DeleteHandover:
			w.Handover = nil
		case MarkPod:
			w = editSubject(w, func(p *Pod) { p.DoNotDisrupt, p.Held = a.Value, a.Value })
		case UnmarkPod:
			w = editSubject(w, func(p *Pod) {
				if p.DoNotDisrupt == p.Held {
					p.DoNotDisrupt = ""
				}
				p.Held = ""
			})
		case TakeControl:
			w = editSubject(w, func(p *Pod) { p.Released = true })
		case GiveBack:
			w = editSubject(w, func(p *Pod) { p.Released = false })
		case EvictPod:
			w = editSubject(w, func(p *Pod) { p.Terminating = true })
		case Discount:
			h := *w.Handover
			h.Replicas = 0
			w.Handover = &h
		case RestartRollout:
			wl, d := *w.Workload, *w.Workload.Deployment
			d.Generation++
			d.Observed, d.Settled = false, false
			wl.Deployment = &d
			w.Workload, restarted = &wl, true
		case SetStatus:
			h := *w.Handover
			h.Phase, h.Strategy, h.Reason, h.Message = a.Status.Phase, a.Status.Strategy, a.Status.Reason, a.Status.Message
			h.Deadline, h.Finished, h.Replacement = a.Status.Deadline, a.Status.Finished, a.Status.Replacement
			if restarted {
				h.Generation = w.Workload.Deployment.Generation
			}
			w.Handover = &h
		case GrantEviction:
			w.Grants = append(append([]Grant(nil), w.Grants...), Grant{Pod: a.PodUID, At: w.Now})
		}
	}
	return w
}

func editSubject(w World, f func(*Pod)) World {
	p := *w.Pod
	f(&p)
	w.Pod = &p
	w.Pods = append([]Pod(nil), w.Pods...)
	for i := range w.Pods {
		if w.Pods[i].Name == p.Name {
			w.Pods[i] = p
		}
	}
	return w
}

// world makes a World that could be observed: any mix of pods, nodes, budgets, records and settings.
func world(r *rand.Rand) World {
	w := World{Now: start, Settings: DefaultSettings(), PodName: "p0", Nodes: map[string]Node{},
		Namespace: Namespace{Name: "ns", Protection: pick(r, v1alpha1.ProtectionEnabled, v1alpha1.ProtectionEnabled, v1alpha1.ProtectionEnabled, v1alpha1.ProtectionObserve, v1alpha1.ProtectionDisabled)},
		Eviction:  r.IntN(2) == 0}
	for i := range 4 {
		n := Node{Name: fmt.Sprintf("n%d", i), Karpenter: r.IntN(2) == 0}
		if r.IntN(3) == 0 {
			n.Signal = pick(r, v1alpha1.SignalKarpenterDisrupted, v1alpha1.SignalNodeDeleted)
		}
		if r.IntN(6) == 0 {
			n.Hint = "Cordoned"
		}
		if r.IntN(8) == 0 {
			n.TerminatesAt = start.Add(time.Duration(r.IntN(900)-100) * time.Second)
		}
		w.Nodes[n.Name] = n
	}
	replicas := int32(r.IntN(6))
	for i := range 1 + r.IntN(7) {
		w.Pods = append(w.Pods, pod(r, i))
	}
	if r.IntN(10) > 0 {
		w.Workload = &Workload{APIVersion: "apps/v1", Kind: KindDeployment, Name: "web", UID: "d", Deployment: &Deployment{
			Replicas: replicas, Recreate: r.IntN(8) == 0, MaxSurge: int32(r.IntN(3)), MaxUnavailable: int32(r.IntN(3)),
			Paused: r.IntN(10) == 0, Terminating: r.IntN(15) == 0, Generation: 5, Revision: pick(r, "new", "new", "old"),
			MinReady: time.Duration(r.IntN(2)*10) * time.Second, ProgressFailed: r.IntN(10) == 0}}
		d := w.Workload.Deployment
		d.Observed = r.IntN(5) > 0
		d.Settled = d.Observed && r.IntN(3) > 0
		if d.Settled {
			for i := range w.Pods { // a rollout that is over has left no pod of another revision
				w.Pods[i].Revision = d.Revision
			}
		}
	}
	if r.IntN(12) > 0 {
		w.Pod = &w.Pods[0]
	} else {
		w.Pods = w.Pods[1:]
	}
	if r.IntN(3) == 0 {
		w.Budgets = append(w.Budgets, Budget{Name: "b", DesiredHealthy: int32(r.IntN(6))})
	}
	for i := range w.Pods {
		if r.IntN(6) == 0 {
			w.Grants = append(w.Grants, Grant{Pod: w.Pods[i].UID, At: start.Add(-time.Duration(r.IntN(180)) * time.Second)})
		}
	}
	if r.IntN(2) == 0 {
		w.Handover = record(r)
	}
	return w
}

func pod(r *rand.Rand, i int) Pod {
	p := Pod{Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)), Node: fmt.Sprintf("n%d", r.IntN(4)),
		Revision: pick(r, "new", "old"), Ready: r.IntN(5) > 0, Terminating: r.IntN(8) == 0, Terminal: r.IntN(15) == 0,
		StartTime: start.Add(-time.Hour), Created: start.Add(-time.Duration(r.IntN(3600)) * time.Second), Grace: 30 * time.Second,
		ReadySince: start.Add(-time.Duration(r.IntN(20)) * time.Second)}
	switch r.IntN(8) {
	case 0:
		p.DoNotDisrupt = pick(r, "true", "2h", "10m", "nonsense")
	case 1:
		p.DoNotDisrupt, p.Held = "2h", "2h"
	case 2:
		p.DoNotDisrupt, p.Held = "true", "2h"
	}
	if r.IntN(12) == 0 {
		p.ExclusiveVolume = "data"
	}
	if r.IntN(12) > 0 {
		p.ReplicaSet = &OwnerSet{Name: p.Revision, UID: types.UID(p.Revision)}
		p.Released = r.IntN(8) == 0
	}
	if r.IntN(2) == 0 {
		p.Services = []string{"web"}
	}
	if r.IntN(12) == 0 {
		p.Node = ""
	}
	return p
}

func record(r *rand.Rand) *Handover {
	h := &Handover{Name: "h", PodUID: "uid-0", Node: "n0", Signal: pick(r, v1alpha1.SignalKarpenterDisrupted, v1alpha1.SignalEviction),
		Created: start.Add(-time.Duration(r.IntN(700)) * time.Second), Generation: int64(r.IntN(7)),
		Phase:    pick(r, "", v1alpha1.PhasePending, v1alpha1.PhaseWaiting, v1alpha1.PhaseReleasing, v1alpha1.PhaseDone, v1alpha1.PhaseCancelled, v1alpha1.PhaseFailed, v1alpha1.PhaseObserved),
		Strategy: pick(r, "", v1alpha1.StrategyRollout, v1alpha1.StrategyReplace, v1alpha1.StrategyNone), Replicas: int32(r.IntN(2))}
	if h.Phase.Finished() {
		h.Finished = start.Add(-time.Duration(r.IntN(100)) * time.Hour / 2)
	}
	if r.IntN(2) == 0 {
		h.Deadline = h.Created.Add(10 * time.Minute)
	}
	return h
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
