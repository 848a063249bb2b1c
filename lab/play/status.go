package play

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons in the status of a served pod; all but the annotation's are the kubelet's own.
const (
	reasonContainersNotReady = "ContainersNotReady"
	reasonGatesNotReady      = "ReadinessGatesNotReady"
	reasonPodCompleted       = "PodCompleted"
	reasonPodFailed          = "PodFailed"
	reasonConfigError        = "CreateContainerConfigError"
)

// place is where a served pod runs.
type place struct {
	podIP string
	// hostIP is empty if the node has no internal address.
	hostIP string
}

// statusAt returns the fields of the pod's status that a kubelet would write at now. It reads the pod's spec and
// readiness gates, never the rest of its status.
func statusAt(pod *corev1.Pod, l *life, at place, now time.Time) corev1.PodStatus {
	started := metav1.NewTime(l.begun)
	s := corev1.PodStatus{
		ObservedGeneration: pod.Generation,
		Phase:              phaseOf(l),
		HostIP:             at.hostIP,
		PodIP:              at.podIP,
		PodIPs:             []corev1.PodIP{{IP: at.podIP}},
		StartTime:          &started,
	}
	if at.hostIP != "" {
		s.HostIPs = []corev1.HostIP{{IP: at.hostIP}}
	}
	for i := range pod.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, initStatus(pod, &pod.Spec.InitContainers[i], l, now))
	}
	for i, c := range l.containers {
		s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(pod, &pod.Spec.Containers[i], l, c, now))
	}
	ready := containersReady(l, s.ContainerStatuses)
	s.Conditions = conditions(now, !l.over(), ready, podReady(pod, ready))
	return s
}

// brokenStatus is the status of a pod that cannot be played, with why: what a kubelet writes for a container that it
// cannot make out of its spec.
func brokenStatus(pod *corev1.Pod, why error, now time.Time) corev1.PodStatus {
	s := corev1.PodStatus{ObservedGeneration: pod.Generation, Phase: corev1.PodPending}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonConfigError, Message: why.Error()}},
		})
	}
	ready := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: reasonContainersNotReady, Message: why.Error()}
	s.Conditions = conditions(now, true, ready, podReady(pod, ready))
	return s
}

// phaseOf returns Running, or once all containers have exited the terminal phase that a kubelet gives a deleted pod.
func phaseOf(l *life) corev1.PodPhase {
	if !l.over() {
		return corev1.PodRunning
	}
	for _, c := range l.containers {
		if c.exitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

func containerStatus(pod *corev1.Pod, spec *corev1.Container, l *life, c *container, now time.Time) corev1.ContainerStatus {
	started := c.mode == modeServing || c.mode == modeDraining || (c.mode == modeStarting && spec.StartupProbe == nil)
	s := runningStatus(pod, spec, l)
	s.Ready, s.Started = l.ready(c, now), &started
	if c.mode == modeExited {
		s.State = terminated(s, l, c.exited, c.exitCode)
	}
	return s
}

// initStatus reports an init container as completed before the containers started, and a restartable one as running
// until the pod's end: it serves nothing, and ends when the others have ended.
func initStatus(pod *corev1.Pod, spec *corev1.Container, l *life, now time.Time) corev1.ContainerStatus {
	s := runningStatus(pod, spec, l)
	runs := spec.RestartPolicy != nil && *spec.RestartPolicy == corev1.ContainerRestartPolicyAlways && !l.over()
	s.Ready, s.Started = true, &runs
	if !runs {
		s.State = terminated(s, l, l.begun, 0)
	}
	return s
}

func runningStatus(pod *corev1.Pod, spec *corev1.Container, l *life) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, ImageID: spec.Image,
		ContainerID: fmt.Sprintf("lab://%s/%s", pod.UID, spec.Name),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(l.begun)}},
	}
}

func terminated(s corev1.ContainerStatus, l *life, at time.Time, code int32) corev1.ContainerState {
	reason := "Completed"
	if code != 0 {
		reason = "Error"
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, ContainerID: s.ContainerID,
		StartedAt: metav1.NewTime(l.begun), FinishedAt: metav1.NewTime(at),
	}}
}

// containersReady mirrors GenerateContainersReadyCondition of pkg/kubelet/status/generate.go.
func containersReady(l *life, statuses []corev1.ContainerStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}
	var unready []string
	for _, s := range statuses {
		if !s.Ready {
			unready = append(unready, s.Name)
		}
	}
	switch phase := phaseOf(l); {
	case phase == corev1.PodSucceeded:
		c.Status, c.Reason = corev1.ConditionFalse, reasonPodCompleted
	case phase == corev1.PodFailed:
		c.Status, c.Reason = corev1.ConditionFalse, reasonPodFailed
	case len(unready) > 0:
		c.Status, c.Reason = corev1.ConditionFalse, reasonContainersNotReady
		c.Message = fmt.Sprintf("containers with unready status: %s", unready)
	}
	return c
}

// podReady mirrors GeneratePodReadyCondition of pkg/kubelet/status/generate.go: the containers, then the readiness gates.
func podReady(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var missing []string
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(pod.Status.Conditions, func(have corev1.PodCondition) bool {
			return have.Type == gate.ConditionType && have.Status == corev1.ConditionTrue
		})
		if !open {
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\"", gate.ConditionType))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonGatesNotReady, strings.Join(missing, ", ")
	}
	return c
}

// conditions returns the conditions that a kubelet owns, all with now as the time of their change; merge corrects the
// time of those that did not change.
func conditions(now time.Time, sandbox bool, containers, pod corev1.PodCondition) []corev1.PodCondition {
	hasSandbox := corev1.ConditionTrue
	if !sandbox {
		hasSandbox = corev1.ConditionFalse
	}
	all := []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: hasSandbox},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		pod,
		containers,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	for i := range all {
		all[i].LastTransitionTime = metav1.NewTime(now)
	}
	return all
}

// merge returns the status that results when a kubelet writes its own fields over what is there: conditions of others
// stay, and a condition whose status does not change keeps the time of its last change.
func merge(there, own corev1.PodStatus) corev1.PodStatus {
	out := *there.DeepCopy()
	out.ObservedGeneration, out.Phase = own.ObservedGeneration, own.Phase
	out.HostIP, out.HostIPs, out.PodIP, out.PodIPs = own.HostIP, own.HostIPs, own.PodIP, own.PodIPs
	out.InitContainerStatuses, out.ContainerStatuses = own.InitContainerStatuses, own.ContainerStatuses
	if out.StartTime == nil {
		out.StartTime = own.StartTime
	}
	for _, c := range own.Conditions {
		i := slices.IndexFunc(out.Conditions, func(have corev1.PodCondition) bool { return have.Type == c.Type })
		if i < 0 {
			out.Conditions = append(out.Conditions, c)
			continue
		}
		if out.Conditions[i].Status == c.Status {
			c.LastTransitionTime = out.Conditions[i].LastTransitionTime
		}
		c.ObservedGeneration, c.LastProbeTime = out.Conditions[i].ObservedGeneration, out.Conditions[i].LastProbeTime
		out.Conditions[i] = c
	}
	return out
}
