package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Handover is the move of one pod off a node that is about to leave: its replacement is brought up elsewhere before the
// pod is let go. It is named after the pod (cut) and the first 8 hex digits of the pod's UID, and owned by the workload.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ho,categories=segue
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.spec.pod.name`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.status.strategy`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Replacement",type=string,JSONPath=`.status.replacement.name`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.status.replacement.node`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type Handover struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec says what is handed over; it is written once.
	// +required
	Spec HandoverSpec `json:"spec"`
	// status says how far the handover is. Unset means that no controller has seen it yet.
	// +optional
	Status HandoverStatus `json:"status,omitempty"`
}

// HandoverList is a list of Handovers.
//
// +kubebuilder:object:root=true
type HandoverList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Handover `json:"items"`
}

// HandoverSpec says what is handed over.
//
// +kubebuilder:validation:XValidation:rule="self.pod == oldSelf.pod",message="pod is immutable: a Handover is the move of one pod; create another Handover for another pod"
// +kubebuilder:validation:XValidation:rule="self.workload == oldSelf.workload",message="workload is immutable"
type HandoverSpec struct {
	// pod is the pod that is handed over. Immutable.
	// +required
	Pod PodReference `json:"pod"`
	// workload is what the pod belongs to, for example its Deployment. Immutable.
	// +required
	Workload WorkloadReference `json:"workload"`
	// node is the node that the pod leaves.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// signal is what started the handover.
	// +required
	Signal Signal `json:"signal"`
	// replicas is how many pods this Handover stands for when it controls its pod (strategy Replace): 1 until the
	// replacement serves, then 0. Budgets read it through the scale subresource. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1
	Replicas *int32 `json:"replicas,omitempty"`
}

// PodReference names one incarnation of a pod in the Handover's namespace.
type PodReference struct {
	// name is the pod's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the pod's UID.
	// +required
	UID types.UID `json:"uid"`
}

// WorkloadReference names a workload in the Handover's namespace.
type WorkloadReference struct {
	// apiVersion is the workload's API version, for example apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// kind is the workload's kind, for example Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name is the workload's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the workload's UID.
	// +required
	UID types.UID `json:"uid"`
}

// Signal is what tells that a pod is about to be taken away.
//
// +kubebuilder:validation:Enum=KarpenterDisrupted;NodeDeleted;NodeClaimDeleted;ClusterAutoscalerDeletion;TerminationHandler;Eviction
type Signal string

// The signals that start a handover.
const (
	// SignalKarpenterDisrupted is the taint karpenter.sh/disrupted, or karpenter.sh/disruption=disrupting before Karpenter 1.0.
	SignalKarpenterDisrupted Signal = "KarpenterDisrupted"
	// SignalNodeDeleted is a deletionTimestamp on the Node.
	SignalNodeDeleted Signal = "NodeDeleted"
	// SignalNodeClaimDeleted is a deletionTimestamp on the node's NodeClaim.
	SignalNodeClaimDeleted Signal = "NodeClaimDeleted"
	// SignalClusterAutoscalerDeletion is the taint ToBeDeletedByClusterAutoscaler.
	SignalClusterAutoscalerDeletion Signal = "ClusterAutoscalerDeletion"
	// SignalTerminationHandler is a taint of a node termination handler.
	SignalTerminationHandler Signal = "TerminationHandler"
	// SignalEviction is an eviction of the pod that had to be held.
	SignalEviction Signal = "Eviction"
)

// Phase is how far a handover is.
//
// +kubebuilder:validation:Enum=Pending;Preparing;Waiting;Releasing;Done;Cancelled;Failed;Observed
type Phase string

// The phases of a handover. Done, Cancelled, Failed and Observed are final.
const (
	// PhasePending: recorded; nothing has been changed yet.
	PhasePending Phase = "Pending"
	// PhasePreparing: the pod is marked and its replacement is about to be asked for.
	PhasePreparing Phase = "Preparing"
	// PhaseWaiting: the replacement is on its way.
	PhaseWaiting Phase = "Waiting"
	// PhaseReleasing: the replacement serves, or the deadline is near; the pod may go.
	PhaseReleasing Phase = "Releasing"
	// PhaseDone: the pod is gone.
	PhaseDone Phase = "Done"
	// PhaseCancelled: the node stays after all, or the pod's workload is gone.
	PhaseCancelled Phase = "Cancelled"
	// PhaseFailed: the pod was let go without a replacement that serves; downtime was accepted.
	PhaseFailed Phase = "Failed"
	// PhaseObserved: the namespace is in observe mode; nothing but this record was written.
	PhaseObserved Phase = "Observed"
)

// Strategy is how a replacement is made.
//
// +kubebuilder:validation:Enum=Rollout;Replace;None
type Strategy string

// The strategies.
const (
	// StrategyRollout changes an annotation of the workload's pod template and lets its controller roll it out.
	StrategyRollout Strategy = "Rollout"
	// StrategyReplace makes the Handover the controller of exactly the pod that is at risk, so that its ReplicaSet brings up
	// one new pod while the old one still serves.
	StrategyReplace Strategy = "Replace"
	// StrategyNone makes no replacement; the reason says why.
	StrategyNone Strategy = "None"
)

// HandoverStatus says how far a handover is.
type HandoverStatus struct {
	// phase is how far the handover is.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// strategy is how the replacement is made. Unset until it is chosen.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`
	// reason is a documented word for the phase and the choice of the strategy.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// message is reason in a sentence, with the object and what ends the wait.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// workloadGeneration is the workload's generation after the rollout that was started for this pod. Unset when none was.
	// +optional
	WorkloadGeneration int64 `json:"workloadGeneration,omitempty"`
	// replacement is the pod that takes over.
	// +optional
	Replacement *Replacement `json:"replacement,omitempty"`
	// deadline is when the pod is let go at the latest. It can move closer, never away.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// finishedAt is when the handover reached a final phase.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// replicas is 1 while the pod exists under this Handover's control, else 0.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// selector is the scale subresource's selector.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`
	// observedGeneration is the generation that the status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready is True when the replacement serves; Succeeded says how the handover ended.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Replacement is the pod that takes over.
type Replacement struct {
	// name is the pod's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// uid is the pod's UID.
	// +required
	UID types.UID `json:"uid"`
	// node is where it stands. Unset while it is not scheduled.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
}

// Finished reports whether the phase is final.
func (p Phase) Finished() bool {
	switch p {
	case PhaseDone, PhaseCancelled, PhaseFailed, PhaseObserved:
		return true
	}
	return false
}
