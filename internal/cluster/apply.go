package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/decide"
)

// FieldManager owns the fields that Segue applies. It must never start with "kubectl": GitOps controllers take fields of such
// managers away.
const FieldManager = "segue"

const (
	grantsAnnotation   = "segue.dev/grants"
	workloadAnnotation = "segue.dev/workload"
	// discountedAnnotation on a pod says that budgets no longer expect it.
	discountedAnnotation = "segue.dev/discounted"
)

// ErrConflict says that the cluster changed since it was observed: observe and decide again.
var ErrConflict = errors.New("the cluster changed since it was observed")

// ErrRefused says that a budget, or the guard, refused an eviction for now.
var ErrRefused = errors.New("the eviction is refused for now")

// Hands write what decisions ask for.
type Hands struct {
	Client client.Client
	// Cache is read for the conditions of a Handover.
	Cache client.Reader
}

// Apply writes the actions in order and stops at the first error, which wraps ErrConflict when the World is out of date. It
// returns the actions that were written.
func (h *Hands) Apply(ctx context.Context, key Key, w decide.World, actions []decide.Action) ([]decide.Action, error) {
	pass := &pass{Hands: h, key: key, world: w}
	for i, a := range actions {
		if err := pass.apply(ctx, a); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
				err = fmt.Errorf("%w: %w", ErrConflict, err)
			}
			return actions[:i], fmt.Errorf("%s for pod %s: %w", a.Kind, key, err)
		}
	}
	return actions, nil
}

// pass is one application of a list of actions; later actions need what earlier ones brought about.
type pass struct {
	*Hands
	key        Key
	world      decide.World
	created    *v1alpha1.Handover
	generation int64
	// podVersion is the pod's resourceVersion after the last write of this pass; empty before the first.
	podVersion string
}

func (p *pass) apply(ctx context.Context, a decide.Action) error {
	switch a.Kind {
	case decide.CreateHandover:
		return p.create(ctx, a)
	case decide.DeleteHandover:
		return client.IgnoreNotFound(p.Client.Delete(ctx, p.handover()))
	case decide.MarkPod:
		return p.mark(ctx, a)
	case decide.UnmarkPod:
		return p.unmark(ctx)
	case decide.TakeControl:
		return p.takeControl(ctx)
	case decide.GiveBack:
		return p.setOwners(ctx, p.replicaSetRef(true))
	case decide.Discount:
		return p.discount(ctx)
	case decide.EvictPod:
		return p.evict(ctx, a)
	case decide.RestartRollout:
		return p.restart(ctx, a)
	case decide.SetStatus:
		return p.setStatus(ctx, a.Status)
	case decide.GrantEviction:
		return errors.New("a grant is written by Grant, with the ledger that it was decided on")
	}
	return fmt.Errorf("unknown action %q", a.Kind)
}

func (p *pass) handover() *v1alpha1.Handover {
	return &v1alpha1.Handover{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: HandoverName(p.key.Name, p.key.UID)}}
}

func (p *pass) create(ctx context.Context, a decide.Action) error {
	wl := p.world.Workload
	h := p.handover()
	h.OwnerReferences = []metav1.OwnerReference{{APIVersion: wl.APIVersion, Kind: string(wl.Kind), Name: wl.Name, UID: wl.UID}}
	h.Spec = v1alpha1.HandoverSpec{
		Pod:      v1alpha1.PodReference{Name: p.key.Name, UID: a.PodUID},
		Workload: v1alpha1.WorkloadReference{APIVersion: wl.APIVersion, Kind: string(wl.Kind), Name: wl.Name, UID: wl.UID},
		Node:     p.world.Pod.Node, Signal: a.Signal,
	}
	if err := p.Client.Create(ctx, h); err != nil {
		return err
	}
	p.created = h
	return nil
}

