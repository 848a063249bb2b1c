package handover_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/lab/controlplane"
)

// replacing sets up a one-replica Deployment whose pod is replaced alone, because the Deployment is paused, and taints its
// node; the new pod takes 5 s to start.
func replacing(t *testing.T, before func(*bench)) (*bench, corev1.Pod) {
	t.Helper()
	b := setUp(t, v1alpha1.ProtectionEnabled, "a", "b")
	b.deploy("web", []string{"a"}, func(d *appsv1.Deployment) { d.Spec.Template.Annotations["lab.segue.dev/start-delay"] = "5s" })
	b.patch(b.deployment("web"), `{"spec":{"paused":true}}`)
	if before != nil {
		before(b)
	}
	return b, b.podOn("web", "a")
}

// awaitReleased waits until the pod's controller is its Handover and its ReplicaSet has made another pod.
func (b *bench) awaitReleased(old corev1.Pod) {
	b.Helper()
	b.eventually("the pod is released and another one exists", func() error {
		p, err := lab.set.CoreV1().Pods(b.namespace).Get(b.ctx, old.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := metav1.GetControllerOf(p); c == nil || c.Kind != "Handover" || len(b.pods("web")) != 2 {
			return fmt.Errorf("controller %v, pods %v", c, names(b.pods("web")))
		}
		// The ReplicaSet must stay an owner, else the pod goes with its Handover.
		if len(p.OwnerReferences) != 2 || p.OwnerReferences[1].Kind != "ReplicaSet" || *p.OwnerReferences[1].Controller {
			b.Fatalf("owners %+v, want the Handover as controller and the ReplicaSet as a plain owner", p.OwnerReferences)
		}
		return nil
	})
}

// Whatever the budget says, the pod goes once its replacement serves, and not before; the budget is never in the way for good.
func TestReplace_Budgets(t *testing.T) {
	for name, set := range map[string]func(*policyv1.PodDisruptionBudgetSpec){
		"minAvailable 1":    func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = ptr(intstr.FromInt32(1)) },
		"minAvailable 50%":  func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = ptr(intstr.FromString("50%")) },
		"minAvailable 100%": func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = ptr(intstr.FromString("100%")) },
		"maxUnavailable 0":  func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = ptr(intstr.FromInt32(0)) },
		"maxUnavailable 1":  func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = ptr(intstr.FromInt32(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			b, old := replacing(t, func(b *bench) {
				p := budget(b.namespace, "web", intstr.FromInt32(1))
				p.Spec.MinAvailable = nil
				set(&p.Spec)
				b.create(p)
				b.eventually("the budget is observed", func() error {
					got, err := lab.set.PolicyV1().PodDisruptionBudgets(b.namespace).Get(b.ctx, "web", metav1.GetOptions{})
					if err == nil && (got.Status.ObservedGeneration != got.Generation || got.Status.CurrentHealthy != 1) {
						err = fmt.Errorf("status %+v", got.Status)
					}
					return err
				})
			})
			fewest := b.fewestServing("web", func() {
				b.taint("a")
				b.awaitReleased(old)
				if err := b.evict(old.Name, nil); err == nil {
					t.Error("an eviction passed before the replacement served")
				}
				b.gone(old)
			})
			if fewest < 1 {
				t.Errorf("%d pods served, want never below 1", fewest)
			}
			b.available("web", 1)
			if h := b.awaitPhase(old, v1alpha1.PhaseDone); h.Status.Strategy != v1alpha1.StrategyReplace || b.revisions("web") != 1 {
				t.Errorf("strategy %s, %d revisions; want Replace and 1", h.Status.Strategy, b.revisions("web"))
			}
		})
	}
}

// The Handover is deleted by hand in the middle: the ReplicaSet takes the pod back, nothing goes, and the next look starts again.
func TestReplace_HandoverDeletedInTheMiddle(t *testing.T) {
	b, old := replacing(t, nil)
	fewest := b.fewestServing("web", func() {
		b.taint("a")
		b.awaitReleased(old)
		b.must(lab.client.Delete(b.ctx, b.handover(old)))
		b.gone(old)
	})
	if fewest < 1 {
		t.Errorf("%d pods served, want never below 1", fewest)
	}
	b.available("web", 1)
	b.podOn("web", "b")
}

// The workload changes in the middle: the handover ends with what the user asked for, and nothing is left behind.
func TestReplace_WorkloadChangesInTheMiddle(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bench)
		pods   int
	}{
		"scaled to 0": {func(b *bench) { b.patch(b.deployment("web"), `{"spec":{"replicas":0}}`) }, 0},
		"a new revision": {func(b *bench) {
			b.patch(b.deployment("web"), `{"spec":{"paused":false,"template":{"metadata":{"annotations":{"release":"2"}}}}}`)
		}, 1},
		"deleted": {func(b *bench) { b.must(lab.client.Delete(b.ctx, b.deployment("web"))) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b, old := replacing(t, nil)
			fewest := b.fewestServing("web", func() {
				b.taint("a")
				b.awaitReleased(old)
				c.change(b)
				b.gone(old)
			})
			if fewest < c.pods {
				t.Errorf("%d pods served, want never below %d", fewest, c.pods)
			}
			b.eventually("the wanted pods are left", func() error {
				if pods := b.pods("web"); len(pods) != c.pods {
					return fmt.Errorf("%v", names(pods))
				}
				return nil
			})
		})
	}
}

// The operator is gone for good in the middle: both pods run until it is back, and its first act is to finish.
func TestReplace_OperatorGoneInTheMiddle(t *testing.T) {
	b, old := replacing(t, nil)
	b.taint("a")
	b.awaitReleased(old)
	b.must(lab.operator.Kill())
	b.eventually("the replacement is Ready", func() error {
		for _, p := range b.pods("web") {
			if p.UID != old.UID && serves(&p) {
				return nil
			}
		}
		return errors.New("it is not")
	})
	if pods := b.pods("web"); len(pods) != 2 {
		t.Errorf("pods %v, want both", names(pods))
	}
	b.must(lab.operator.Restart(b.ctx))
	b.gone(old)
	b.awaitPhase(old, v1alpha1.PhaseDone)
}

// The API server restarts in the middle: the handover ends all the same.
func TestReplace_APIServerRestartsInTheMiddle(t *testing.T) {
	b, old := replacing(t, nil)
	b.taint("a")
	b.awaitReleased(old)
	b.must(lab.cp.Restart(b.ctx, controlplane.APIServer))
	b.gone(old)
	b.awaitPhase(old, v1alpha1.PhaseDone)
}
