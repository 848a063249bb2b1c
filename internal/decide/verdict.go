package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/segue-dev/segue/api/v1alpha1"
)

// Outcome says whether the pod may go now.
type Outcome string

// The outcomes.
const (
	Allow Outcome = "Allow"
	Hold  Outcome = "Hold"
)

// Reason is a word for an outcome; the same word stands in conditions, events, metrics, answers and the docs.
type Reason string

// Reasons to allow.
const (
	// ReasonPodGone: the pod does not exist (any more).
	ReasonPodGone Reason = "PodGone"
	// ReasonNotProtected: the namespace is not protected.
	ReasonNotProtected Reason = "NotProtected"
	// ReasonPodNotCounted: the pod is not Ready, terminal, terminating or unscheduled, so nobody depends on it.
	ReasonPodNotCounted Reason = "PodNotCounted"
	// ReasonNoStrategyForKind: the pod has no workload of a kind that Segue can hand over.
	ReasonNoStrategyForKind Reason = "NoStrategyForKind"
	// ReasonNodeStays: neither a node signal nor an eviction says that the pod must go.
	ReasonNodeStays Reason = "NodeStays"
	// ReasonWorkloadDeleted: the workload is being deleted, and its pods with it.
	ReasonWorkloadDeleted Reason = "WorkloadDeleted"
	// ReasonSpare: the workload keeps its floor on staying nodes without the pod.
	ReasonSpare Reason = "Spare"
	// ReasonReplaced: the replacement serves.
	ReasonReplaced Reason = "Replaced"
	// ReasonDeadlineReached: the pod is let go without a replacement that serves; downtime is accepted.
	ReasonDeadlineReached Reason = "DeadlineReached"
	// ReasonObserved: the namespace is in observe mode; the pod would have been held.
	ReasonObserved Reason = "Observed"
)

// Reasons to hold.
const (
	// ReasonRolloutStarted: the workload is being rolled out so that its new pod stands elsewhere.
	ReasonRolloutStarted Reason = "RolloutStarted"
	// ReasonReplaceStarted: the pod has left its ReplicaSet, which makes another one, and serves on until that one does.
	ReasonReplaceStarted Reason = "ReplaceStarted"
	// ReasonRolloutInFlight: another rollout has to end first.
	ReasonRolloutInFlight Reason = "RolloutInFlight"
	// ReasonDeploymentPaused: a paused Deployment is not rolled out.
	ReasonDeploymentPaused Reason = "DeploymentPaused"
	// ReasonMustStaySingle: the strategy Recreate or a maxSurge of 0 allows no second pod.
	ReasonMustStaySingle Reason = "MustStaySingle"
	// ReasonRolloutBelowFloor: a rollout would itself take the workload below its floor.
	ReasonRolloutBelowFloor Reason = "RolloutBelowFloor"
	// ReasonExclusiveVolume: a volume can be mounted by one node or pod only.
	ReasonExclusiveVolume Reason = "ExclusiveVolume"
	// ReasonUserDoNotDisrupt: the pod's user asked not to disrupt it.
	ReasonUserDoNotDisrupt Reason = "UserDoNotDisrupt"
	// ReasonRolloutReverted: the rollout that was started for this pod has been taken back by somebody else.
	ReasonRolloutReverted Reason = "RolloutReverted"
	// ReasonRolloutStuck: the rollout exceeded its progress deadline.
	ReasonRolloutStuck Reason = "RolloutStuck"
	// ReasonLedgerConflict: another eviction of the same workload was answered at the same moment.
	ReasonLedgerConflict Reason = "LedgerConflict"
	// ReasonCacheCold: the guard has just started and does not know the cluster yet.
	ReasonCacheCold Reason = "CacheCold"
	// ReasonStateUnavailable: the API server could not be read or written.
	ReasonStateUnavailable Reason = "StateUnavailable"
)

// Verdict is what a decision says.
type Verdict struct {
	Outcome Outcome `json:"outcome"`
	Reason  Reason  `json:"reason"`
	// Message is the reason in a sentence, with the object and what ends a wait.
	Message string `json:"message"`
	// Checks are all checks that were made, in order, with their results.
	Checks []Check `json:"checks"`
	// Actions are to be applied in order; the first that fails ends the pass.
	Actions []Action `json:"actions,omitempty"`
	// LookAgain is when to decide again though nothing changed; zero when only a change matters.
	LookAgain time.Time `json:"lookAgain,omitzero"`
}

// Check is one question and its answer.
type Check struct {
	Name string `json:"name"`
	// Passed says that the check speaks for letting the pod go.
	Passed bool   `json:"passed"`
	Detail string `json:"detail"`
}

// ActionKind is a kind of write.
type ActionKind string

// The kinds of writes.
const (
	// CreateHandover records the intent. The guard applies it too.
	CreateHandover ActionKind = "CreateHandover"
	// GrantEviction records in the workload's ledger that the pod may go. Only the guard applies it.
	GrantEviction ActionKind = "GrantEviction"
	// MarkPod writes karpenter.sh/do-not-disrupt, so that Karpenter neither evicts the pod nor buys a second seat for it.
	MarkPod ActionKind = "MarkPod"
	// UnmarkPod takes off what MarkPod wrote.
	UnmarkPod ActionKind = "UnmarkPod"
	// RestartRollout changes the pod template's annotation.
	RestartRollout ActionKind = "RestartRollout"
	// TakeControl makes the Handover the controller of the pod; its ReplicaSet stays a plain owner and makes another pod.
	TakeControl ActionKind = "TakeControl"
	// GiveBack makes the ReplicaSet the controller again.
	GiveBack ActionKind = "GiveBack"
	// Discount has budgets no longer expect the pod: its Handover is scaled to 0, and the pod is touched, because the
	// disruption controller does not notice the scale by itself.
	Discount ActionKind = "Discount"
	// EvictPod evicts the pod through the API, so that budgets decide.
	EvictPod ActionKind = "EvictPod"
	// SetStatus writes the Handover's status.
	SetStatus ActionKind = "SetStatus"
	// DeleteHandover removes a finished Handover.
	DeleteHandover ActionKind = "DeleteHandover"
)

// Action is one write. Which of the fields are set depends on Kind.
type Action struct {
	Kind ActionKind `json:"kind"`
	// Signal is for CreateHandover.
	Signal v1alpha1.Signal `json:"signal,omitempty"`
	// PodUID is for CreateHandover, GrantEviction, MarkPod and UnmarkPod.
	PodUID types.UID `json:"podUID,omitempty"`
	// Value is the annotation's value, for MarkPod and RestartRollout.
	Value string `json:"value,omitempty"`
	// Status is for SetStatus.
	Status *Status `json:"status,omitempty"`
}

// Status is what SetStatus writes.
type Status struct {
	Phase       v1alpha1.Phase        `json:"phase"`
	Strategy    v1alpha1.Strategy     `json:"strategy,omitempty"`
	Reason      Reason                `json:"reason"`
	Message     string                `json:"message"`
	Replacement *v1alpha1.Replacement `json:"replacement,omitempty"`
	// Serves says that the replacement serves.
	Serves   bool      `json:"serves,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
}