// mark is refused by the API server when the pod has changed since it was observed, so that a value that a user writes at
// the same moment is never overwritten.
func (p *pass) mark(ctx context.Context, a decide.Action) error {
	return p.patchPod(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": a.PodUID, "resourceVersion": p.version(),
		"annotations": map[string]any{doNotDisruptAnnotation: a.Value, v1alpha1.HeldAnnotation: a.Value},
		"labels":      map[string]any{v1alpha1.HandoverLabel: HandoverName(p.key.Name, p.key.UID)},
	}})
}

func (p *pass) unmark(ctx context.Context) error {
	pod := p.world.Pod
	annotations := map[string]any{v1alpha1.HeldAnnotation: nil}
	if pod.DoNotDisrupt == pod.Held {
		annotations[doNotDisruptAnnotation] = nil
	}
	err := p.patchPod(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": p.version(), "annotations": annotations, "labels": map[string]any{v1alpha1.HandoverLabel: nil},
	}})
	return client.IgnoreNotFound(err)
}

func (p *pass) patchPod(ctx context.Context, kind types.PatchType, body map[string]any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
	if err := p.Client.Patch(ctx, pod, client.RawPatch(kind, data), client.FieldOwner(FieldManager)); err != nil {
		return err
	}
	p.podVersion = pod.ResourceVersion
	return nil
}

// version is the resourceVersion that a write to the pod is based on.
func (p *pass) version() string {
	if p.podVersion != "" {
		return p.podVersion
	}
	return p.world.Pod.ResourceVersion
}

// takeControl makes the Handover the pod's controller. The ReplicaSet stays a plain owner, so that it takes the pod back when
// the Handover is deleted, by hand or with its kind.
func (p *pass) takeControl(ctx context.Context) error {
	h, err := p.stored(ctx)
	if err != nil {
		return err
	}
	return p.setOwners(ctx, owner(v1alpha1.GroupVersion.String(), handoverKind, h.Name, h.UID, true), p.replicaSetRef(false))
}

func (p *pass) replicaSetRef(controller bool) map[string]any {
	rs := p.world.Pod.ReplicaSet
	return owner(appsv1.SchemeGroupVersion.String(), replicaSetKind, rs.Name, rs.UID, controller)
}

func owner(apiVersion, kind, name string, uid types.UID, controller bool) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "name": name, "uid": uid, "controller": controller, "blockOwnerDeletion": controller && kind == replicaSetKind}
}

func (p *pass) setOwners(ctx context.Context, refs ...map[string]any) error {
	return p.patchPod(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": p.world.Pod.UID, "resourceVersion": p.version(), "ownerReferences": refs}})
}

// discount scales the Handover to 0 and touches the pod: only a change of the pod makes the disruption controller look.
func (p *pass) discount(ctx context.Context) error {
	if err := p.Client.Patch(ctx, p.handover(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)), client.FieldOwner(FieldManager)); err != nil {
		return err
	}
	return p.patchPod(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": p.world.Pod.UID, "annotations": map[string]any{discountedAnnotation: "true"}}})
}

func (p *pass) evict(ctx context.Context, a decide.Action) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.PodUID}}}
	err := p.Client.SubResource("eviction").Create(ctx, pod, e)
	if apierrors.IsTooManyRequests(err) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return client.IgnoreNotFound(err)
}

// stored returns the Handover: the one that this pass made, or the cached one.
func (p *pass) stored(ctx context.Context) (*v1alpha1.Handover, error) {
	if p.created != nil {
		return p.created, nil
	}
	h := p.handover()
	return h, p.Cache.Get(ctx, client.ObjectKeyFromObject(h), h)
}

// restart is refused by the API server when the Deployment has changed since it was observed: then somebody else may have
// started a rollout.
func (p *pass) restart(ctx context.Context, a decide.Action) error {
	wl := p.world.Workload
	data, err := json.Marshal(map[string]any{
		"apiVersion": wl.APIVersion, "kind": wl.Kind,
		"metadata": map[string]any{"name": wl.Name, "namespace": p.key.Namespace, "uid": wl.UID, "resourceVersion": wl.ResourceVersion},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{v1alpha1.RestartedAtAnnotation: a.Value}}}},
	})
	if err != nil {
		return err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: wl.Name}}
	if err := p.Client.Patch(ctx, d, client.RawPatch(types.ApplyPatchType, data), client.FieldOwner(FieldManager)); err != nil {
		return err
	}
	p.generation = d.Generation
	return nil
}

