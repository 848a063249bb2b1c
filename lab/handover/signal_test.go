package handover_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// Case E1: the only pod of a Deployment is on a node that gets Karpenter's taint.
func TestE1_TaintRollsOutFirst(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	old := b.podOn("web", "a")
	fewest := b.fewestServing("web", func() {
		b.taint("a")
		b.gone(old)
	})
	if fewest < 1 {
		t.Errorf("%d pods served, want never below 1", fewest)
	}
	b.available("web", 1)
	b.podOn("web", "b")
	h := b.awaitPhase(old, v1alpha1.PhaseDone)
	if h.Status.Strategy != v1alpha1.StrategyRollout || h.Status.Replacement == nil || h.Status.Replacement.Node != b.node("b") {
		t.Errorf("handover: strategy %s, replacement %+v; want a Rollout to node b", h.Status.Strategy, h.Status.Replacement)
	}
	if n := b.revisions("web"); n != 2 {
		t.Errorf("%d revisions, want 2: the first and one rollout", n)
	}
}

// Case E2: evictions that come at once are held until the replacement is Available.
func TestE2_EvictionsAreHeldUntilReplaced(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	old := b.podOn("web", "a")
	held := 0
	fewest := b.fewestServing("web", func() {
		b.taint("a")
		held = b.evictUntilGone(old)
	})
	if fewest < 1 || held < 1 {
		t.Errorf("fewest serving %d, evictions held %d; want never below 1, and at least one held", fewest, held)
	}
	if n := b.revisions("web"); n != 2 {
		t.Errorf("%d revisions, want 2", n)
	}
}

// Case E2 without any node signal: the eviction alone starts the handover, as in a drain that did not cordon.
func TestE2_EvictionAloneStartsTheHandover(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	old := b.podOn("web", "a")
	b.cordon("a", true)
	fewest := b.fewestServing("web", func() {
		if held := b.evictUntilGone(old); held < 1 {
			t.Error("no eviction was held")
		}
	})
	if fewest < 1 {
		t.Errorf("%d pods served, want never below 1", fewest)
	}
	if h := b.awaitPhase(old, v1alpha1.PhaseDone); h.Spec.Signal != v1alpha1.SignalEviction {
		t.Errorf("signal %s, want Eviction", h.Spec.Signal)
	}
}

// Case E4: both replicas are on the node; one rollout replaces both.
func TestE4_AllReplicasOnTheNode(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a", "a"}, nil)
	pods := b.pods("web")
	fewest := b.fewestServing("web", func() {
		b.taint("a")
		for _, p := range pods {
			b.evictUntilGone(p)
		}
	})
	if fewest < 1 {
		t.Errorf("%d pods served, want never below 1", fewest)
	}
	b.available("web", 2)
	if n := b.revisions("web"); n != 2 {
		t.Errorf("%d revisions, want 2: one rollout for both pods", n)
	}
}

// Case E6: three replicas of which one is on the leaving node: nothing is rolled out, the pod just goes.
func TestE6_SpareReplicaGoesAtOnce(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b", "c")
	b.deploy("web", []string{"a", "b", "c"}, nil)
	old := b.podOn("web", "a")
	b.taint("a")
	b.must(b.evict(old.Name, nil))
	b.gone(old)
	b.available("web", 3)
	if n, hs := b.revisions("web"), len(b.handovers()); n != 1 || hs != 0 {
		t.Errorf("%d revisions and %d handovers, want 1 and 0", n, hs)
	}
}

// Case E10: a rollout is under way when the node leaves: there is no second one, and the pod that comes out of it is still
// replaced.
func TestE10_NoSecondRolloutWhileOneIsInFlight(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	old := b.podOn("web", "a")
	b.cordon("b", true)
	b.patch(b.deployment("web"), `{"spec":{"template":{"metadata":{"annotations":{"release":"2"}}}}}`)
	b.cordon("b", false)
	b.taint("a")
	b.gone(old)
	b.available("web", 1)
	b.eventually("the pod is on node b", func() error { b.podOn("web", "b"); return nil })
	// The release's own pod stood on node a or b; only in the first case was there something left to hand over.
	if n := b.revisions("web"); n > 3 {
		t.Errorf("%d revisions, want at most 3: the first, the release, and one rollout for a pod that came up on node a", n)
	}
}

