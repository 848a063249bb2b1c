package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/decide"
)

// Key names one incarnation of a pod.
type Key struct {
	Namespace string
	Name      string
	UID       types.UID
}

// KeyOf returns a pod's key.
func KeyOf(p client.Object) Key {
	return Key{Namespace: p.GetNamespace(), Name: p.GetName(), UID: p.GetUID()}
}

// String returns namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// HandoverName returns the name of a pod's Handover: the pod's name, cut so that the result is also a legal label value,
// and the first 8 hex digits of its UID.
func HandoverName(pod string, uid types.UID) string {
	hex := string(uid)
	if len(hex) > 8 {
		hex = hex[:8]
	}
	if most := 63 - 1 - len(hex); len(pod) > most {
		pod = pod[:most]
	}
	return strings.TrimRight(pod, ".-") + "-" + hex
}

// Eyes read what decisions need.
type Eyes struct {
	// Cache is read for everything that is watched.
	Cache client.Reader
	// Live goes to the API server; it reads ledgers and volume claims, which are not watched.
	Live     client.Reader
	Settings decide.Settings
	// Default is the protection of a namespace without the label.
	Default v1alpha1.Protection
	// Excluded are namespaces that are never protected.
	Excluded []string
	// NodeClaims says that the cluster knows Karpenter's NodeClaim.
	NodeClaims bool
	// Now is the clock.
	Now func() time.Time
}

// Lookup returns the pod's key as the cache knows it; ok is false when it knows no such pod.
func (e *Eyes) Lookup(ctx context.Context, namespace, name string) (key Key, ok bool, err error) {
	p := &corev1.Pod{}
	if err := e.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
		return Key{Namespace: namespace, Name: name}, false, client.IgnoreNotFound(err)
	}
	return KeyOf(p), true, nil
}

// LiveUID returns the pod's UID as the API server knows it now; ok is false when there is no such pod.
func (e *Eyes) LiveUID(ctx context.Context, namespace, name string) (uid types.UID, ok bool, err error) {
	p := partial(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := e.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
		return "", false, client.IgnoreNotFound(err)
	}
	return p.UID, true, nil
}

// World returns what a decision about a pod may depend on. evicting says that somebody asks to evict it now. The grants of
// the ledger are left out; see Ledger.
func (e *Eyes) World(ctx context.Context, key Key, evicting bool) (decide.World, error) {
	w := decide.World{Now: e.Now(), Settings: e.Settings, PodName: key.Name, Eviction: evicting, Nodes: map[string]decide.Node{}}
	var err error
	if w.Namespace, err = e.namespace(ctx, key.Namespace); err != nil {
		return w, err
	}
	var pod *corev1.Pod
	p := &corev1.Pod{}
	if err := e.Cache.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, p); err == nil && p.UID == key.UID {
		pod = p
	} else if client.IgnoreNotFound(err) != nil {
		return w, fmt.Errorf("read pod %s: %w", key, err)
	}
	var h *v1alpha1.Handover
	stored := &v1alpha1.Handover{}
	if err := e.Cache.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: HandoverName(key.Name, key.UID)}, stored); err == nil {
		h = stored
		w.Handover = handoverOf(h)
	} else if client.IgnoreNotFound(err) != nil {
		return w, fmt.Errorf("read the Handover of pod %s: %w", key, err)
	}
	if pod == nil && h == nil {
		return w, nil
	}
	if err := e.workload(ctx, &w, key.Namespace, pod, h); err != nil {
		return w, err
	}
	if pod == nil {
		return w, e.nodes(ctx, &w)
	}
	exclusive, err := e.exclusiveVolume(ctx, pod)
	if err != nil {
		return w, err
	}
	subject := podOf(pod, exclusive)
	if subject.Services, err = e.services(ctx, pod); err != nil {
		return w, err
	}
	w.Pod = &subject
	if w.Budgets, err = e.budgets(ctx, pod); err != nil {
		return w, err
	}
	return w, e.nodes(ctx, &w)
}

