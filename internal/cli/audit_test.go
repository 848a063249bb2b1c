package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateAudit = flag.Bool("update-audit", false, "write the golden outputs of segue audit anew")

// runCommand runs segue as main does and returns what it printed and its exit code.
func runCommand(t *testing.T, in string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := New(&stdout, &stderr)
	root.SetIn(strings.NewReader(in))
	root.SetArgs(args)
	err := root.Execute()
	var with exitError
	switch {
	case err == nil:
		code = ExitSafe
	case errors.As(err, &with):
		code = with.code
	default:
		code = ExitFailure
	}
	if err != nil {
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), code
}

const auditFolder = "testdata/audit"

// The folder has a chart, a kustomization with a patch, a broken document, JSON, and files that are no manifests.
func TestAuditGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"table.txt":  {"audit", "-f", auditFolder},
		"json.json":  {"audit", "-f", auditFolder, "-o", "json"},
		"errors.txt": {"audit", "-f", auditFolder, "--severity", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := runCommand(t, "", args...)
			if code != ExitFindings {
				t.Errorf("exit code %d, want 1: %s", code, errOut)
			}
			if !strings.Contains(errOut, "is a Helm chart and was left out") || !strings.Contains(errOut, "read unpatched") {
				t.Errorf("the notes lack the chart or the kustomization: %s", errOut)
			}
			file := filepath.Join("testdata", "audit-golden", name)
			if *updateAudit {
				if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("%s differs (-want +got); after a wanted change run go test with -update-audit\n%s", file, diff)
			}
		})
	}
}

// The JSON has exactly the fields that the format promises.
func TestAuditJSONFormat(t *testing.T) {
	out, _, _ := runCommand(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: shop}\nspec: {containers: [{name: a, image: a}]}", "audit", "-f", "-", "-o", "json")
	want := `{"schema":"segue.dev/audit/v1","findings":[{"id":"bare-pod","severity":"warning","object":"v1/Pod/shop/a","path":"",` +
		`"message":"nothing makes this pod anew after an eviction: it is lost when its node leaves","effective":"","remedy":"Run it from a Deployment, a StatefulSet or a Job."}]}` + "\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if out, _, code := runCommand(t, "", "audit", "-f", "-", "-o", "json"); out != `{"schema":"segue.dev/audit/v1","findings":[]}`+"\n" || code != ExitSafe {
		t.Errorf("nothing to find: %q, exit %d", out, code)
	}
}

func TestAuditSARIF(t *testing.T) {
	out, _, code := runCommand(t, "", "audit", "-f", auditFolder, "-o", "sarif")
	if code != ExitFindings {
		t.Errorf("exit code %d, want 1", code)
	}
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || len(log.Runs) != 1 || len(log.Runs[0].Results) == 0 {
		t.Fatalf("version %q, %d runs", log.Version, len(log.Runs))
	}
	rules := log.Runs[0].Tool.Driver.Rules
	for _, r := range log.Runs[0].Results {
		if rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("%s points at the rule %s", r.RuleID, rules[r.RuleIndex].ID)
		}
		if at := r.Locations[0].PhysicalLocation; !strings.HasPrefix(at.ArtifactLocation.URI, auditFolder) || at.Region.StartLine < 1 {
			t.Errorf("%s is at %s:%d", r.RuleID, at.ArtifactLocation.URI, at.Region.StartLine)
		}
		if !strings.Contains("error warning note", r.Level) {
			t.Errorf("%s has the level %q", r.RuleID, r.Level)
		}
	}
}