// Case E14: a paused Deployment is not patched; its pod is replaced alone.
func TestE14_PausedDeploymentIsNotPatched(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.patch(b.deployment("web"), `{"spec":{"paused":true}}`)
	old := b.podOn("web", "a")
	generation := b.deployment("web").Generation
	b.taint("a")
	b.gone(old)
	if h := b.awaitPhase(old, v1alpha1.PhaseDone); h.Status.Strategy != v1alpha1.StrategyReplace {
		t.Errorf("strategy %s, want Replace", h.Status.Strategy)
	}
	if g := b.deployment("web").Generation; g != generation {
		t.Errorf("the Deployment was changed: generation %d, was %d", g, generation)
	}
	b.podOn("web", "b")
}

// Cases E12 and E13: what must stay single is not rolled out by force; the policy's default lets it go at the deadline.
func TestE12_RecreateIsHeldToTheDeadlineAndThenLetGo(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	old := b.podOn("web", "a")
	b.taint("a")
	began := time.Now()
	if held := b.evictUntilGone(old); held < 1 {
		t.Error("no eviction was held before the deadline")
	}
	h := b.awaitPhase(old, v1alpha1.PhaseFailed)
	if h.Status.Reason != "DeadlineReached" {
		t.Errorf("reason %s, want DeadlineReached", h.Status.Reason)
	}
	t.Logf("held for %s of at most 60 s", time.Since(began).Round(time.Second))
}

// Case E32: the taint is taken off again before the replacement serves: the handover is cancelled and leaves nothing behind.
func TestE32_CancelledWhenTheNodeStays(t *testing.T) {
	for strategy, paused := range map[v1alpha1.Strategy]bool{v1alpha1.StrategyRollout: false, v1alpha1.StrategyReplace: true} {
		t.Run(string(strategy), func(t *testing.T) {
			b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
			b.patch(b.getNode("a"), `{"metadata":{"labels":{"karpenter.sh/nodepool":"default"}}}`)
			b.deploy("web", []string{"a"}, func(d *appsv1.Deployment) { d.Spec.Template.Annotations["lab.segue.dev/start-delay"] = "5s" })
			b.patch(b.deployment("web"), fmt.Sprintf(`{"spec":{"paused":%t}}`, paused))
			old := b.podOn("web", "a")
			b.cordon("b", true)
			b.taint("a")
			h := b.awaitPhase(old, v1alpha1.PhaseWaiting)
			if h.Status.Strategy != strategy {
				t.Fatalf("strategy %s, want %s", h.Status.Strategy, strategy)
			}
			b.untaint("a")
			b.awaitPhase(old, v1alpha1.PhaseCancelled)
			b.eventually("the pod is as it was", func() error {
				p, err := lab.set.CoreV1().Pods(b.namespace).Get(b.ctx, old.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if p.Annotations["karpenter.sh/do-not-disrupt"] != "" || p.Annotations[v1alpha1.HeldAnnotation] != "" || p.Labels[v1alpha1.HandoverLabel] != "" ||
					len(p.OwnerReferences) != 1 || p.OwnerReferences[0].Kind != "ReplicaSet" {
					return fmt.Errorf("annotations %v, labels %v, owners %v", p.Annotations, p.Labels, p.OwnerReferences)
				}
				return nil
			})
			b.cordon("b", false)
			b.available("web", 1)
		})
	}
}

// Case E49: the taint comes back after a cancelled handover: a new one begins.
func TestE49_TaintComesBack(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.patch(b.deployment("web"), `{"spec":{"paused":true}}`)
	old := b.podOn("web", "a")
	b.cordon("b", true)
	b.taint("a")
	b.awaitPhase(old, v1alpha1.PhaseWaiting)
	b.untaint("a")
	b.awaitPhase(old, v1alpha1.PhaseCancelled)
	b.eventually("one pod is left", func() error {
		if pods := b.pods("web"); len(pods) != 1 {
			return fmt.Errorf("%v", names(pods))
		}
		return nil
	})
	// Which of the two stays is the ReplicaSet's choice: the one that is not Ready goes.
	b.podOn("web", "a")
	b.taint("a")
	b.cordon("b", false)
	b.gone(old)
	b.awaitPhase(old, v1alpha1.PhaseDone)
}

// Case E41: a cordon alone starts nothing.
func TestE41_CordonStartsNothing(t *testing.T) {
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, nil)
	b.deploy("other", []string{"b"}, nil)
	b.cordon("a", true)
	// A handover elsewhere shows that the operator has seen everything before it.
	b.taint("b")
	b.untaint("b")
	b.taint("b")
	b.cordon("a", false)
	b.awaitPhase(b.podOn("other", "b"), v1alpha1.PhaseWaiting)
	b.available("other", 1)
	if n, h := b.revisions("web"), b.handover(b.podOn("web", "a")); n != 1 || h != nil {
		t.Errorf("%d revisions, handover %v; want 1 and none", n, h)
	}
}
