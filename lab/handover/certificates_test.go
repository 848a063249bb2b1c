package handover_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/operator"
	"github.com/segue-dev/segue/lab/install"
)

// The webhook's authority and its certificates are replaced while it answers: no eviction slips through, which one would if
// the API server did not trust the new certificate for a moment (failurePolicy is Ignore).
func TestCertificates_RotateWithoutAGap(t *testing.T) {
	if err := lab.operator.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.operator.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.cordon("a", true)
	pod := b.podOn("web", "a")
	authority := func() []byte {
		s, err := lab.set.CoreV1().Secrets(install.Namespace).Get(b.ctx, "segue-guard-authority", metav1.GetOptions{})
		b.must(err)
		return s.Data["ca.crt"]
	}
	evict := func() error {
		return b.evict(pod.Name, func(e *policyv1.Eviction) {
			e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
		})
	}
	// A long-lived authority is there already; without it the operator makes one that is soon to be replaced.
	b.must(lab.set.CoreV1().Secrets(install.Namespace).Delete(b.ctx, "segue-guard-authority", metav1.DeleteOptions{}))
	defer runOperator(t, &crash{left: -1}, func(o *operator.Options) {
		o.AuthorityDuration, o.CertificateDuration = 30*time.Second, 6*time.Second
	})()
	b.eventually("the guard answers", func() error {
		if err := evict(); !apierrors.IsTooManyRequests(err) {
			return errors.New("it does not")
		}
		return nil
	})
	last, rotations, asked := authority(), 0, 0
	for deadline := time.Now().Add(patience); rotations < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d rotations of the authority within %s, want 2", rotations, patience)
		}
		if now := authority(); !bytes.Equal(now, last) {
			last = now
			rotations++
		}
		asked++
		if err := evict(); !apierrors.IsTooManyRequests(err) {
			t.Fatalf("eviction %d, after %d rotations: %v, want 429", asked, rotations, err)
		}
	}
	t.Logf("%d evictions were held over %d rotations of the authority", asked, rotations)
}
