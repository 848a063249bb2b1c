package rehearse

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/scenario"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// shared is the lab without Karpenter that the tests of this package have in common.
var shared struct {
	once sync.Once
	lab  *Lab
	err  error
}

func TestMain(m *testing.M) {
	silenceClients()
	code := m.Run()
	if shared.lab != nil {
		if err := shared.lab.Stop(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			code = 1
		}
	}
	os.Exit(code)
}

func sharedLab(t *testing.T) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	shared.once.Do(func() { shared.lab, shared.err = StartLab(t.Context(), LabOptions{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.lab
}

func parse(t *testing.T, file string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.ParseFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func stockOn(lab *Lab, t *testing.T) Options {
	return Options{Modes: []view.Mode{view.ModeStock}, Lab: lab, Progress: t.Output()}
}

// TestRun plays scenarios on a shared lab and checks their verdict and, where it is not pass, the reason.
func TestRun(t *testing.T) {
	tests := []struct {
		file    string
		verdict view.Verdict
		unmet   []string // text and measured value of what was not met
	}{
		{"every-verb.txtar", view.VerdictPass, nil},
		{"load-never-runs.txtar", view.VerdictInvalid, []string{"the load is sent: 0 requests"}},
		{"load-never-answered.txtar", view.VerdictInvalid, []string{"the load is answered: * of * requests failed"}},
		{"nothing-disrupted.txtar", view.VerdictInvalid, []string{"a node is asked to leave: no node was cordoned, tainted or gone"}},
		{"not-met.txtar", view.VerdictFail, []string{
			`step "wait gone node/a within 200ms" of line 5: gone node/a: not within 200ms; last seen: it exists`,
			"nodesGone == 1: 0",
		}},
		{"never-set-up.txtar", view.VerdictInvalid, []string{
			"the scenario is set up and the step `measure` is reached: testdata/never-set-up.txtar:4: wait available deployment/web within 500ms: *",
			"drains.finished == 1: 0",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			doc, err := Run(t.Context(), parse(t, tt.file), stockOn(sharedLab(t), t))
			if err != nil {
				t.Fatal(err)
			}
			if doc.Verdict != tt.verdict {
				t.Errorf("verdict %q, want %q", doc.Verdict, tt.verdict)
			}
			var unmet []string
			for _, e := range doc.Expectations {
				if !e.Met {
					unmet = append(unmet, e.Text+": "+e.Got)
				}
			}
			if !matchAll(unmet, tt.unmet) {
				t.Errorf("not met (-want +got):\n%s", cmp.Diff(tt.unmet, unmet))
			}
			assertEmpty(t, shared.lab)
		})
	}
}

// matchAll compares lines; a * in a wanted line stands for anything.
func matchAll(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	for i, w := range want {
		rest := got[i]
		for j, part := range strings.Split(w, "*") {
			at := strings.Index(rest, part)
			if at < 0 || j == 0 && at != 0 {
				return false
			}
			rest = rest[at+len(part):]
		}
	}
	return true
}

// assertEmpty checks that a run has left nothing on a shared lab.
func assertEmpty(t *testing.T, lab *Lab) {
	t.Helper()
	client, err := kubernetes.NewForConfig(lab.ControlPlane().Config())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		t.Errorf("node %q is left", n.Name)
	}
	namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: protectLabel})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range namespaces.Items {
		if n.DeletionTimestamp != nil {
			continue // Kubernetes takes 5 s for it
		}
		t.Errorf("namespace %q is left", n.Name)
	}
	classes, err := client.SchedulingV1().PriorityClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range classes.Items {
		if !strings.HasPrefix(c.Name, "system-") {
			t.Errorf("priority class %q is left", c.Name)
		}
	}
}

func TestRefusedManifestNamesItsLine(t *testing.T) {
	lab := sharedLab(t)
	_, err := Run(t.Context(), parse(t, "refused.txtar"), stockOn(lab, t))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"testdata/refused.txtar:11: apply Deployment \"web\" of objects.yaml: ", ".spec.replica"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want it to contain %q", err, want)
		}
	}
	assertEmpty(t, lab)
}

