package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/cluster"
	"github.com/segue-dev/segue/internal/decide"
	"github.com/segue-dev/segue/internal/report"
)

// failOpenAfter is how long the guard denies while it cannot know or record anything; after that it allows and alerts.
const failOpenAfter = 30 * time.Second

// guard answers evictions: 429 while letting the pod go would break its service. It needs no leader.
type guard struct {
	eyes  *cluster.Eyes
	hands *cluster.Hands
	voice *report.Voice
	// warm says that the caches are in sync.
	warm atomic.Bool
	now  func() time.Time
	// started is when the process began to serve; failing is when state could first not be read or written, zero while it can.
	started time.Time
	mu      sync.Mutex
	failing time.Time
}

// answer is what the guard says to one eviction.
type answer struct {
	admission.Response
	word   string
	reason decide.Reason
	wrote  bool
}

// Handle answers one eviction.
func (g *guard) Handle(ctx context.Context, req admission.Request) admission.Response {
	began := g.now()
	eviction := &policyv1.Eviction{}
	if err := json.Unmarshal(req.Object.Raw, eviction); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the eviction of pod %s/%s: %w", req.Namespace, req.Name, err))
	}
	dryRun := isDryRun(req, eviction)
	a, err := g.answer(ctx, req, eviction, dryRun)
	if err != nil {
		log.FromContext(ctx).Error(err, "eviction could not be decided", "pod", req.Namespace+"/"+req.Name)
		a = g.unavailable(decide.ReasonStateUnavailable, g.failingSince(), err.Error())
	} else {
		g.recovered()
	}
	if !dryRun {
		report.Eviction(a.word, a.reason, g.now().Sub(began), a.wrote)
	}
	return a.Response
}

// isDryRun knows both kinds: the request's, and the one inside the eviction, which the API server leaves to us.
func isDryRun(req admission.Request, e *policyv1.Eviction) bool {
	return (req.DryRun != nil && *req.DryRun) || (e.DeleteOptions != nil && slices.Contains(e.DeleteOptions.DryRun, metav1.DryRunAll))
}

func (g *guard) answer(ctx context.Context, req admission.Request, e *policyv1.Eviction, dryRun bool) (answer, error) {
	if !g.warm.Load() {
		return g.unavailable(decide.ReasonCacheCold, g.started, "Segue has just started and does not know the cluster yet"), nil
	}
	key, ok, err := g.eyes.Lookup(ctx, req.Namespace, req.Name)
	if err != nil {
		return answer{}, err
	}
	if e.DeleteOptions != nil && e.DeleteOptions.Preconditions != nil && e.DeleteOptions.Preconditions.UID != nil && *e.DeleteOptions.Preconditions.UID != key.UID {
		// An allowed eviction of a stale UID would burn a disruption of the budget before the API server refuses it.
		live, exists, err := g.eyes.LiveUID(ctx, req.Namespace, req.Name)
		if err != nil {
			return answer{}, err
		}
		if exists && live != *e.DeleteOptions.Preconditions.UID {
			return conflict(req.Name, string(*e.DeleteOptions.Preconditions.UID), string(live)), nil
		}
		key.UID, ok = *e.DeleteOptions.Preconditions.UID, exists
	}
	if !ok {
		return allowed(decide.ReasonPodGone, "", false), nil
	}
	for range 2 {
		a, err := g.decide(ctx, key, dryRun)
		if !errors.Is(err, cluster.ErrConflict) {
			return a, err
		}
	}
	return held(decide.Verdict{Reason: decide.ReasonLedgerConflict, Message: "another eviction of the same workload was answered at the same moment; try again"}, false), nil
}

// decide answers from the World and writes what the answer needs: the Handover of a held pod, or the grant of an allowed one.
func (g *guard) decide(ctx context.Context, key cluster.Key, dryRun bool) (answer, error) {
	w, err := g.eyes.World(ctx, key, true)
	if err != nil {
		return answer{}, err
	}
	v := decide.Departure(w)
	if grants(v) {
		return g.allow(ctx, key, w, dryRun)
	}
	return g.settle(ctx, key, w, v, dryRun)
}

