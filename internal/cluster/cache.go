// Package cluster holds the eyes and hands: it turns caches into a decide.World and actions into API writes. It is the only
// package that holds a client, and it decides nothing.
package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// Indexes of the cache.
const (
	// PodsByNode finds pods by spec.nodeName.
	PodsByNode = "segue.node"
	// PodsByReplicaSet finds pods by the UID of each ReplicaSet that owns them, as controller or plainly.
	PodsByReplicaSet = "segue.replicaSet"
	// SlicesByPod finds EndpointSlices by the UID of each pod that they send requests to.
	SlicesByPod = "segue.endpoint"
	// ReplicaSetsByController finds ReplicaSets by the UID of their controller.
	ReplicaSetsByController = "segue.replicaSetController"
	// HandoversByWorkload finds Handovers by the UID of their workload.
	HandoversByWorkload = "segue.workload"
)

// nodeClaimKind is Karpenter's NodeClaim, of which only the metadata is read.
var nodeClaimKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// ReplicaSet returns an empty metadata-only ReplicaSet, the form in which they are cached.
func ReplicaSet() *metav1.PartialObjectMetadata {
	return partial(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
}

// NodeClaim returns an empty metadata-only NodeClaim, the form in which they are cached.
func NodeClaim() *metav1.PartialObjectMetadata { return partial(nodeClaimKind) }

// Namespace returns an empty metadata-only Namespace, the form in which they are cached.
func Namespace() *metav1.PartialObjectMetadata {
	return partial(corev1.SchemeGroupVersion.WithKind("Namespace"))
}

func partial(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}

// HasNodeClaims reports whether the cluster knows Karpenter's NodeClaim.
func HasNodeClaims(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(nodeClaimKind.GroupKind(), nodeClaimKind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", nodeClaimKind.GroupKind(), err)
	}
	return true, nil
}

// CacheOptions trims what is kept in memory to what decisions read. What comes from the cache must therefore never be
// written back whole; Hands writes patches only.
func CacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                {Transform: trim(trimPod)},
			&corev1.Node{}:               {Transform: trim(trimNode)},
			&appsv1.Deployment{}:         {Transform: trim(trimDeployment)},
			&discoveryv1.EndpointSlice{}: {Transform: trim(trimSlice)},
		},
	}
}

func trim[T client.Object](f func(T)) func(any) (any, error) {
	return func(o any) (any, error) {
		if t, ok := o.(T); ok {
			t.SetManagedFields(nil)
			f(t)
		}
		return o, nil
	}
}

func trimPod(p *corev1.Pod) {
	p.Annotations = pick(p.Annotations, doNotDisruptAnnotation, safeToEvictAnnotation, v1alpha1.HeldAnnotation)
	s := corev1.PodSpec{NodeName: p.Spec.NodeName, TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			s.Volumes = append(s.Volumes, v)
		}
	}
	p.Spec = s
	p.Status = corev1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime, Conditions: p.Status.Conditions}
}

func trimNode(n *corev1.Node) {
	n.Annotations = nil
	n.Spec = corev1.NodeSpec{Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable}
	n.Status = corev1.NodeStatus{}
}

func trimDeployment(d *appsv1.Deployment) {
	d.Annotations = pick(d.Annotations, revisionAnnotation)
	d.Spec.Template.Spec = corev1.PodSpec{}
}

func trimSlice(s *discoveryv1.EndpointSlice) {
	s.Annotations, s.Ports = nil, nil
	for i, e := range s.Endpoints {
		s.Endpoints[i] = discoveryv1.Endpoint{TargetRef: e.TargetRef, Conditions: e.Conditions}
	}
}

func pick(m map[string]string, keys ...string) map[string]string {
	out := map[string]string{}
	for _, k := range keys {
		if v, ok := m[k]; ok {
			out[k] = v
		}
	}
	return out
}

// AddIndexes registers the indexes that Eyes needs and starts the informers behind them.
func AddIndexes(ctx context.Context, c cache.Cache) error {
	for _, ix := range []struct {
		object client.Object
		name   string
		value  client.IndexerFunc
	}{
		{&corev1.Pod{}, PodsByNode, func(o client.Object) []string { return notEmpty(o.(*corev1.Pod).Spec.NodeName) }},
		{&corev1.Pod{}, PodsByReplicaSet, replicaSetUIDs},
		{&discoveryv1.EndpointSlice{}, SlicesByPod, readyPodUIDs},
		{ReplicaSet(), ReplicaSetsByController, controllerUID},
		{&v1alpha1.Handover{}, HandoversByWorkload, func(o client.Object) []string {
			return notEmpty(string(o.(*v1alpha1.Handover).Spec.Workload.UID))
		}},
	} {
		if err := c.IndexField(ctx, ix.object, ix.name, ix.value); err != nil {
			return fmt.Errorf("index %T by %s: %w", ix.object, ix.name, err)
		}
	}
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Node{}, &policyv1.PodDisruptionBudget{}, Namespace()} {
		if _, err := c.GetInformer(ctx, o, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", o, err)
		}
	}
	return nil
}

func controllerUID(o client.Object) []string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

func replicaSetUIDs(o client.Object) []string {
	var out []string
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == replicaSetKind {
			out = append(out, string(ref.UID))
		}
	}
	return out
}

func readyPodUIDs(o client.Object) []string {
	var out []string
	for _, e := range o.(*discoveryv1.EndpointSlice).Endpoints {
		if e.TargetRef != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
			out = append(out, string(e.TargetRef.UID))
		}
	}
	return out
}

func notEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}
