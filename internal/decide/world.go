// Package decide is the brain: a World in, a Verdict out. Everything in it is a pure function of its arguments: no client,
// clock, logger, context or goroutine, and it never changes the World that it is given. The guard, the controllers and the
// command line all call Departure, so that what is explained and what is done cannot differ.
package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// World is all that a decision about one pod may depend on. It can be written as JSON and decided again elsewhere.
type World struct {
	// Now is the time of the decision.
	Now      time.Time `json:"now"`
	Settings Settings  `json:"settings"`
	// Namespace is the pod's namespace.
	Namespace Namespace `json:"namespace"`
	// PodName is the subject's name, also when the pod is gone.
	PodName string `json:"podName"`
	// Pod is the subject. Nil when it is gone, or when its name now belongs to another incarnation than the Handover's.
	Pod *Pod `json:"pod,omitempty"`
	// Workload is what the pod belongs to. Nil when it has no controller, or its controller is gone.
	Workload *Workload `json:"workload,omitempty"`
	// Pods are all pods of the workload, the subject among them.
	Pods []Pod `json:"pods,omitempty"`
	// Nodes are the nodes that Pods stand on, by name. A node that is missing here is gone.
	Nodes map[string]Node `json:"nodes,omitempty"`
	// Budgets are the PodDisruptionBudgets that match the subject.
	Budgets []Budget `json:"budgets,omitempty"`
	// Grants are the workload's entries in its ledger: pods that were already allowed to go.
	Grants []Grant `json:"grants,omitempty"`
	// Handover is the subject's, nil when there is none.
	Handover *Handover `json:"handover,omitempty"`
	// Eviction is set when somebody asks to evict the subject right now.
	Eviction bool `json:"eviction,omitempty"`
}

// Settings are the defaults that a decision uses.
type Settings struct {
	// MaxWait bounds how long a pod is held, from the creation of its Handover.
	MaxWait time.Duration `json:"maxWait"`
	// Margin is how long before the deadline a pod is let go, so that it can stop gracefully.
	Margin time.Duration `json:"margin"`
	// Settle is how long a replacement serves before the pod that it replaces is let go.
	Settle time.Duration `json:"settle"`
	// Keep is how long a finished Handover is kept.
	Keep time.Duration `json:"keep"`
	// GrantTTL is how long an allowed eviction counts as under way although the pod does not terminate.
	GrantTTL time.Duration `json:"grantTTL"`
}

// DefaultSettings returns the documented defaults.
func DefaultSettings() Settings {
	return Settings{MaxWait: 10 * time.Minute, Margin: 10 * time.Second, Settle: 5 * time.Second, Keep: 24 * time.Hour, GrantTTL: 2 * time.Minute}
}

// Namespace is the subject's namespace.
type Namespace struct {
	Name string `json:"name"`
	// Protection is the effective value of the label segue.dev/protect.
	Protection v1alpha1.Protection `json:"protection"`
}

// Pod is what decisions read of a pod.
type Pod struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// ResourceVersion is the one that the decision was made on.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Node is where the pod stands; empty while it is not scheduled.
	Node string `json:"node,omitempty"`
	// Revision is the label pod-template-hash.
	Revision string `json:"revision,omitempty"`
	// Ready is the pod's condition Ready; ReadySince its last transition.
	Ready      bool      `json:"ready,omitempty"`
	ReadySince time.Time `json:"readySince,omitzero"`
	// Terminating says that the pod has a deletionTimestamp; Terminal that its phase is Succeeded or Failed.
	Terminating bool `json:"terminating,omitempty"`
	Terminal    bool `json:"terminal,omitempty"`
	// StartTime is status.startTime, from which a do-not-disrupt duration counts.
	StartTime time.Time `json:"startTime,omitzero"`
	Created   time.Time `json:"created,omitzero"`
	// Grace is terminationGracePeriodSeconds.
	Grace time.Duration `json:"grace,omitempty"`
	// DoNotDisrupt is the annotation karpenter.sh/do-not-disrupt; Held is the value that Segue wrote there.
	DoNotDisrupt string `json:"doNotDisrupt,omitempty"`
	Held         string `json:"held,omitempty"`
	// SafeToEvictFalse says that cluster-autoscaler.kubernetes.io/safe-to-evict is "false".
	SafeToEvictFalse bool `json:"safeToEvictFalse,omitempty"`
	// ReplicaSet is the ReplicaSet that owns the pod, as its controller or, once a Handover controls it, as a plain owner.
	ReplicaSet *OwnerSet `json:"replicaSet,omitempty"`
	// Released says that the pod's controller is its Handover, so that its ReplicaSet does not count it.
	Released bool `json:"released,omitempty"`
	// Services are the Services that send requests to the pod, as their EndpointSlices say.
	Services []string `json:"services,omitempty"`
	// ExclusiveVolume names a claim that only one node or pod can mount (ReadWriteOnce, ReadWriteOncePod).
	ExclusiveVolume string `json:"exclusiveVolume,omitempty"`
}