// allow decides again with the workload's ledger, and grants only what the ledger still permits.
func (g *guard) allow(ctx context.Context, key cluster.Key, w decide.World, dryRun bool) (answer, error) {
	ledger, err := g.eyes.Ledger(ctx, key.Namespace, w.Workload.UID)
	if err != nil {
		return answer{}, err
	}
	w.Grants = ledger.Grants
	v := decide.Departure(w)
	if !grants(v) || dryRun {
		return g.settle(ctx, key, w, v, dryRun)
	}
	if err := g.hands.Grant(ctx, key, w, ledger); err != nil {
		return answer{}, err
	}
	return allowed(v.Reason, v.Message, true), nil
}

func (g *guard) settle(ctx context.Context, key cluster.Key, w decide.World, v decide.Verdict, dryRun bool) (answer, error) {
	wrote := false
	if !dryRun {
		var err error
		if wrote, err = g.record(ctx, key, w, v); err != nil {
			return answer{}, err
		}
	}
	if v.Outcome == decide.Allow {
		return allowed(v.Reason, v.Message, wrote), nil
	}
	if !dryRun {
		g.voice.Held(subject(key, w), v)
	}
	return held(v, wrote), nil
}

// record writes the intent to hand the pod over; everything else is the controllers' work.
func (g *guard) record(ctx context.Context, key cluster.Key, w decide.World, v decide.Verdict) (bool, error) {
	actions := slices.DeleteFunc(slices.Clone(v.Actions), func(a decide.Action) bool {
		return a.Kind != decide.CreateHandover && a.Kind != decide.DeleteHandover
	})
	if len(actions) == 0 || (v.Outcome == decide.Allow && v.Reason != decide.ReasonObserved) {
		return false, nil
	}
	applied, err := g.hands.Apply(ctx, key, w, actions)
	if apierrors.IsAlreadyExists(err) {
		return false, nil // recorded a moment ago, by the other guard or the controller
	}
	g.voice.Applied(subject(key, w), v, applied)
	return true, err
}

func grants(v decide.Verdict) bool {
	return slices.ContainsFunc(v.Actions, func(a decide.Action) bool { return a.Kind == decide.GrantEviction })
}

// unavailable denies while the state that an answer needs is missing, and allows once that has lasted too long.
func (g *guard) unavailable(reason decide.Reason, since time.Time, why string) answer {
	if g.now().Sub(since) < failOpenAfter {
		return held(decide.Verdict{Reason: reason, Message: why + "; evictions are allowed after " + failOpenAfter.String()}, false)
	}
	report.FailedOpen(reason)
	return allowed(reason, why, false)
}

func (g *guard) failingSince() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failing.IsZero() {
		g.failing = g.now()
	}
	return g.failing
}

func (g *guard) recovered() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing = time.Time{}
}

func allowed(r decide.Reason, message string, wrote bool) answer {
	return answer{Response: admission.Allowed(message), word: string(decide.Allow), reason: r, wrote: wrote}
}

// held answers 429 with reason TooManyRequests, which every evictor understands as "later". There is no Retry-After: client-go
// would then retry inside one call. The first words are what the descheduler looks for.
func held(v decide.Verdict, wrote bool) answer {
	return answer{word: string(decide.Hold), reason: v.Reason, wrote: wrote, Response: refused(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		fmt.Sprintf("Eviction triggered evacuation: segue holds this pod (%s): %s", v.Reason, v.Message))}
}

func conflict(pod, asked, live string) answer {
	return answer{word: "Conflict", reason: decide.ReasonPodGone, Response: refused(http.StatusConflict, metav1.StatusReasonConflict,
		fmt.Sprintf("pod %s has UID %s, and the eviction is for UID %s", pod, live, asked))}
}

func refused(code int32, reason metav1.StatusReason, message string) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{
		Result: &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message},
	}}
}

func subject(key cluster.Key, w decide.World) report.Subject {
	s := report.Subject{Namespace: key.Namespace, Pod: v1alpha1.PodReference{Name: key.Name, UID: key.UID}, Workload: w.Workload}
	switch {
	case w.Pod != nil:
		s.Node = w.Pod.Node
	case w.Handover != nil:
		s.Node = w.Handover.Node
	}
	return s
}
