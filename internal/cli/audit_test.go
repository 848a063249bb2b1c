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
			if !strings.Contains(errOut, "is a Helm chart and was left out") || !strings.Contains(errOut, "kubectl kustomize") {
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
		"nothing found":     {"", []string{"-f", "-"}, ExitSafe, ""},
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

// Reading stops at a bound, whatever comes.
func TestAuditEndlessInput(t *testing.T) {
	l := &loader{left: 1 << 20}
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