func (e *Eyes) namespace(ctx context.Context, name string) (decide.Namespace, error) {
	out := decide.Namespace{Name: name, Protection: v1alpha1.ProtectionDisabled}
	if slices.Contains(e.Excluded, name) {
		return out, nil
	}
	ns := Namespace()
	if err := e.Cache.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		if apierrors.IsNotFound(err) {
			return out, nil
		}
		return out, fmt.Errorf("read namespace %s: %w", name, err)
	}
	switch p := v1alpha1.Protection(ns.Labels[v1alpha1.ProtectLabel]); p {
	case v1alpha1.ProtectionEnabled, v1alpha1.ProtectionObserve, v1alpha1.ProtectionDisabled:
		out.Protection = p
	default:
		out.Protection = e.Default
	}
	return out, nil
}

// workload fills in the pod's Deployment, found through its ReplicaSet or, when the pod is gone, through its Handover, and
// all pods of the Deployment.
func (e *Eyes) workload(ctx context.Context, w *decide.World, namespace string, pod *corev1.Pod, h *v1alpha1.Handover) error {
	name, uid, err := e.deploymentRef(ctx, namespace, pod, h)
	if err != nil || name == "" {
		return err
	}
	d := &appsv1.Deployment{}
	if err := e.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read Deployment %s/%s: %w", namespace, name, err)
	}
	if d.UID != uid {
		return nil
	}
	sets := &metav1.PartialObjectMetadataList{}
	sets.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSetList"))
	if err := e.Cache.List(ctx, sets, client.InNamespace(namespace), client.MatchingFields{ReplicaSetsByController: string(d.UID)}); err != nil {
		return fmt.Errorf("list the ReplicaSets of Deployment %s/%s: %w", namespace, name, err)
	}
	revision := ""
	for i := range sets.Items {
		rs := &sets.Items[i]
		if rev := rs.Annotations[revisionAnnotation]; rev != "" && rev == d.Annotations[revisionAnnotation] {
			revision = rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
		pods := &corev1.PodList{}
		if err := e.Cache.List(ctx, pods, client.InNamespace(namespace), client.MatchingFields{PodsByReplicaSet: string(rs.UID)}); err != nil {
			return fmt.Errorf("list the pods of ReplicaSet %s/%s: %w", namespace, rs.Name, err)
		}
		for j := range pods.Items {
			p := podOf(&pods.Items[j], "")
			if p.Services, err = e.services(ctx, &pods.Items[j]); err != nil {
				return err
			}
			w.Pods = append(w.Pods, p)
		}
	}
	slices.SortFunc(w.Pods, func(a, b decide.Pod) int { return strings.Compare(a.Name, b.Name) })
	w.Workload = &decide.Workload{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: decide.KindDeployment, Name: d.Name, UID: d.UID,
		ResourceVersion: d.ResourceVersion, Deployment: deploymentOf(d, revision)}
	return nil
}

func (e *Eyes) deploymentRef(ctx context.Context, namespace string, pod *corev1.Pod, h *v1alpha1.Handover) (string, types.UID, error) {
	if pod == nil {
		if h.Spec.Workload.Kind != string(decide.KindDeployment) {
			return "", "", nil
		}
		return h.Spec.Workload.Name, h.Spec.Workload.UID, nil
	}
	return e.DeploymentOfPod(ctx, pod)
}

// DeploymentOfPod returns the Deployment that a pod belongs to through its ReplicaSet, also when its Handover controls it;
// an empty name when it belongs to none.
func (e *Eyes) DeploymentOfPod(ctx context.Context, pod *corev1.Pod) (string, types.UID, error) {
	if c := metav1.GetControllerOf(pod); c == nil || (c.Kind != replicaSetKind && c.Kind != handoverKind) {
		return "", "", nil
	}
	for _, ref := range pod.OwnerReferences {
		if ref.Kind == replicaSetKind {
			return e.deploymentOfReplicaSet(ctx, pod.Namespace, ref.Name)
		}
	}
	return "", "", nil
}

func (e *Eyes) deploymentOfReplicaSet(ctx context.Context, namespace, name string) (string, types.UID, error) {
	rs := ReplicaSet()
	if err := e.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, rs); err != nil {
		if apierrors.IsNotFound(err) {
			return "", "", nil
		}
		return "", "", fmt.Errorf("read ReplicaSet %s/%s: %w", namespace, name, err)
	}
	if owner := metav1.GetControllerOf(rs); owner != nil && owner.Kind == string(decide.KindDeployment) {
		return owner.Name, owner.UID, nil
	}
	return "", "", nil
}

