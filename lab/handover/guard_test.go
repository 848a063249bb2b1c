package handover_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/lab/install"
)

// The answer to a held eviction is what every evictor takes for "later".
func TestGuard_AnswerIs429WithoutRetryAfter(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.cordon("a", true)
	err := b.evict(b.podOn("web", "a").Name, nil)
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("evict: %v, want a status", err)
	}
	s := status.Status()
	if s.Code != 429 || s.Reason != metav1.StatusReasonTooManyRequests || (s.Details != nil && s.Details.RetryAfterSeconds != 0) {
		t.Errorf("code %d, reason %s, details %+v; want 429, TooManyRequests, no Retry-After", s.Code, s.Reason, s.Details)
	}
	if !strings.Contains(s.Message, "Eviction triggered evacuation") || !strings.Contains(s.Message, "RolloutStarted") {
		t.Errorf("message %q, want the descheduler's words and the reason", s.Message)
	}
}

// Case E35: both kinds of dry run get the real answer and leave nothing behind.
func TestE35_DryRunsWriteNothing(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.cordon("a", true)
	pod := b.podOn("web", "a")
	inside := b.evict(pod.Name, func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	})
	outside := lab.set.CoreV1().RESTClient().Post().Namespace(b.namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Param("dryRun", metav1.DryRunAll).Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: b.namespace}}).
		Do(b.ctx).Error()
	for kind, err := range map[string]error{"inside the eviction": inside, "of the request": outside} {
		if !apierrors.IsTooManyRequests(err) {
			t.Errorf("dry run %s: %v, want 429", kind, err)
		}
	}
	// A real eviction shows that the dry runs had been answered by a guard that writes.
	if hs := b.handovers(); len(hs) != 0 {
		t.Errorf("%d handovers after dry runs, want 0", len(hs))
	}
	if err := b.evict(pod.Name, nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction: %v, want 429", err)
	}
	if hs := b.handovers(); len(hs) != 1 {
		t.Errorf("%d handovers after an eviction, want 1", len(hs))
	}
}

// Case E35: an eviction for an earlier incarnation of a pod is a conflict, and one of a pod that does not exist is not held.
func TestE35_StaleUIDAndMissingPod(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	pod := b.podOn("web", "a")
	generous := budget(b.namespace, "web", intstr.FromInt32(0))
	b.create(generous)
	b.eventually("the budget allows a disruption", func() error {
		b.must(lab.client.Get(b.ctx, client.ObjectKeyFromObject(generous), generous))
		if generous.Status.DisruptionsAllowed != 1 {
			return fmt.Errorf("it allows %d", generous.Status.DisruptionsAllowed)
		}
		return nil
	})
	stale := types.UID("11111111-1111-1111-1111-111111111111")
	err := b.evict(pod.Name, func(e *policyv1.Eviction) {
		e.DeleteOptions = &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &stale}}
	})
	if !apierrors.IsConflict(err) {
		t.Errorf("stale UID: %v, want a conflict", err)
	}
	// The API server would say so, too, but only after it has taken the disruption from the budget.
	b.must(lab.client.Get(b.ctx, client.ObjectKeyFromObject(generous), generous))
	if generous.Status.DisruptionsAllowed != 1 || len(generous.Status.DisruptedPods) != 0 {
		t.Errorf("the budget allows %d and counts %v, want 1 and none", generous.Status.DisruptionsAllowed, generous.Status.DisruptedPods)
	}
	if err := b.evict("no-such-pod", nil); !apierrors.IsNotFound(err) {
		t.Errorf("missing pod: %v, want not found", err)
	}
}

// Cases E27 and E28: what nobody depends on is not held: a bare pod, a pod that is not Ready, a pod outside protection.
func TestE27_NotHeld(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: b.namespace, Labels: map[string]string{"app": "bare"}},
		Spec: corev1.PodSpec{NodeName: b.node("a"), Containers: []corev1.Container{{Name: "app", Image: "played"}}}})
	b.eventually("the bare pod is Ready", func() error {
		for _, c := range b.podOn("bare", "a").Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not")
	})
	b.cordon("a", true)
	b.must(b.evict("bare", nil))
	if hs := b.handovers(); len(hs) != 0 {
		t.Errorf("%d handovers, want 0", len(hs))
	}
}

func TestE27_NamespaceWithoutProtection(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionDisabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.cordon("a", true)
	b.must(b.evict(b.podOn("web", "a").Name, nil))
}