func TestAuditExitCodes(t *testing.T) {
	const warning = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}"
	tests := map[string]struct {
		in   string
		args []string
		code int
		says string
	}{
		"nothing to find":   {"", []string{"-f", "-"}, ExitSafe, "no Kubernetes object was found in -"},
		"a chart's folder":  {"", []string{"-f", "testdata/audit-chart"}, ExitFindings, "findings of severity"},
		"a warning":         {warning, []string{"-f", "-"}, ExitFindings, "1 finding of severity warning or worse"},
		"fail on error":     {warning, []string{"-f", "-", "--fail-on", "error"}, ExitSafe, ""},
		"fail never":        {warning, []string{"-f", "-", "--fail-on", "never"}, ExitSafe, ""},
		"ignored":           {warning, []string{"-f", "-", "--ignore", "bare-pod=a test"}, ExitSafe, ""},
		"broken document":   {"a: [", []string{"-f", "-"}, ExitFindings, ""},
		"no input":          {"", nil, ExitFailure, "nothing to read"},
		"no such file":      {"", []string{"-f", "testdata/none.yaml"}, ExitFailure, "none.yaml"},
		"odd output":        {"", []string{"-f", "-", "-o", "xml"}, ExitFailure, "one of table, json, sarif"},
		"odd severity":      {"", []string{"-f", "-", "--severity", "bad"}, ExitFailure, "--severity"},
		"odd fail-on":       {"", []string{"-f", "-", "--fail-on", "bad"}, ExitFailure, "--fail-on"},
		"ignore, no reason": {"", []string{"-f", "-", "--ignore", "bare-pod"}, ExitFailure, "ID=reason"},
		"no baseline":       {"", []string{"-f", "-", "--baseline", "testdata/none.json"}, ExitFailure, "baseline"},
		"an argument":       {"", []string{"x.yaml"}, ExitFailure, "x.yaml"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, errOut, code := runCommand(t, test.in, append([]string{"audit"}, test.args...)...)
			if code != test.code || !strings.Contains(errOut, test.says) {
				t.Errorf("exit code %d, want %d; said %q, want in it %q", code, test.code, errOut, test.says)
			}
		})
	}
}

func TestAuditBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "baseline.json")
	if _, errOut, code := runCommand(t, "", "audit", "-f", auditFolder, "--write-baseline", file); code != ExitSafe {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	out, errOut, code := runCommand(t, "", "audit", "-f", auditFolder, "--baseline", file)
	if code != ExitSafe || !strings.Contains(out, "no findings in ") || !strings.Contains(out, "known from the baseline") {
		t.Errorf("exit code %d, %s%s", code, out, errOut)
	}
}

