package play

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// brief shows of a status what this file is about.
func brief(s corev1.PodStatus) map[string]string {
	m := map[string]string{"phase": string(s.Phase)}
	for _, c := range s.Conditions {
		m[string(c.Type)] = string(c.Status)
		if c.Reason != "" {
			m[string(c.Type)] += " " + c.Reason
		}
	}
	return m
}

func testPod() *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1", Generation: 2},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: &always}},
			Containers:     []corev1.Container{{Name: "app", Image: "app:1"}},
		},
	}
}

func TestStatusAt(t *testing.T) {
	gate := corev1.PodConditionType("example.com/target")
	running := map[string]string{
		"phase": "Running", "PodReadyToStartContainers": "True", "Initialized": "True", "PodScheduled": "True",
		"ContainersReady": "True", "Ready": "True",
	}
	with := func(changes map[string]string) map[string]string {
		m := map[string]string{}
		for _, from := range []map[string]string{running, changes} {
			for k, v := range from {
				m[k] = v
			}
		}
		return m
	}
	for name, test := range map[string]struct {
		mode       mode
		exitCode   int32
		gates      bool
		gateStatus corev1.ConditionStatus
		want       map[string]string
	}{
		"starting":                 {mode: modeStarting, want: with(map[string]string{"ContainersReady": "False ContainersNotReady", "Ready": "False ContainersNotReady"})},
		"serving":                  {mode: modeServing, want: running},
		"draining without a probe": {mode: modeDraining, want: running},
		"gate closed":              {mode: modeServing, gates: true, want: with(map[string]string{"Ready": "False ReadinessGatesNotReady"})},
		"gate says no": {
			mode: modeServing, gates: true, gateStatus: corev1.ConditionFalse,
			want: with(map[string]string{"Ready": "False ReadinessGatesNotReady"}),
		},
		"gate open": {mode: modeServing, gates: true, gateStatus: corev1.ConditionTrue, want: running},
		"exited": {mode: modeExited, want: with(map[string]string{
			"phase": "Succeeded", "PodReadyToStartContainers": "False",
			"ContainersReady": "False PodCompleted", "Ready": "False PodCompleted",
		})},
		"killed": {mode: modeExited, exitCode: exitKilled, want: with(map[string]string{
			"phase": "Failed", "PodReadyToStartContainers": "False",
			"ContainersReady": "False PodFailed", "Ready": "False PodFailed",
		})},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod()
			if test.gates {
				pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
			}
			if test.gateStatus != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: gate, Status: test.gateStatus}}
			}
			l := newLife(pod, Behaviour{}, zero)
			l.containers[0].mode, l.containers[0].exitCode = test.mode, test.exitCode
			got := statusAt(pod, l, place{podIP: "100.64.0.1", hostIP: "10.0.0.9"}, zero.Add(time.Minute))
			if diff := cmp.Diff(test.want, brief(got)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			sidecar := got.InitContainerStatuses[1]
			if over := test.mode == modeExited; (sidecar.State.Terminated != nil) != over {
				t.Errorf("sidecar's state is %v, want terminated: %v", sidecar.State, over)
			}
			if got.InitContainerStatuses[0].State.Terminated == nil {
				t.Error("init container has not completed")
			}
		})
	}
}

func TestBrokenStatusSaysWhy(t *testing.T) {
	got := brokenStatus(testPod(), errors.New("no such thing"), zero)
	waiting := got.ContainerStatuses[0].State.Waiting
	if got.Phase != corev1.PodPending || waiting == nil || waiting.Message != "no such thing" {
		t.Errorf("status is %v with %v, want Pending with the reason", got.Phase, waiting)
	}
}

// TestPatch applies the patch of a change to a pod that somebody else has changed in the meantime.
func TestPatch(t *testing.T) {
	pod := testPod()
	l := newLife(pod, Behaviour{}, zero)
	at := place{podIP: "100.64.0.1", hostIP: "10.0.0.9"}
	pod.Status = merge(pod.Status, statusAt(pod, l, at, zero))

	l.containers[0].mode = modeServing
	later := zero.Add(time.Minute)
	patch, err := statusPatch(pod, merge(pod.Status, statusAt(pod, l, at, later)))
	if err != nil || patch == nil {
		t.Fatalf("patch %s, error %v; want a patch", patch, err)
	}
	server := pod.DeepCopy()
	server.Status.Conditions = append(server.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	patched := apply(t, server, patch)

	want := map[string]string{
		"phase": "Running", "PodReadyToStartContainers": "True", "Initialized": "True", "PodScheduled": "True",
		"ContainersReady": "True", "Ready": "True", "DisruptionTarget": "True",
	}
	if diff := cmp.Diff(want, brief(patched.Status)); diff != "" {
		t.Errorf("after the patch (-want +got):\n%s", diff)
	}
	for _, c := range patched.Status.Conditions {
		changed := c.Type == corev1.PodReady || c.Type == corev1.ContainersReady
		if own := c.Type != corev1.DisruptionTarget; own && c.LastTransitionTime.Time.Equal(later) != changed {
			t.Errorf("condition %s changed at %v", c.Type, c.LastTransitionTime)
		}
	}
	again, err := statusPatch(&patched, merge(patched.Status, statusAt(pod, l, at, later.Add(time.Hour))))
	if err != nil || again != nil {
		t.Errorf("the same status again gives patch %s, error %v; want none", again, err)
	}
}

func apply(t *testing.T, pod *corev1.Pod, patch []byte) corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	var patched corev1.Pod
	if err := json.Unmarshal(after, &patched); err != nil {
		t.Fatal(err)
	}
	return patched
}
