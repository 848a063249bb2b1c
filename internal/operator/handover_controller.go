package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/cluster"
	"github.com/segue-dev/segue/internal/decide"
	"github.com/segue-dev/segue/internal/report"
)

// concurrentDecisions bounds how many pods are decided on at the same time; each holds at most a few API writes.
const concurrentDecisions = 10

// retryConflict is how soon a pod is decided on again when the cluster changed under the decision; the cache usually has the
// change by then.
const retryConflict = 20 * time.Millisecond

// retryRefused is how soon an eviction that a budget refused is tried again; a budget needs a moment to see that it may.
const retryRefused = 250 * time.Millisecond

// handovers decides on one pod after the other and writes what the decisions ask for.
type handovers struct {
	eyes  *cluster.Eyes
	hands *cluster.Hands
	voice *report.Voice
}

// Reconcile decides on one incarnation of a pod.
func (h *handovers) Reconcile(ctx context.Context, key cluster.Key) (reconcile.Result, error) {
	w, err := h.eyes.World(ctx, key, false)
	if err != nil {
		return reconcile.Result{}, err
	}
	v := decide.Departure(w)
	applied, err := h.hands.Apply(ctx, key, w, v.Actions)
	h.tell(ctx, key, w, v, applied)
	if errors.Is(err, cluster.ErrRefused) {
		return reconcile.Result{RequeueAfter: retryRefused}, nil
	}
	if errors.Is(err, cluster.ErrConflict) || client.IgnoreNotFound(err) == nil && err != nil {
		return reconcile.Result{RequeueAfter: retryConflict}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("hand over pod %s: %w", key, err)
	}
	if v.LookAgain.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(v.LookAgain.Sub(w.Now), time.Millisecond)}, nil
}

func (h *handovers) tell(ctx context.Context, key cluster.Key, w decide.World, v decide.Verdict, applied []decide.Action) {
	h.voice.Applied(subject(key, w), v, applied)
	for _, a := range applied {
		phase := v1alpha1.Phase("")
		if a.Status != nil {
			phase = a.Status.Phase
		}
		log.FromContext(ctx).Info("applied", "action", a.Kind, "pod", key.String(), "outcome", v.Outcome, "reason", v.Reason, "phase", phase)
		if phase.Finished() {
			took := time.Duration(0)
			if w.Handover != nil {
				took = w.Now.Sub(w.Handover.Created)
			}
			report.Finished(a.Status.Strategy, a.Status.Phase, a.Status.Reason, took)
		}
	}
}

// add registers the controller and what makes it look: each source maps a change to the pods that it may concern.
func (h *handovers) add(mgr manager.Manager) error {
	c := mgr.GetCache()
	b := builder.TypedControllerManagedBy[cluster.Key](mgr).Named("handover").
		WithOptions(controller.TypedOptions[cluster.Key]{MaxConcurrentReconciles: concurrentDecisions}).
		WatchesRawSource(source.TypedKind(c, &corev1.Node{}, mapTo(h.podsOnNode))).
		WatchesRawSource(source.TypedKind(c, &corev1.Pod{}, mapTo(h.podAndPeers))).
		WatchesRawSource(source.TypedKind(c, &v1alpha1.Handover{}, mapTo(podOfHandover))).
		WatchesRawSource(source.TypedKind(c, &appsv1.Deployment{}, mapTo(func(ctx context.Context, d *appsv1.Deployment) []cluster.Key {
			return h.podsHandedOver(ctx, d.Namespace, string(d.UID))
		}))).
		WatchesRawSource(source.TypedKind(c, &discoveryv1.EndpointSlice{}, mapTo(h.podsServed))).
		WatchesRawSource(source.TypedKind(c, cluster.Namespace(), mapTo(h.podsInNamespace)))
	if h.eyes.NodeClaims {
		b = b.WatchesRawSource(source.TypedKind(c, cluster.NodeClaim(), mapTo(h.podsOnClaim)))
	}
	return b.Complete(reconcile.TypedFunc[cluster.Key](h.Reconcile))
}

func mapTo[T client.Object](f func(context.Context, T) []cluster.Key) handler.TypedEventHandler[T, cluster.Key] {
	return handler.TypedEnqueueRequestsFromMapFunc(f)
}

func podOfHandover(_ context.Context, h *v1alpha1.Handover) []cluster.Key {
	return []cluster.Key{{Namespace: h.Namespace, Name: h.Spec.Pod.Name, UID: h.Spec.Pod.UID}}
}

// podsOnNode returns the pods of a node that leaves, and those that are being handed over from it, so that a handover ends
// when its node stays after all.
func (h *handovers) podsOnNode(ctx context.Context, n *corev1.Node) []cluster.Key {
	node, ok, err := h.eyes.Node(ctx, n.Name)
	if err != nil || (ok && node.Signal == "") {
		return h.podsOn(ctx, n.Name, func(p *corev1.Pod) bool { return h.handedOver(ctx, p) })
	}
	return h.podsOn(ctx, n.Name, func(*corev1.Pod) bool { return true })
}