// A chart is rendered with Helm's library, subcharts too; what comes out is audited, and values that nothing reads are named.
func TestAuditChart(t *testing.T) {
	out, errOut, code := runCommand(t, "", "audit", "--chart", "testdata/audit-chart", "--values", "testdata/audit-values.yaml", "-o", "json")
	if code != ExitFindings {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	want := []string{
		"chart-value-unread chart.audit.segue.dev/v1/Values//shop queue.nmae",
		"chart-value-unread chart.audit.segue.dev/v1/Values//shop replicas",
		"budget-blocks-drain policy/v1/PodDisruptionBudget//shop-web spec.minAvailable",
		"budget-counts-broken-pods policy/v1/PodDisruptionBudget//shop-web spec.unhealthyPodEvictionPolicy",
		"grace-zero v1/Pod//cache spec.terminationGracePeriodSeconds",
		"bare-pod v1/Pod//cache ",
	}
	var doc struct {
		Findings []struct{ ID, Object, Path, Effective string }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range doc.Findings {
		got = append(got, f.ID+" "+f.Object+" "+f.Path)
		if f.Path == "replicas" && f.Effective != "web.replicas is 1 (the chart's default)" {
			t.Errorf("in force for replicas: %s", f.Effective)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAuditChartProblems(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"no chart":               {[]string{"--chart", auditFolder}, "has no Chart.yaml"},
		"no values":              {[]string{"--chart", "testdata/audit-chart", "--values", "testdata/none.yaml"}, "none.yaml"},
		"values without a chart": {[]string{"-f", "-", "--values", "testdata/audit-values.yaml"}, "--chart"},
		"a template that fails":  {[]string{"--chart", "testdata/audit-chart-broken"}, "web.yaml:3"},
		"a missing dependency":   {[]string{"--chart", "testdata/audit-chart-missing"}, "helm dependency build"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, errOut, code := runCommand(t, "", append([]string{"audit"}, test.args...)...); code != ExitFailure || !strings.Contains(errOut, test.says) {
				t.Errorf("exit code %d, want 2; said %q, want in it %q", code, errOut, test.says)
			}
		})
	}
}

// A folder with a kustomization is built, with its patches; what would have to be downloaded is refused.
func TestAuditKustomization(t *testing.T) {
	out, errOut, code := runCommand(t, "", "audit", "-f", auditFolder+"/overlay", "-o", "json")
	if code != ExitFindings || !strings.Contains(out, `"object":"apps/v1/Deployment/shop/web"`) || !strings.Contains(out, `"path":"spec.zzz"`) {
		t.Errorf("exit code %d, want the patch's field among the findings: %s%s", code, out, errOut)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources:\n- https://example.com/base?ref=v1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errOut, code := runCommand(t, "", "audit", "-f", folder); code != ExitFailure || !strings.Contains(errOut, "downloads nothing") {
		t.Errorf("exit code %d, want 2: %s", code, errOut)
	}
}

// --diff says what a change would do and nothing of what is wrong anyway.
func TestAuditDiff(t *testing.T) {
	folder := t.TempDir()
	text, err := os.ReadFile(notify + "/pools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "expireAfter: 336h", "expireAfter: 100h", 1)
	if err := os.WriteFile(filepath.Join(folder, "pools.yaml"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := runCommand(t, "", "audit", "--diff", notify+"/pools.yaml", "-f", folder, "-o", "json")
	want := `{"schema":"segue.dev/audit/v1","findings":[{"id":"change-drifts-nodes","severity":"warning","object":"karpenter.sh/v1/NodePool//steady","path":"spec.template",` +
		`"message":"spec.expireAfter changes: all nodes of the pool drift and are replaced","effective":"about 10 rounds at the pool's budgets","remedy":`
	if code != ExitFindings || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d, %s%s", code, out, errOut)
	}
	if out, errOut, code := runCommand(t, "", "audit", "--diff", notify, "-f", notify); code != ExitSafe || !strings.HasPrefix(out, "no findings") {
		t.Errorf("no change: exit code %d, %s%s", code, out, errOut)
	}
	if _, errOut, code := runCommand(t, "", "audit", "--diff", "testdata/none.yaml", "-f", notify); code != ExitFailure || !strings.Contains(errOut, "--diff") {
		t.Errorf("no such file: exit code %d, %s", code, errOut)
	}
}

// --compare says where another environment differs.
func TestAuditCompare(t *testing.T) {
	folder := t.TempDir()
	for name, text := range example(t) {
		if name == "api.yaml" {
			text = strings.Replace(text, "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 90", 1)
		}
		if name == "agents.yaml" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, code := runCommand(t, "", "audit", "-f", folder, "--compare", notify)
	for _, wanted := range []string{"only " + notify + " has the DaemonSet agent", "90 here, 60 there", "2 warning in "} {
		if !strings.Contains(out, wanted) {
			t.Errorf("lacks %q", wanted)
		}
	}
	if code != ExitFindings {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	if _, errOut, code := runCommand(t, "", "audit", "-f", folder, "--compare", notify, "--diff", notify); code != ExitFailure {
		t.Errorf("both: exit code %d, %s", code, errOut)
	}
}

// Reading stops at a bound, whatever comes.
func TestAuditEndlessInput(t *testing.T) {
	l := &reader{left: 1 << 20}
	if err := l.read("-", endless{}); err == nil || !strings.Contains(err.Error(), "audit them in parts") {
		t.Errorf("got %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
