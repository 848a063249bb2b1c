// Package report is the voice: events and metrics. Every word that it uses for a reason comes from package decide.
package report

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/decide"
)

// Voice publishes what happened.
type Voice struct {
	Recorder events.EventRecorder
}

// Subject is what events are published on.
type Subject struct {
	Namespace string
	Pod       v1alpha1.PodReference
	// Workload is nil when the pod has none.
	Workload *decide.Workload
	// Node is empty when the pod is gone.
	Node string
}

// Applied publishes what the written actions mean. It is called only after they succeeded.
func (v *Voice) Applied(s Subject, verdict decide.Verdict, actions []decide.Action) {
	for _, a := range actions {
		switch a.Kind {
		case decide.CreateHandover:
			v.publish(s.pod(), corev1.EventTypeNormal, "HandoverStarted", "Handover", "%s: %s", a.Signal, verdict.Message)
			v.publish(s.node(), corev1.EventTypeNormal, "HandoverStarted", "Handover", "pod %s/%s is replaced before it leaves", s.Namespace, s.Pod.Name)
		case decide.RestartRollout:
			v.publish(s.workload(), corev1.EventTypeNormal, string(decide.ReasonRolloutStarted), "Rollout",
				"rolled out so that pod %s on node %s is replaced elsewhere before it leaves", s.Pod.Name, s.Node)
		case decide.TakeControl:
			v.publish(s.workload(), corev1.EventTypeNormal, string(decide.ReasonReplaceStarted), "Replace",
				"pod %s on node %s is replaced alone before it leaves", s.Pod.Name, s.Node)
		case decide.SetStatus:
			v.phase(s, a.Status)
		}
	}
}

func (v *Voice) phase(s Subject, st *decide.Status) {
	switch st.Phase {
	case v1alpha1.PhaseDone:
		v.publish(s.workload(), corev1.EventTypeNormal, "HandoverDone", "Handover", "pod %s is gone, and %s", s.Pod.Name, st.Message)
	case v1alpha1.PhaseCancelled:
		v.publish(s.workload(), corev1.EventTypeNormal, "HandoverCancelled", "Handover", "pod %s: %s", s.Pod.Name, st.Message)
	case v1alpha1.PhaseFailed:
		v.publish(s.workload(), corev1.EventTypeWarning, string(st.Reason), "Handover", "downtime accepted for pod %s: %s", s.Pod.Name, st.Message)
		v.publish(s.pod(), corev1.EventTypeWarning, string(st.Reason), "Handover", "%s", st.Message)
	case v1alpha1.PhasePending:
		if st.Strategy == v1alpha1.StrategyNone {
			v.publish(s.workload(), corev1.EventTypeWarning, string(st.Reason), "Handover", "pod %s cannot be replaced first: %s", s.Pod.Name, st.Message)
		}
	}
}

// Held publishes on the pod that an eviction was answered with 429. The recorder folds repetitions.
func (v *Voice) Held(s Subject, verdict decide.Verdict) {
	v.publish(s.pod(), corev1.EventTypeNormal, "EvictionHeld", "Evict", "%s: %s", verdict.Reason, verdict.Message)
}

func (v *Voice) publish(on runtime.Object, kind, reason, action, format string, args ...any) {
	if on != nil {
		v.Recorder.Eventf(on, nil, kind, reason, action, format, args...)
	}
}

func (s Subject) pod() runtime.Object {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Pod.Name, UID: s.Pod.UID}}
}

func (s Subject) node() runtime.Object {
	if s.Node == "" {
		return nil
	}
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: s.Node}}
}

func (s Subject) workload() runtime.Object {
	if s.Workload == nil {
		return nil
	}
	o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: s.Workload.APIVersion, Kind: string(s.Workload.Kind)},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Workload.Name, UID: s.Workload.UID}}
	return o
}
