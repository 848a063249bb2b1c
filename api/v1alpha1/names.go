package v1alpha1

// Labels and annotations of Segue. All live under segue.dev/.
const (
	// ProtectLabel on a Namespace decides alone whether Segue protects what runs in it; its values are the Protection constants.
	ProtectLabel = "segue.dev/protect"
	// RestartedAtAnnotation on a pod template is what a Rollout changes; its value is a time in RFC 3339.
	RestartedAtAnnotation = "segue.dev/restarted-at"
	// HeldAnnotation on a pod holds the exact value of karpenter.sh/do-not-disrupt that Segue wrote, so that a value
	// that a user wrote is never mistaken for ours, nor taken away.
	HeldAnnotation = "segue.dev/do-not-disrupt"
	// HandoverLabel on a pod names its Handover while Segue's annotations are on the pod.
	HandoverLabel = "segue.dev/handover"
)

// Protection is a value of ProtectLabel.
type Protection string

// The values of ProtectLabel.
const (
	// ProtectionEnabled holds evictions and hands pods over.
	ProtectionEnabled Protection = "enabled"
	// ProtectionObserve decides and records, and answers Allow.
	ProtectionObserve Protection = "observe"
	// ProtectionDisabled does nothing.
	ProtectionDisabled Protection = "disabled"
)