// services returns the names of the Services that send requests to the pod, sorted.
func (e *Eyes) services(ctx context.Context, p *corev1.Pod) ([]string, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := e.Cache.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingFields{SlicesByPod: string(p.UID)}); err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	var out []string
	for _, s := range list.Items {
		out = append(out, s.Labels[discoveryv1.LabelServiceName])
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (e *Eyes) nodes(ctx context.Context, w *decide.World) error {
	names := map[string]bool{}
	for _, p := range w.Pods {
		names[p.Node] = true
	}
	if w.Pod != nil {
		names[w.Pod.Node] = true
	}
	delete(names, "")
	for name := range names {
		n, ok, err := e.Node(ctx, name)
		if err != nil {
			return err
		}
		if ok {
			w.Nodes[name] = n
		}
	}
	return nil
}

// Node reads a node with its NodeClaim; ok is false when there is no such node.
func (e *Eyes) Node(ctx context.Context, name string) (n decide.Node, ok bool, err error) {
	node := &corev1.Node{}
	if err := e.Cache.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return decide.Node{}, false, nil
		}
		return decide.Node{}, false, fmt.Errorf("read node %s: %w", name, err)
	}
	var claim *metav1.PartialObjectMetadata
	for _, ref := range node.OwnerReferences {
		if !e.NodeClaims || ref.Kind != nodeClaimKind.Kind {
			continue
		}
		c := NodeClaim()
		if err := e.Cache.Get(ctx, client.ObjectKey{Name: ref.Name}, c); err == nil {
			claim = c
		} else if client.IgnoreNotFound(err) != nil {
			return decide.Node{}, false, fmt.Errorf("read NodeClaim %s of node %s: %w", ref.Name, name, err)
		}
	}
	return nodeOf(node, claim), true, nil
}

// exclusiveVolume returns the name of a claim of the pod that only one node or pod can mount.
func (e *Eyes) exclusiveVolume(ctx context.Context, p *corev1.Pod) (string, error) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		claim := &corev1.PersistentVolumeClaim{}
		if err := e.Live.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, claim); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return "", fmt.Errorf("read the volume claim %s/%s of pod %s: %w", p.Namespace, name, p.Name, err)
		}
		shared := func(m corev1.PersistentVolumeAccessMode) bool {
			return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
		}
		if !slices.ContainsFunc(claim.Spec.AccessModes, shared) {
			return name, nil
		}
	}
	return "", nil
}

// budgets returns the PodDisruptionBudgets that match the pod.
func (e *Eyes) budgets(ctx context.Context, p *corev1.Pod) ([]decide.Budget, error) {
	list := &policyv1.PodDisruptionBudgetList{}
	if err := e.Cache.List(ctx, list, client.InNamespace(p.Namespace)); err != nil {
		return nil, fmt.Errorf("list the budgets of namespace %s: %w", p.Namespace, err)
	}
	var out []decide.Budget
	for _, b := range list.Items {
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !sel.Matches(labels.Set(p.Labels)) {
			continue // the API server does not store a selector that cannot be read
		}
		out = append(out, decide.Budget{Name: b.Name, DesiredHealthy: b.Status.DesiredHealthy})
	}
	slices.SortFunc(out, func(a, b decide.Budget) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Ledger is what a workload's ledger says, and the version that a write must be based on.
type Ledger struct {
	Grants          []decide.Grant
	ResourceVersion string
}

// Ledger reads a workload's ledger from the API server; a missing one is empty.
func (e *Eyes) Ledger(ctx context.Context, namespace string, workload types.UID) (Ledger, error) {
	lease := &coordinationv1.Lease{}
	if err := e.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ledgerName(workload)}, lease); err != nil {
		if apierrors.IsNotFound(err) {
			return Ledger{}, nil
		}
		return Ledger{}, fmt.Errorf("read the ledger %s/%s: %w", namespace, ledgerName(workload), err)
	}
	l := Ledger{ResourceVersion: lease.ResourceVersion}
	// What cannot be read grants nothing: the next write replaces it.
	_ = json.Unmarshal([]byte(lease.Annotations[grantsAnnotation]), &l.Grants)
	return l, nil
}