// Case E47: in observe mode everything is allowed, and what would have been held is recorded.
func TestE47_ObserveModeAllowsAndRecords(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionObserve, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	old := b.podOn("web", "a")
	generation := b.deployment("web").Generation
	b.taint("a")
	h := b.awaitPhase(old, v1alpha1.PhaseObserved)
	if h.Status.Reason != "Observed" {
		t.Errorf("reason %s, want Observed", h.Status.Reason)
	}
	b.must(b.evict(old.Name, nil))
	b.gone(old)
	if g := b.deployment("web").Generation; g != generation {
		t.Errorf("the Deployment was changed: generation %d, was %d", g, generation)
	}
}

// Cases E5 and E44: evictions in the same instant are answered one after the other: with floor 3 of 4, one passes.
func TestE44_OnlySparePodsPassInTheSameInstant(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b", "c", "d")
	b.deploy("web", []string{"a", "b", "c", "d"}, nil)
	pods := b.pods("web")
	for _, n := range []string{"a", "b", "c", "d"} {
		b.cordon(n, false)
	}
	set, err := kubernetes.NewForConfig(lab.cp.Config())
	b.must(err)
	start := make(chan struct{})
	answers := make([]error, len(pods))
	var wg sync.WaitGroup
	for i, p := range pods {
		wg.Add(1)
		go func() {
			defer wg.Done()
			<-start
			answers[i] = set.PolicyV1().Evictions(b.namespace).Evict(b.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: b.namespace}})
		}()
	}
	close(start)
	wg.Wait()
	passed, held := 0, 0
	for _, err := range answers {
		switch {
		case err == nil:
			passed++
		case apierrors.IsTooManyRequests(err):
			held++
		default:
			t.Errorf("eviction: %v", err)
		}
	}
	if passed != 1 || held != 3 {
		t.Errorf("%d passed and %d were held, want 1 and 3", passed, held)
	}
}

// Case E3: a budget that never allows a disruption does not stop a drain, and is never overridden.
func TestE3_BudgetOfOneOfOne(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.create(budget(b.namespace, "web", intstr.FromInt32(1)))
	old := b.podOn("web", "a")
	b.cordon("a", true)
	fewest := b.fewestServing("web", func() { b.evictUntilGone(old) })
	if fewest < 1 {
		t.Errorf("%d pods served, want never below 1", fewest)
	}
}

// W4's rule: a budget raises the floor: three of three are needed, so a pod is replaced before it goes.
func TestBudgetRaisesTheFloor(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b", "c", "d")
	b.deploy("web", []string{"a", "b", "c"}, nil)
	b.create(budget(b.namespace, "web", intstr.FromInt32(3)))
	b.eventually("the budget is observed", func() error {
		p := budget(b.namespace, "web", intstr.FromInt32(3))
		got, err := lab.set.PolicyV1().PodDisruptionBudgets(b.namespace).Get(b.ctx, p.Name, metav1.GetOptions{})
		if err == nil && got.Status.DesiredHealthy != 3 {
			err = errors.New("desiredHealthy is not 3 yet")
		}
		return err
	})
	old, second, third := b.podOn("web", "a"), b.podOn("web", "b"), b.podOn("web", "c")
	b.cordon("a", true)
	fewest := b.fewestServing("web", func() { b.evictUntilGone(old) })
	if fewest < 3 {
		t.Errorf("%d pods served, want never below 3", fewest)
	}
	b.available("web", 3)
	if b.podOn("web", "b").UID != second.UID || b.podOn("web", "c").UID != third.UID || b.revisions("web") != 1 {
		t.Errorf("pods %v, %d revisions; want the other two pods and the revision untouched", names(b.pods("web")), b.revisions("web"))
	}
}

// Case E37: nothing in Segue's own namespace is ever held, so that its node can be drained.
func TestE37_OwnNamespaceIsNeverHeld(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.eventually("the default ServiceAccount exists", func() error {
		_, err := lab.set.CoreV1().ServiceAccounts(install.Namespace).Get(b.ctx, "default", metav1.GetOptions{})
		return err
	})
	ns, err := lab.set.CoreV1().Namespaces().Get(b.ctx, install.Namespace, metav1.GetOptions{})
	b.must(err)
	b.patch(ns, `{"metadata":{"labels":{"segue.dev/protect":"enabled"}}}`)
	own := *b
	own.namespace = install.Namespace
	own.deploy("segue", []string{"a"}, nil)
	old := own.podOn("segue", "a")
	b.taint("a")
	b.must(own.evict(old.Name, nil))
	own.gone(old)
	if n, hs := own.revisions("segue"), len(own.handovers()); n != 1 || hs != 0 {
		t.Errorf("%d revisions and %d handovers, want 1 and 0", n, hs)
	}
}