// TestStepErrors carries out steps that are well written and cannot be done.
func TestStepErrors(t *testing.T) {
	tests := []struct{ step, want string }{
		{"drain nowhere", `nodes "nowhere" not found`},
		{"node b b", `nodes "b" already exists`},
		{"let x = node of deployment/web", `deployments.apps "web" not found`},
		{"load web", `send requests to service "web": services "web" not found`},
		{"scale deployment/web 2", `deployments.apps "web" not found`},
		{"delete configmap/web", `configmaps "web" not found`},
		{"wait gone gizmo/x", `kind "gizmo": no matches for`},
		{"kill segue", "the operator is not installed in this run"},
		{"kill karpenter", "kill karpenter: no such component in this lab"},
	}
	for _, tt := range tests {
		t.Run(tt.step, func(t *testing.T) {
			lab := sharedLab(t)
			s, err := scenario.Parse("step-errors.txtar", []byte("title T\nnode a\n"+tt.step+"\nmeasure\n-- expect --\nstock nodesGone == 0\n"))
			if err != nil {
				t.Fatal(err)
			}
			s.Name = "step-errors-" + strings.ToLower(strings.ReplaceAll(strings.Fields(tt.step)[0]+strings.Fields(tt.step)[1], "/", "-"))
			_, err = Run(t.Context(), s, stockOn(lab, t))
			if want := "step-errors.txtar:3: " + tt.step + ": " + tt.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v, want %s", err, want)
			}
			assertEmpty(t, lab)
		})
	}
}

// deadOperator is a Segue that has died.
type deadOperator struct{ died chan error }

func (o deadOperator) Died() <-chan error            { return o.died }
func (o deadOperator) Kill() error                   { return nil }
func (o deadOperator) Restart(context.Context) error { return nil }
func (o deadOperator) Stop() error                   { return nil }

func TestOperatorDies(t *testing.T) {
	o := stockOn(sharedLab(t), t)
	o.Modes = []view.Mode{view.ModeSegue}
	o.Segue = func(context.Context, *controlplane.ControlPlane) (Operator, error) {
		died := make(chan error, 1)
		died <- errors.New("segue operator ended unasked")
		return deadOperator{died}, nil
	}
	_, err := Run(t.Context(), parse(t, "load-never-answered.txtar"), o)
	if err == nil || err.Error() != "rehearse load-never-answered in mode segue: segue operator ended unasked" {
		t.Errorf("error %v", err)
	}
}

func TestSegueModeNeedsAnInstaller(t *testing.T) {
	_, err := Run(t.Context(), parse(t, "nothing-disrupted.txtar"), Options{Modes: []view.Mode{view.ModeSegue}})
	if err == nil || !strings.Contains(err.Error(), "rehearse nothing-disrupted in mode segue: nothing can install Segue here") {
		t.Errorf("error %v", err)
	}
}

// TestComponentDies kills a component in the middle of a run: the command ends within seconds, naming it, and leaves no
// process and no file behind.
func TestComponentDies(t *testing.T) {
	for _, component := range []string{controlplane.APIServer, controlplane.Scheduler} {
		t.Run(component, func(t *testing.T) {
			if testing.Short() {
				t.Skip("needs a control plane")
			}
			lab, err := StartLab(t.Context(), LabOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stopped := false
			defer func() {
				if !stopped {
					_ = lab.Stop()
				}
			}()
			data, err := os.ReadFile(filepath.Join("testdata", "component-dies.txtar"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse("component-dies.txtar", bytes.Replace(data, []byte("kube-scheduler"), []byte(component), 1))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err = Run(ctx, s, stockOn(lab, t))
			if err == nil || !strings.HasPrefix(err.Error(), "rehearse component-dies in mode stock: "+component) {
				t.Errorf("error %v, want one that names %s", err, component)
			}
			stopped = true
			if err := lab.Stop(); err != nil {
				t.Errorf("stop the lab: %v", err)
			}
			if _, err := os.Stat(lab.ControlPlane().Dir()); !os.IsNotExist(err) {
				t.Errorf("the lab's directory is left: %v", err)
			}
		})
	}
}
