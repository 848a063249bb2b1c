package controlplane_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/labtest"
)

// noticeTime is how soon the death of a component must be known.
const noticeTime = 5 * time.Second

// TestEveryComponentThatDiesIsReportedAndComesBack needs a lab of its own, since it breaks it.
func TestEveryComponentThatDiesIsReportedAndComesBack(t *testing.T) {
	lab := labtest.Start(t, controlplane.Options{Karpenter: &controlplane.KarpenterOptions{FastClock: true}})
	for _, name := range controlplane.Components() {
		t.Run(name, func(t *testing.T) {
			pid := lab.Pid(name)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatalf("kill %s, process %d: %v", name, pid, err)
			}
			select {
			case err := <-lab.Died():
				for _, want := range []string{name + " ended: signal: killed", lab.LogFile(name)} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("report %q does not say %q", err, want)
					}
				}
			case <-time.After(noticeTime):
				t.Fatalf("nothing was reported within %s", noticeTime)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := lab.Restart(ctx, name); err != nil {
				t.Fatal(err)
			}
			if lab.Pid(name) == 0 {
				t.Error("it is restarted, but has no process")
			}
		})
	}
	t.Run("and pods run afterwards", func(t *testing.T) {
		f := newFixture(t, lab)
		f.nodePool(t)
		f.deploy(t, "app", nil, map[string]string{"test": f.namespace}, f.wantsNode)
		f.pod(t, "app", isReady)
	})
}

func TestKillFollowedByRestartIsNoDeath(t *testing.T) {
	lab := labtest.Start(t, controlplane.Options{})
	old := lab.Pid(controlplane.APIServer)
	if err := lab.Kill(controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if pid := lab.Pid(controlplane.APIServer); pid != 0 {
		t.Errorf("killed, but process %d runs", pid)
	}
	if err := lab.Restart(t.Context(), controlplane.APIServer); err != nil {
		t.Fatal(err)
	}
	if pid := lab.Pid(controlplane.APIServer); pid == old || pid == 0 {
		t.Errorf("process %d after the restart, want another than %d", pid, old)
	}
	// The port is the same, so that every client comes back.
	clients := kubernetes.NewForConfigOrDie(lab.Config())
	if _, err := clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if err := lab.Kill(controlplane.Scheduler); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-lab.Died():
		if !strings.Contains(err.Error(), controlplane.Scheduler) {
			t.Errorf("reported %q, want the one that was killed and not restarted, %s", err, controlplane.Scheduler)
		}
	case <-time.After(noticeTime):
		t.Errorf("nothing was reported within %s, want the component that was killed and not restarted", noticeTime)
	}
	if err := lab.Kill("kubelet"); err == nil {
		t.Error("killed a component that the lab does not have")
	}
}

func TestLabsSideBySide(t *testing.T) {
	type started struct {
		lab *controlplane.ControlPlane
		err error
	}
	results := make(chan started)
	for range 2 {
		go func() {
			lab, err := controlplane.Start(t.Context(), controlplane.Options{})
			results <- started{lab, err}
		}()
	}
	a, b := <-results, <-results
	for _, r := range []started{a, b} {
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		defer r.lab.Stop()
	}
	if t.Failed() {
		return
	}
	f := newFixture(t, a.lab)
	other := kubernetes.NewForConfigOrDie(b.lab.Config())
	if _, err := other.CoreV1().Namespaces().Get(t.Context(), f.namespace, metav1.GetOptions{}); err == nil {
		t.Error("a namespace of one lab shows in the other")
	}
	dir := a.lab.Dir()
	if err := a.lab.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("state directory %s after Stop: %v, want it gone", dir, err)
	}
	if left := processesIn(t, dir); len(left) > 0 {
		t.Errorf("processes %v run after Stop", left)
	}
	if _, err := other.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the other lab broke down: %v", err)
	}
}
