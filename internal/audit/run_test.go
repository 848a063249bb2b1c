package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/internal/audit"
)

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a%s}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: a, image: a}]}\n"

// ids returns the rules of a report's findings.
func ids(r audit.Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.ID)
	}
	return out
}

func TestIgnoreTakesOutWhatItNames(t *testing.T) {
	plain := strings.ReplaceAll(pod, "%s", "")
	tests := map[string]struct {
		text    string
		flags   []string
		want    []string
		ignored int
	}{
		"nothing":           {plain, nil, []string{"grace-zero", "bare-pod"}, 0},
		"annotation":        {strings.ReplaceAll(pod, "%s", ", annotations: {segue.dev/audit-ignore: bare-pod=a test; grace-zero=stops at once}"), nil, nil, 2},
		"comment":           {"# segue:ignore bare-pod=a test\n" + plain, nil, []string{"grace-zero"}, 1},
		"comment elsewhere": {"# segue:ignore bare-pod=a test\n---\n" + plain, nil, []string{"grace-zero", "bare-pod"}, 0},
		"without a reason":  {"# segue:ignore bare-pod\n" + plain, nil, []string{"grace-zero", "bare-pod", "ignore-without-effect"}, 0},
		"flag":              {plain, []string{"grace-zero=all stop at once"}, []string{"bare-pod"}, 1},
		"not itself":        {"# segue:ignore ignore-without-effect=no; x=y\n" + plain, []string{"bare-pod=x"}, []string{"grace-zero", "ignore-without-effect"}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var o audit.Options
			for _, flag := range test.flags {
				ignore, err := audit.ParseIgnore(flag)
				if err != nil {
					t.Fatal(err)
				}
				o.Ignore = append(o.Ignore, ignore)
			}
			report := run(t, test.text, o)
			if diff := cmp.Diff(test.want, ids(report)); diff != "" || report.Ignored != test.ignored {
				t.Errorf("ignored %d, want %d; -want +got\n%s", report.Ignored, test.ignored, diff)
			}
		})
	}
	for _, text := range []string{"bare-pod", "bare-pod=", "=x", "no-such-rule=x"} {
		if _, err := audit.ParseIgnore(text); err == nil {
			t.Errorf("--ignore %s was accepted", text)
		}
	}
}

func TestBaselineLeavesOutWhatItKnows(t *testing.T) {
	text := strings.ReplaceAll(pod, "%s", "")
	encoded, err := json.Marshal(audit.NewBaseline(run(t, text, audit.Options{})))
	if err != nil {
		t.Fatal(err)
	}
	baseline, err := audit.ParseBaseline(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if r := run(t, text, audit.Options{Baseline: baseline}); len(r.Findings) != 0 || r.Known != 2 {
		t.Errorf("%d findings, %d known, want 0 and 2", len(r.Findings), r.Known)
	}
	other := text + "---\n" + strings.Replace(text, "name: a}", "name: b}", 1)
	if r := run(t, other, audit.Options{Baseline: baseline}); len(r.Findings) != 2 || r.Findings[0].Object != "v1/Pod//b" {
		t.Errorf("the new pod's findings: %v", ids(r))
	}
	for _, text := range []string{"", "{}", `{"schema":"other"}`} {
		if _, err := audit.ParseBaseline([]byte(text)); err == nil {
			t.Errorf("the baseline %q was accepted", text)
		}
	}
}

func TestSeverity(t *testing.T) {
	text := strings.ReplaceAll(pod, "%s", "")
	if got := ids(run(t, text, audit.Options{Severity: audit.Error})); !cmp.Equal(got, []string{"grace-zero"}) {
		t.Errorf("errors only: %v", got)
	}
	if worst := run(t, text, audit.Options{}).Worst(); worst != audit.Error {
		t.Errorf("worst is %q, want error", worst)
	}
	if !audit.Critical.AtLeast(audit.Error) || audit.Info.AtLeast(audit.Warning) {
		t.Error("the order of severities is wrong")
	}
}

// Of the copies of an object in several folders each belongs to its own environment.
func TestEnvironmentsAreKeptApart(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: %s\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: web, image: web}]}\n---\n"
	const budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: %s}\nspec: {minAvailable: 2, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: web}}}\n"
	var all []*audit.Object
	for file, text := range map[string]string{
		"staging/all.yaml":    strings.Replace(deployment, "%s", "2", 1) + strings.Replace(budget, "%s", "web", 1),
		"production/web.yaml": strings.Replace(deployment, "%s", "5", 1), "production/budget.yaml": strings.Replace(budget, "%s", "web-production", 1),
	} {
		for _, d := range audit.Split(file, []byte(text)) {
			found, problem := audit.Read(d, audit.DefaultLimits)
			if problem != nil {
				t.Fatal(problem)
			}
			all = append(all, found...)
		}
	}
	report := audit.Run(all, nil, audit.Options{})
	if len(report.Findings) != 1 || report.Findings[0].ID != "budget-blocks-drain" || report.Findings[0].File() != "staging/all.yaml" {
		t.Errorf("want the budget in staging only, got %+v", report.Findings)
	}
}
