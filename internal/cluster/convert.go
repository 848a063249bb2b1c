package cluster

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/decide"
)

// Names that other projects use.
const (
	doNotDisruptAnnotation  = "karpenter.sh/do-not-disrupt"
	safeToEvictAnnotation   = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	replicaSetKind          = "ReplicaSet"
	handoverKind            = "Handover"
	revisionAnnotation      = "deployment.kubernetes.io/revision"
	terminatesAtAnnotation  = "karpenter.sh/nodeclaim-termination-timestamp"
	nodePoolLabel           = "karpenter.sh/nodepool"
	deletionCandidateTaint  = "DeletionCandidateOfClusterAutoscaler"
	clusterAutoscalerTaint  = "ToBeDeletedByClusterAutoscaler"
	karpenterTaint          = "karpenter.sh/disrupted"
	karpenterLegacyTaint    = "karpenter.sh/disruption"
	karpenterLegacyValue    = "disrupting"
	terminationHandlerTaint = "aws-node-termination-handler/"
)

// nodeOf reads a node; claim is its NodeClaim, nil when it has none.
func nodeOf(n *corev1.Node, claim *metav1.PartialObjectMetadata) decide.Node {
	out := decide.Node{Name: n.Name, Karpenter: n.Labels[nodePoolLabel] != ""}
	for _, t := range n.Spec.Taints {
		if s := taintSignal(t); s != "" && out.Signal == "" {
			out.Signal = s
		}
		if t.Key == deletionCandidateTaint {
			out.Hint = "DeletionCandidate"
		}
	}
	if n.Spec.Unschedulable {
		out.Hint = "Cordoned"
	}
	if claim != nil {
		if at, err := time.Parse(time.RFC3339, claim.Annotations[terminatesAtAnnotation]); err == nil {
			out.TerminatesAt = at
		}
		if claim.DeletionTimestamp != nil {
			out.Signal = v1alpha1.SignalNodeClaimDeleted
		}
	}
	if n.DeletionTimestamp != nil {
		out.Signal = v1alpha1.SignalNodeDeleted
	}
	return out
}

func taintSignal(t corev1.Taint) v1alpha1.Signal {
	switch {
	case t.Key == karpenterTaint, t.Key == karpenterLegacyTaint && t.Value == karpenterLegacyValue:
		return v1alpha1.SignalKarpenterDisrupted
	case t.Key == clusterAutoscalerTaint:
		return v1alpha1.SignalClusterAutoscalerDeletion
	case strings.HasPrefix(t.Key, terminationHandlerTaint):
		return v1alpha1.SignalTerminationHandler
	}
	return ""
}

// podOf reads a pod; exclusive names a volume claim that only one node or pod can mount.
func podOf(p *corev1.Pod, exclusive string) decide.Pod {
	out := decide.Pod{
		Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Node: p.Spec.NodeName,
		Revision:    p.Labels[appsv1.DefaultDeploymentUniqueLabelKey],
		Terminating: p.DeletionTimestamp != nil,
		Terminal:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Created:     p.CreationTimestamp.Time, DoNotDisrupt: p.Annotations[doNotDisruptAnnotation],
		Held:             p.Annotations[v1alpha1.HeldAnnotation],
		SafeToEvictFalse: p.Annotations[safeToEvictAnnotation] == "false",
		ExclusiveVolume:  exclusive,
	}
	for _, ref := range p.OwnerReferences {
		if ref.Kind == replicaSetKind {
			out.ReplicaSet = &decide.OwnerSet{Name: ref.Name, UID: ref.UID}
		}
		if ref.Kind == handoverKind && ref.Controller != nil && *ref.Controller {
			out.Released = true
		}
	}
	if p.Status.StartTime != nil {
		out.StartTime = p.Status.StartTime.Time
	}
	if p.Spec.TerminationGracePeriodSeconds != nil {
		out.Grace = time.Duration(*p.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			out.Ready, out.ReadySince = true, c.LastTransitionTime.Time
		}
	}
	return out
}

// deploymentOf reads a Deployment; revision is the pod-template-hash of its current ReplicaSet.
func deploymentOf(d *appsv1.Deployment, revision string) *decide.Deployment {
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	observed := d.Status.ObservedGeneration >= d.Generation
	out := &decide.Deployment{
		Replicas: replicas, Recreate: d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType,
		MinReady: time.Duration(d.Spec.MinReadySeconds) * time.Second, Paused: d.Spec.Paused,
		Terminating: d.DeletionTimestamp != nil, Generation: d.Generation, Observed: observed, Revision: revision,
		Settled: observed && d.Status.UpdatedReplicas >= replicas && d.Status.Replicas <= d.Status.UpdatedReplicas &&
			d.Status.AvailableReplicas >= d.Status.UpdatedReplicas,
	}
	out.MaxSurge, out.MaxUnavailable = fenceposts(d, replicas)
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded" {
			out.ProgressFailed = true
		}
	}
	return out
}

// fenceposts resolves maxSurge and maxUnavailable as the Deployment controller does: surge rounds up, unavailable down, and
// when both come out as 0 one pod may be unavailable (ResolveFenceposts in pkg/controller/deployment/util).
func fenceposts(d *appsv1.Deployment, replicas int32) (surge, unavailable int32) {
	quarter := intstr.FromString("25%")
	s, u := &quarter, &quarter
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		if r.MaxSurge != nil {
			s = r.MaxSurge
		}
		if r.MaxUnavailable != nil {
			u = r.MaxUnavailable
		}
	}
	// The API server has validated both, so an error cannot come from a stored Deployment; 0 is the careful reading.
	surgeInt, _ := intstr.GetScaledValueFromIntOrPercent(s, int(replicas), true)
	unavailableInt, _ := intstr.GetScaledValueFromIntOrPercent(u, int(replicas), false)
	if surgeInt == 0 && unavailableInt == 0 {
		unavailableInt = 1
	}
	return int32(surgeInt), int32(unavailableInt)
}

// handoverOf reads a Handover.
func handoverOf(h *v1alpha1.Handover) *decide.Handover {
	out := &decide.Handover{
		Name: h.Name, PodUID: h.Spec.Pod.UID, Node: h.Spec.Node, Signal: h.Spec.Signal, Created: h.CreationTimestamp.Time,
		Phase: h.Status.Phase, Strategy: h.Status.Strategy, Reason: decide.Reason(h.Status.Reason), Message: h.Status.Message,
		Generation: h.Status.WorkloadGeneration, Replacement: h.Status.Replacement, Replicas: 1,
	}
	if h.Spec.Replicas != nil {
		out.Replicas = *h.Spec.Replicas
	}
	if h.Status.Deadline != nil {
		out.Deadline = h.Status.Deadline.Time
	}
	if h.Status.FinishedAt != nil {
		out.Finished = h.Status.FinishedAt.Time
	}
	return out
}