func (p *pass) setStatus(ctx context.Context, s *decide.Status) error {
	stored, err := p.stored(ctx)
	if err != nil {
		return err
	}
	status := v1alpha1.HandoverStatus{
		Phase: s.Phase, Strategy: s.Strategy, Reason: string(s.Reason), Message: cut(s.Message, 1024), Replacement: s.Replacement,
		WorkloadGeneration: max(p.generation, stored.Status.WorkloadGeneration), ObservedGeneration: stored.Generation,
		Conditions: append([]metav1.Condition(nil), stored.Status.Conditions...),
		Deadline:   timeOrNil(s.Deadline), FinishedAt: timeOrNil(s.Finished),
	}
	ready, succeeded := conditions(s)
	for _, c := range []metav1.Condition{ready, succeeded} {
		c.ObservedGeneration, c.Reason, c.Message = stored.Generation, string(s.Reason), cut(s.Message, 1024)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	content, err := json.Marshal(status)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{}}}
	body := map[string]any{}
	if err := json.Unmarshal(content, &body); err != nil {
		return err
	}
	u.Object["status"] = body
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Handover"))
	u.SetNamespace(stored.Namespace)
	u.SetName(stored.Name)
	u.SetUID(stored.UID)
	data, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return p.Client.Status().Patch(ctx, p.handover(), client.RawPatch(types.ApplyPatchType, data), client.FieldOwner(FieldManager), client.ForceOwnership)
}

// conditions returns Ready (the replacement serves) and Succeeded (how the handover ended; Unknown until then).
func conditions(s *decide.Status) (ready, succeeded metav1.Condition) {
	ready = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse}
	if s.Serves || s.Reason == decide.ReasonReplaced {
		ready.Status = metav1.ConditionTrue
	}
	succeeded = metav1.Condition{Type: "Succeeded", Status: metav1.ConditionUnknown}
	switch s.Phase {
	case v1alpha1.PhaseDone:
		succeeded.Status = metav1.ConditionTrue
	case v1alpha1.PhaseFailed, v1alpha1.PhaseCancelled:
		succeeded.Status = metav1.ConditionFalse
	}
	return ready, succeeded
}

// Grant records in the workload's ledger that the World's subject may go. The ledger must be the one that the decision was
// made on: when it has changed since, the error wraps ErrConflict and nothing is written.
func (h *Hands) Grant(ctx context.Context, key Key, w decide.World, l Ledger) error {
	grants := []decide.Grant{{Pod: key.UID, At: w.Now}}
	for _, g := range l.Grants {
		if w.Now.Before(g.At.Add(w.Settings.GrantTTL)) && g.Pod != key.UID {
			grants = append(grants, g)
		}
	}
	data, err := json.Marshal(grants)
	if err != nil {
		return err
	}
	wl := w.Workload
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: ledgerName(wl.UID), ResourceVersion: l.ResourceVersion,
		Annotations:     map[string]string{grantsAnnotation: string(data), workloadAnnotation: string(wl.Kind) + "/" + wl.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: wl.APIVersion, Kind: string(wl.Kind), Name: wl.Name, UID: wl.UID}},
	}}
	if l.ResourceVersion == "" {
		err = h.Client.Create(ctx, lease)
	} else {
		err = h.Client.Update(ctx, lease)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("grant in ledger %s/%s: %w: %w", key.Namespace, lease.Name, ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("grant in ledger %s/%s: %w", key.Namespace, lease.Name, err)
	}
	return nil
}

// ledgerName names the Lease that is a workload's ledger. It carries the UID, so a workload that is made anew starts empty.
func ledgerName(workload types.UID) string { return "segue-ledger-" + string(workload) }

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most]
}