// OwnerSet names a ReplicaSet.
type OwnerSet struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// WorkloadKind is the kind of a workload.
type WorkloadKind string

// KindDeployment is apps/v1 Deployment, the only kind for which there is a strategy today.
const KindDeployment WorkloadKind = "Deployment"

// Workload is what decisions read of the owner of a pod.
type Workload struct {
	APIVersion string       `json:"apiVersion"`
	Kind       WorkloadKind `json:"kind"`
	Name       string       `json:"name"`
	UID        types.UID    `json:"uid"`
	// ResourceVersion is the one that the decision was made on; a write that rests on the decision is refused by the API
	// server when the workload has changed since.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Deployment is set when Kind is Deployment.
	Deployment *Deployment `json:"deployment,omitempty"`
}

// Deployment is what decisions read of a Deployment.
type Deployment struct {
	Replicas int32 `json:"replicas"`
	// Recreate says that the strategy is Recreate; then MaxSurge and MaxUnavailable mean nothing.
	Recreate bool `json:"recreate,omitempty"`
	// MaxSurge and MaxUnavailable are resolved as the Deployment controller resolves them (ResolveFenceposts in
	// pkg/controller/deployment/util/deployment_util.go).
	MaxSurge       int32         `json:"maxSurge"`
	MaxUnavailable int32         `json:"maxUnavailable"`
	MinReady       time.Duration `json:"minReady,omitempty"`
	Paused         bool          `json:"paused,omitempty"`
	Terminating    bool          `json:"terminating,omitempty"`
	// Generation is metadata.generation.
	Generation int64 `json:"generation,omitempty"`
	// Settled says that the controller has seen the newest generation and finished rolling it out (as
	// `kubectl rollout status` decides).
	Settled bool `json:"settled"`
	// Observed says that the controller has seen the newest generation, so that Revision is current.
	Observed bool `json:"observed"`
	// Revision is the pod-template-hash of the current ReplicaSet; empty when it is not known.
	Revision string `json:"revision,omitempty"`
	// ProgressFailed says that the rollout exceeded its progress deadline.
	ProgressFailed bool `json:"progressFailed,omitempty"`
}

// Node is what decisions read of a node.
type Node struct {
	Name string `json:"name"`
	// Signal is set when the node is about to leave.
	Signal v1alpha1.Signal `json:"signal,omitempty"`
	// Hint says why the node may leave (a cordon, a deletion candidate); it starts nothing, but pods there do not count as staying.
	Hint string `json:"hint,omitempty"`
	// Karpenter says that Karpenter manages the node.
	Karpenter bool `json:"karpenter,omitempty"`
	// TerminatesAt is when Karpenter ends the node whatever still runs on it; zero when it has no such time.
	TerminatesAt time.Time `json:"terminatesAt,omitzero"`
}

// Budget is a PodDisruptionBudget that matches the subject.
type Budget struct {
	Name string `json:"name"`
	// DesiredHealthy is status.desiredHealthy.
	DesiredHealthy int32 `json:"desiredHealthy"`
}

// Grant is an eviction that was allowed.
type Grant struct {
	Pod types.UID `json:"pod"`
	At  time.Time `json:"at"`
}

// Handover is what decisions read of a Handover.
type Handover struct {
	Name     string            `json:"name"`
	PodUID   types.UID         `json:"podUID"`
	Node     string            `json:"node"`
	Signal   v1alpha1.Signal   `json:"signal"`
	Created  time.Time         `json:"created"`
	Phase    v1alpha1.Phase    `json:"phase,omitempty"`
	Strategy v1alpha1.Strategy `json:"strategy,omitempty"`
	Reason   Reason            `json:"reason,omitempty"`
	Message  string            `json:"message,omitempty"`
	// Replicas is spec.replicas: how many pods budgets expect of the Handover.
	Replicas int32 `json:"replicas"`
	// Deadline is the one stored in the status; zero when none is.
	Deadline    time.Time             `json:"deadline,omitzero"`
	Finished    time.Time             `json:"finished,omitzero"`
	Replacement *v1alpha1.Replacement `json:"replacement,omitempty"`
	// Generation is the workload's generation after the rollout that was started for this pod; 0 when none was. An older
	// Deployment in the World comes from a cache that has not seen the rollout yet.
	Generation int64 `json:"generation,omitempty"`
}
