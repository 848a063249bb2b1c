package play_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/segue-dev/segue/lab/play"
)

// TestPodStarts shows a pod before and after its start delay.
func TestPodStarts(t *testing.T) {
	node(t, "starts")
	ns := namespace(t)
	begun := time.Now()
	create(t, ns, served("web", "start-delay", "2s"))
	var pod *corev1.Pod
	eventually(t, "pod runs", func() (any, bool) {
		var err error
		pod, err = lab.client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err, err == nil && pod.Status.Phase == corev1.PodRunning
	})
	if time.Since(begun) < 2*time.Second {
		if answer, err := ask(pod); err == nil {
			t.Errorf("pod answers %q before its start delay is over", answer)
		}
		if isReady(pod) {
			t.Error("pod is ready before its start delay is over")
		}
	}
	pod = awaitReady(t, ns, "web")
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("pod was ready after %v, want 2s or more", took)
	}
	if answer, err := ask(pod); err != nil || answer != "web" {
		t.Errorf("ready pod answers %q, %v; want its name", answer, err)
	}
	s := pod.Status
	if s.PodIP == "" || s.HostIP == "" || s.StartTime == nil || len(s.PodIPs) != 1 || len(s.ContainerStatuses) != 1 || !s.ContainerStatuses[0].Ready {
		t.Errorf("status of a ready pod lacks something: %+v", s)
	}
	if i, ok := info(ns, "web"); !ok || i.Requests != 1 {
		t.Errorf("the Player knows %+v, %v; want 1 request", i, ok)
	}
}

func TestNeverReady(t *testing.T) {
	node(t, "never")
	ns := namespace(t)
	create(t, ns, served("web", "ready", "false"))
	eventually(t, "pod answers", func() (any, bool) {
		pod, err := lab.client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err, false
		}
		_, err = ask(pod)
		if isReady(pod) {
			t.Fatal("pod became ready")
		}
		return err, err == nil
	})
}

func TestReadinessGate(t *testing.T) {
	node(t, "gate")
	ns := namespace(t)
	pod := served("web")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/target"}}
	create(t, ns, pod)
	eventually(t, "containers are ready", func() (any, bool) {
		got, err := lab.client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(got.Status.ContainerStatuses) == 0 {
			return err, false
		}
		if isReady(got) {
			t.Fatal("pod is ready with its gate closed")
		}
		return got.Status, got.Status.ContainerStatuses[0].Ready
	})
	open := []byte(`{"status":{"conditions":[{"type":"example.com/target","status":"True"}]}}`)
	if _, err := lab.client.CoreV1().Pods(ns).Patch(t.Context(), "web", "application/strategic-merge-patch+json", open, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, ns, "web")
}

// TestWrongAnnotation shows that a pod that cannot be played says why, and can be deleted.
func TestWrongAnnotation(t *testing.T) {
	node(t, "wrong")
	ns := namespace(t)
	create(t, ns, served("web", "on-term", "explode"))
	eventually(t, "pod says what is wrong", func() (any, bool) {
		pod, err := lab.client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || len(pod.Status.ContainerStatuses) == 0 {
			return err, false
		}
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		return waiting, waiting != nil && strings.Contains(waiting.Message, play.AnnotationOnTerm) && pod.Status.Phase == corev1.PodPending
	})
	deletePod(t, ns, "web", -1)
	awaitGone(t, ns, "web")
}

// openRequest sends a request that takes a minute and returns how it ends, once it has arrived.
func openRequest(t *testing.T, pod *corev1.Pod) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := ask(pod)
		ended <- err
	}()
	eventually(t, "the request has arrived", func() (any, bool) {
		i, _ := info(pod.Namespace, pod.Name)
		return i, i.Open == 1
	})
	return ended
}

// TestIgnoreIsKilled shows the end of a pod that ignores SIGTERM: it serves until the end of its grace period, then its
// open request is cut off, and its last status says so.
func TestIgnoreIsKilled(t *testing.T) {
	node(t, "ignore")
	ns := namespace(t)
	create(t, ns, withGrace(served("web", "on-term", "ignore", "request-duration", "60s"), 3))
	pod := awaitReady(t, ns, "web")
	ended := openRequest(t, pod)
	changes, err := lab.client.CoreV1().Pods(ns).Watch(t.Context(), metav1.ListOptions{ResourceVersion: pod.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	begun := time.Now()
	deletePod(t, ns, "web", -1)
	select {
	case err := <-ended:
		if took := time.Since(begun); !errors.Is(err, syscall.ECONNRESET) || took < 3*time.Second {
			t.Errorf("open request ended with %v after %v; want a reset after 3s", err, took)
		}
	case <-time.After(patience):
		t.Fatalf("open request did not end in %v", patience)
	}
	last := lastStatus(t, changes)
	if len(last.ContainerStatuses) != 1 || last.Phase != corev1.PodFailed {
		t.Fatalf("last status is %+v; want Failed with one container", last)
	}
	if end := last.ContainerStatuses[0].State.Terminated; end == nil || end.ExitCode != 137 {
		t.Errorf("container ended with %+v; want exit code 137", end)
	}
}

// lastStatus returns the status that the pod had before it was deleted.
func lastStatus(t *testing.T, changes watch.Interface) corev1.PodStatus {
	t.Helper()
	timeout := time.After(patience)
	var last corev1.PodStatus
	for {
		select {
		case e, ok := <-changes.ResultChan():
			if !ok {
				t.Fatal("the watch ended")
			}
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Modified {
				last = pod.Status
			}
			if e.Type == watch.Deleted {
				return last
			}
		case <-timeout:
			t.Fatalf("pod was not deleted in %v; last status %+v", patience, last)
		}
	}
}

// TestSecondDeleteShortensGrace would take ten minutes if it did not.
func TestSecondDeleteShortensGrace(t *testing.T) {
	node(t, "shorter")
	ns := namespace(t)
	create(t, ns, withGrace(served("web", "on-term", "ignore"), 600))
	pod := awaitReady(t, ns, "web")
	deletePod(t, ns, "web", -1)
	if _, err := ask(pod); err != nil {
		t.Errorf("pod that ignores SIGTERM does not answer after it: %v", err)
	}
	deletePod(t, ns, "web", 1)
	awaitGone(t, ns, "web")
}

// TestForcedDeletion shows that the containers of a pod that is deleted by force get the least time that a kubelet gives,
// although nobody can see the pod any more.
func TestForcedDeletion(t *testing.T) {
	node(t, "forced")
	ns := namespace(t)
	create(t, ns, withGrace(served("web", "on-term", "ignore"), 600))
	pod := awaitReady(t, ns, "web")
	begun := time.Now()
	deletePod(t, ns, "web", 0)
	awaitGone(t, ns, "web")
	eventually(t, "the Player has ended the pod", func() (any, bool) {
		_, err := ask(pod)
		_, played := info(ns, "web")
		return err, err != nil && !played
	})
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("containers ended after %v; want 2s", took)
	}
}

func TestNodeDeleted(t *testing.T) {
	node(t, "deleted")
	ns := namespace(t)
	pod := served("web", "request-duration", "60s")
	pod.Spec.NodeName = "deleted"
	create(t, ns, pod)
	ended := openRequest(t, awaitReady(t, ns, "web"))
	if err := lab.client.CoreV1().Nodes().Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("open request ended with %v, want a reset", err)
	}
	awaitGone(t, ns, "web")
}

