package rehearse

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/install"
	"github.com/segue-dev/segue/lab/scenario"
)

// scenarios is where the shipped scenarios live.
const scenarios = "../scenarios"

func installSegue(ctx context.Context, cp *controlplane.ControlPlane) (Operator, error) {
	operator, err := install.Install(ctx, cp, install.Options{})
	if err != nil {
		return nil, err
	}
	return operator, nil
}

func TestShippedScenariosParse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(scenarios, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("shipped scenarios: %v, error %v", files, err)
	}
	for _, file := range files {
		s, err := scenario.ParseFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if !s.HasLoad {
			t.Errorf("%s sends no requests", file)
		}
	}
}

// TestSegue runs a shipped scenario with the real operator on a shared lab; `make rehearse` runs all of them, in both
// modes and on labs of their own.
func TestSegue(t *testing.T) {
	lab := sharedLab(t)
	s, err := scenario.ParseFile(filepath.Join(scenarios, "kubectl-drain.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Modes: []view.Mode{view.ModeSegue}, Lab: lab, Segue: installSegue, Progress: t.Output()}
	doc, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Verdict != view.VerdictPass {
		t.Errorf("verdict %q: %+v", doc.Verdict, doc.Expectations)
	}
	run := doc.Runs[0]
	if run.Handovers != 1 || count(run, kindEviction, reasonDenied) == 0 {
		t.Errorf("%d handovers, %d evictions denied; want 1 and at least one", run.Handovers, count(run, kindEviction, reasonDenied))
	}
	assertEmpty(t, lab)
}
