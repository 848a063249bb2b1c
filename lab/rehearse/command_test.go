package rehearse

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/segue-dev/segue/internal/view"
)

// runCommand runs `rehearse` with args and returns what it wrote.
func runCommand(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, progress bytes.Buffer
	cmd := NewCommand(nil)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true // as the root command sets them
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

// TestCommandRefuses gives the command wrong input: it says what is wrong and starts nothing.
func TestCommandRefuses(t *testing.T) {
	good := filepath.Join("testdata", "not-met.txtar")
	broken := filepath.Join(t.TempDir(), "broken.txtar")
	if err := os.WriteFile(broken, []byte("title T\nfly away\nmeasure\n-- expect --\nstock nodesGone == 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no file", nil, "requires at least 1 arg(s)"},
		{"unknown flag", []string{"--speed", "9", good}, "unknown flag: --speed"},
		{"unknown output", []string{"-o", "xml", good}, `--output "xml": choose table or json`},
		{"unknown mode", []string{"--mode", "none", good}, `--mode "none": choose stock, segue or both`},
		{"unknown verb in the second file", []string{good, broken}, broken + `:2: unknown verb "fly"`},
		{"missing file", []string{good, "missing.txtar"}, "missing.txtar: no such file"},
		{"report in a missing directory", []string{"--html", filepath.Join("missing", "report.html"), good}, "write the report " + filepath.Join("missing", "report.html")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, err := runCommand(t, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if strings.Contains(stderr, "start the control plane") || strings.Contains(stdout, "{") {
				t.Errorf("something was started:\n%s%s", stdout, stderr)
			}
		})
	}
}

// TestCommand runs a scenario whose expectations are not met, on a control plane of its own.
func TestCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	stdout, stderr, err := runCommand(t, "--mode", "stock", "-o", "json", "--html", page, filepath.Join("testdata", "not-met.txtar"))
	var coded interface{ ExitCode() int }
	if !errors.As(err, &coded) || coded.ExitCode() != 1 || err.Error() != "1 of 1 rehearsals did not meet their expectations" {
		t.Errorf("error %v, want one with exit code 1", err)
	}
	docs, err := view.ReadJSON(strings.NewReader(stdout))
	if err != nil || len(docs) != 1 || docs[0].Scenario != "not-met" || docs[0].Verdict != view.VerdictFail || strings.Count(stdout, "\n") != 1 {
		t.Errorf("stdout is not one line with one document: error %v\n%s", err, stdout)
	}
	if !strings.Contains(stderr, "drain a timeout=5s") {
		t.Errorf("stderr does not show the steps:\n%s", stderr)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte("not-met")) {
		t.Errorf("the page: error %v, %d bytes", err, len(html))
	}
	assertOnlyFile(t, page)
}

// TestCommandLeavesNoReport runs a scenario that cannot be run: an older report stays, and nothing is beside it.
func TestCommandLeavesNoReport(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	page := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(page, []byte("older"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := runCommand(t, "--mode", "stock", "--html", page, filepath.Join("testdata", "refused.txtar"))
	if err == nil || !strings.Contains(err.Error(), "refused.txtar:11: ") {
		t.Errorf("error %v", err)
	}
	if html, err := os.ReadFile(page); err != nil || string(html) != "older" {
		t.Errorf("the older report: error %v, %q", err, html)
	}
	assertOnlyFile(t, page)
}

func assertOnlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s is left beside the report", e.Name())
		}
	}
}

func TestVerdict(t *testing.T) {
	doc := func(v view.Verdict) view.Rehearsal { return view.Rehearsal{Verdict: v} }
	pass, fail, invalid := doc(view.VerdictPass), doc(view.VerdictFail), doc(view.VerdictInvalid)
	tests := []struct {
		docs []view.Rehearsal
		code int
	}{
		{nil, 0},
		{[]view.Rehearsal{pass, pass}, 0},
		{[]view.Rehearsal{pass, fail}, 1},
		{[]view.Rehearsal{fail, invalid, pass}, 2},
	}
	for _, tt := range tests {
		err, code := verdict(tt.docs), 0
		var coded interface{ ExitCode() int }
		if errors.As(err, &coded) {
			code = coded.ExitCode()
		}
		if code != tt.code || (err == nil) != (code == 0) {
			t.Errorf("verdict(%v): error %v with code %d, want %d", tt.docs, err, code, tt.code)
		}
	}
}