func (h *handovers) podsOnClaim(ctx context.Context, claim *metav1.PartialObjectMetadata) []cluster.Key {
	nodes := &corev1.NodeList{}
	if err := h.eyes.Cache.List(ctx, nodes); err != nil {
		return nil
	}
	var keys []cluster.Key
	for i := range nodes.Items {
		for _, ref := range nodes.Items[i].OwnerReferences {
			if ref.UID == claim.UID {
				keys = append(keys, h.podsOnNode(ctx, &nodes.Items[i])...)
			}
		}
	}
	return keys
}

func (h *handovers) podsOn(ctx context.Context, node string, want func(*corev1.Pod) bool) []cluster.Key {
	pods := &corev1.PodList{}
	if err := h.eyes.Cache.List(ctx, pods, client.MatchingFields{cluster.PodsByNode: node}); err != nil {
		log.FromContext(ctx).Error(err, "list pods", "node", node)
		return nil
	}
	var keys []cluster.Key
	for i := range pods.Items {
		if want(&pods.Items[i]) {
			keys = append(keys, cluster.KeyOf(&pods.Items[i]))
		}
	}
	return keys
}

// podAndPeers returns the pod itself when its node leaves or it is handed over, and the pods of the same Deployment that
// are handed over: the pod may be their replacement.
func (h *handovers) podAndPeers(ctx context.Context, p *corev1.Pod) []cluster.Key {
	var keys []cluster.Key
	if node, ok, err := h.eyes.Node(ctx, p.Spec.NodeName); err == nil && ok && node.Signal != "" || h.handedOver(ctx, p) {
		keys = append(keys, cluster.KeyOf(p))
	}
	_, uid, err := h.eyes.DeploymentOfPod(ctx, p)
	if err != nil || uid == "" {
		return keys
	}
	return append(keys, h.podsHandedOver(ctx, p.Namespace, string(uid))...)
}

func (h *handovers) handedOver(ctx context.Context, p *corev1.Pod) bool {
	return h.eyes.Cache.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: cluster.HandoverName(p.Name, p.UID)}, &v1alpha1.Handover{}) == nil
}

// podsHandedOver returns the pods of a workload whose Handover has not ended.
func (h *handovers) podsHandedOver(ctx context.Context, namespace, workload string) []cluster.Key {
	list := &v1alpha1.HandoverList{}
	if err := h.eyes.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{cluster.HandoversByWorkload: workload}); err != nil {
		log.FromContext(ctx).Error(err, "list handovers", "namespace", namespace)
		return nil
	}
	var keys []cluster.Key
	for i := range list.Items {
		if !list.Items[i].Status.Phase.Finished() {
			keys = append(keys, podOfHandover(ctx, &list.Items[i])...)
		}
	}
	return keys
}

// podsServed returns the pods that are handed over and whose workload an EndpointSlice sends requests to.
func (h *handovers) podsServed(ctx context.Context, s *discoveryv1.EndpointSlice) []cluster.Key {
	list := &v1alpha1.HandoverList{}
	if err := h.eyes.Cache.List(ctx, list, client.InNamespace(s.Namespace)); err != nil || len(list.Items) == 0 {
		return nil
	}
	var keys []cluster.Key
	seen := map[string]bool{}
	for _, e := range s.Endpoints {
		if e.TargetRef == nil {
			continue
		}
		p := &corev1.Pod{}
		if err := h.eyes.Cache.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: e.TargetRef.Name}, p); err != nil {
			continue
		}
		if _, uid, err := h.eyes.DeploymentOfPod(ctx, p); err == nil && uid != "" && !seen[string(uid)] {
			seen[string(uid)] = true
			keys = append(keys, h.podsHandedOver(ctx, s.Namespace, string(uid))...)
		}
	}
	return keys
}

// podsInNamespace returns the pods of a namespace on nodes that leave: its label may have changed.
func (h *handovers) podsInNamespace(ctx context.Context, ns *metav1.PartialObjectMetadata) []cluster.Key {
	nodes := &corev1.NodeList{}
	if err := h.eyes.Cache.List(ctx, nodes); err != nil {
		return nil
	}
	var keys []cluster.Key
	for i := range nodes.Items {
		if n, ok, err := h.eyes.Node(ctx, nodes.Items[i].Name); err != nil || !ok || n.Signal == "" {
			continue
		}
		keys = append(keys, h.podsOn(ctx, nodes.Items[i].Name, func(p *corev1.Pod) bool { return p.Namespace == ns.Name })...)
	}
	return keys
}
