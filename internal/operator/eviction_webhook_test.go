package operator

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/segue-dev/segue/internal/cluster"
)

// unreadable is a cluster of which nothing can be read.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is away")
}

func eviction(raw string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "ns", Name: "p", Object: runtime.RawExtension{Raw: []byte(raw)}}}
}

// Case E38 and the end of invariant 2: without knowledge the guard denies for 30 s and then allows.
func TestGuard_WithoutKnowledgeDeniesFor30sThenAllows(t *testing.T) {
	for name, warm := range map[string]bool{"E38: cold cache": false, "unreadable state": true} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			g := &guard{eyes: &cluster.Eyes{Cache: unreadable{}, Live: unreadable{}}, now: func() time.Time { return now }, started: now}
			g.warm.Store(warm)
			ask := func() admission.Response { return g.Handle(t.Context(), eviction(`{}`)) }
			if r := ask(); r.Allowed || r.Result.Code != http.StatusTooManyRequests {
				t.Errorf("at once: %+v, want 429", r.AdmissionResponse)
			}
			now = now.Add(failOpenAfter - time.Second)
			if r := ask(); r.Allowed || r.Result.Code != http.StatusTooManyRequests {
				t.Errorf("after 29 s: %+v, want 429", r.AdmissionResponse)
			}
			now = now.Add(time.Second)
			if r := ask(); !r.Allowed {
				t.Errorf("after 30 s: %+v, want allowed", r.AdmissionResponse)
			}
		})
	}
}

func TestGuard_UnreadableEviction(t *testing.T) {
	g := &guard{now: time.Now}
	if r := g.Handle(t.Context(), eviction(`{`)); r.Allowed || r.Result.Code != http.StatusBadRequest {
		t.Errorf("%+v, want 400", r.AdmissionResponse)
	}
}