// TestPlayerRestart shows that pods outlive their Player, and that the next one ends what had to stop in the meantime.
func TestPlayerRestart(t *testing.T) {
	node(t, "restart")
	ns := namespace(t)
	create(t, ns, served("stays"))
	create(t, ns, served("goes"))
	before := awaitReady(t, ns, "stays")
	awaitReady(t, ns, "goes")
	if err := lab.leave(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(before); err == nil {
		t.Error("pod answers without a Player")
	}
	deletePod(t, ns, "goes", -1)
	create(t, ns, served("comes"))
	lab.startPlayer(lab.cfg)

	comes := awaitReady(t, ns, "comes")
	awaitGone(t, ns, "goes")
	eventually(t, "the pod that stays answers again", func() (any, bool) {
		_, err := ask(before)
		return err, err == nil
	})
	after := awaitReady(t, ns, "stays")
	if diff := cmp.Diff(before.Status, after.Status); diff != "" {
		t.Errorf("the restart changed the pod's status (-before +after):\n%s", diff)
	}
	if comes.Status.PodIP == after.Status.PodIP {
		t.Errorf("two pods have address %s", after.Status.PodIP)
	}
}

// TestWithoutAPIServer shows that a pod stops on time although the API server is away, and is gone when that is back.
func TestWithoutAPIServer(t *testing.T) {
	node(t, "cut-off")
	ns := namespace(t)
	create(t, ns, withGrace(served("web", "on-term", "ignore", "request-duration", "60s"), 4))
	pod := awaitReady(t, ns, "web")
	if err := lab.leave(); err != nil {
		t.Fatal(err)
	}
	line := newLine(t, lab.cfg.Host)
	cfg := rest.CopyConfig(lab.cfg)
	cfg.Host = "https://" + line.addr
	lab.startPlayer(cfg)
	defer func() {
		line.repair()
		if err := lab.leave(); err != nil {
			t.Error(err)
		}
		lab.startPlayer(lab.cfg)
	}()
	eventually(t, "the pod answers again", func() (any, bool) {
		i, _ := info(ns, "web")
		return i, i.State == "serving"
	})
	ended := openRequest(t, pod)
	deletePod(t, ns, "web", -1)
	eventually(t, "the Player has seen the deletion", func() (any, bool) {
		i, _ := info(ns, "web")
		return i, i.Stopping
	})
	line.cut()
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("open request ended with %v, want a reset", err)
		}
	case <-time.After(patience):
		t.Fatalf("open request did not end in %v", patience)
	}
	line.repair()
	awaitGone(t, ns, "web")
}

// TestMixed shows served pods and KWOK's on one node.
func TestMixed(t *testing.T) {
	node(t, "mixed")
	ns := namespace(t)
	const each = 10
	for k := range each {
		pod := served(fmt.Sprint("served-", k))
		plain := served(fmt.Sprint("plain-", k))
		plain.Annotations = nil
		for _, p := range []*corev1.Pod{pod, plain} {
			p.Spec.NodeName = "mixed"
			create(t, ns, p)
		}
	}
	owner := map[string]string{}
	for k := range each {
		for _, kind := range []string{"served", "plain"} {
			name := fmt.Sprintf("%s-%d", kind, k)
			pod := awaitReady(t, ns, name)
			if other, taken := owner[pod.Status.PodIP]; taken {
				t.Errorf("pods %s and %s have address %s", name, other, pod.Status.PodIP)
			}
			owner[pod.Status.PodIP] = name
			answer, err := ask(pod)
			if kind == "served" && answer != name {
				t.Errorf("pod %s answers %q, %v", name, answer, err)
			}
			if _, played := info(ns, name); played != (kind == "served") {
				t.Errorf("pod %s is played: %v", name, played)
			}
		}
	}
}
