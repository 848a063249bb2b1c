package rehearse

import (
	"strings"
	"time"

	"github.com/segue-dev/segue/internal/view"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serveAnnotation marks the pods that really serve requests; see package play.
const serveAnnotation = "lab.segue.dev/serve"

func (r *record) pod(at time.Time, p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.pods[p.UID]
	if t == nil {
		t = &podTrack{name: p.Name, workload: workloadOf(p), served: p.Annotations[serveAnnotation] == "true", measured: r.isMeasuring()}
		r.pods[p.UID], r.podOrder = t, append(r.podOrder, t)
		r.note(at, kindPod, p.Name, reasonCreated, t.workload)
	}
	t.node = p.Spec.NodeName
	phase, seen := podPhase(p), t.phase()
	if phase == view.PodStarting && (seen == view.PodReady || seen == view.PodNotReady) {
		phase = view.PodNotReady
	}
	if t.node != "" && phase != seen {
		t.phases = append(t.phases, phaseTime{phase, at})
		switch phase {
		case view.PodReady:
			r.note(at, kindPod, p.Name, reasonReady, "on "+t.node)
		case view.PodNotReady:
			r.note(at, kindPod, p.Name, reasonNotReady, "on "+t.node)
		}
	}
	if p.DeletionTimestamp != nil {
		r.podDeleted(at, t)
	}
}

func (r *record) podDeleted(at time.Time, t *podTrack) {
	if !t.deleted.IsZero() {
		return
	}
	t.deleted = at
	r.note(at, kindPod, t.name, reasonDeleted, "on "+t.node)
	t.marks = append(t.marks, markTime{at, view.MarkDeletion, "deletion asked for"})
}

func (r *record) podGone(at time.Time, p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.pods[p.UID]
	if t == nil || !t.gone.IsZero() {
		return
	}
	r.podDeleted(at, t) // a pod without a grace period never shows a deletionTimestamp
	t.gone = at
	r.note(at, kindPod, t.name, reasonGone, "on "+t.node)
}

// phase is the phase that was seen last, empty when none was.
func (t *podTrack) phase() view.PodPhase {
	if len(t.phases) == 0 {
		return ""
	}
	return t.phases[len(t.phases)-1].phase
}

func podPhase(p *corev1.Pod) view.PodPhase {
	if p.DeletionTimestamp != nil {
		return view.PodStopping
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return view.PodReady
		}
	}
	return view.PodStarting
}

// workloadOf names what a pod belongs to as kind/name, a Deployment where its ReplicaSet is one of a Deployment. An
// owner that is not the controller counts too, so that a pod under a Handover keeps its workload.
func workloadOf(p *corev1.Pod) string {
	owner := metav1.GetControllerOf(p)
	for _, o := range p.OwnerReferences {
		if o.Kind == "ReplicaSet" {
			owner = &o
		}
	}
	if owner == nil {
		return kindPod + "/" + p.Name
	}
	hash := p.Labels["pod-template-hash"]
	if name, ok := strings.CutSuffix(owner.Name, "-"+hash); ok && hash != "" && owner.Kind == "ReplicaSet" {
		return "deployment/" + name
	}
	return strings.ToLower(owner.Kind) + "/" + owner.Name
}
