package audit_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/internal/audit"
	"github.com/segue-dev/segue/internal/audit/schemas"
)

var update = flag.Bool("update", false, "write golden files and the pages of the findings anew")

// run audits manifests as if they stood in one file.
func run(t *testing.T, text string, o audit.Options) audit.Report {
	t.Helper()
	if o.Schemas == nil {
		o.Schemas = schemas.Builtin()
	}
	if old, new, ok := strings.Cut(text, afterMark); ok {
		before, _ := objects(old)
		after, _ := objects(new)
		return audit.Change(before, after, o)
	}
	if here, there, ok := strings.Cut(text, otherMark); ok {
		own, _ := objects(here)
		other, _ := objects(there)
		return audit.Compare(own, other, "the other environment", o)
	}
	found, problems := objects(text)
	return audit.Run(found, problems, o)
}

// afterMark divides the old from the new manifests in the case of a rule about changes.
const afterMark = "\n# ---- the new manifests ----\n"

// otherMark divides two environments in the case of a rule that compares them.
const otherMark = "\n# ---- the other environment ----\n"

func objects(text string) (all []*audit.Object, problems []audit.Problem) {
	for _, d := range audit.Split("case.yaml", []byte(text)) {
		found, problem := audit.Read(d, audit.DefaultLimits)
		all = append(all, found...)
		if problem != nil {
			problems = append(problems, *problem)
		}
	}
	return all, problems
}

// ruleCase is one case of testdata/rules: manifests for which a rule fires or must stay silent.
type ruleCase struct {
	name, text string
	fires      bool
}

// cases reads the cases of a rule: each begins with "### fires: NAME" or "### silent: NAME".
func cases(t *testing.T, id string) []ruleCase {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "rules", id+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []ruleCase
	for part := range strings.SplitSeq("\n"+string(text), "\n### ") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		head, body, _ := strings.Cut(part, "\n")
		kind, name, ok := strings.Cut(head, ": ")
		if !ok || kind != "fires" && kind != "silent" {
			t.Fatalf("%s.yaml: a case begins with ### fires: or ### silent:, not with %q", id, head)
		}
		all = append(all, ruleCase{name: name, text: body, fires: kind == "fires"})
	}
	return all
}

// Every rule fires where it should, with words that are looked at, and is silent where it should be; and what a case needs
// beside its point is valid.
func TestRules(t *testing.T) {
	for _, rule := range audit.Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			var got strings.Builder
			fires, silent := 0, 0
			for _, c := range cases(t, rule.ID) {
				findings := of(t, run(t, c.text, audit.Options{}), rule.ID)
				switch {
				case c.fires && len(findings) == 0:
					t.Errorf("%s: no finding", c.name)
				case !c.fires && len(findings) > 0:
					t.Errorf("%s: want silence, got: %s", c.name, findings[0].Message)
				}
				if !c.fires {
					silent++
					continue
				}
				fires++
				fmt.Fprintf(&got, "### %s\n", c.name)
				for _, f := range findings {
					file, line := new(audit.Locator).Position(f)
					fmt.Fprintf(&got, "%s %s\n  at %s (%s:%d)\n  %s\n  in force: %s\n  remedy: %s\n", f.Severity, f.Object, f.Path, file, line, f.Message, f.Effective, f.Remedy)
				}
			}
			if fires < 1 || silent < 2 {
				t.Errorf("%d firing and %d silent cases, want at least 1 and 2", fires, silent)
			}
			golden(t, filepath.Join("testdata", "rules", rule.ID+".golden"), got.String())
		})
	}
}

// of returns the findings of a rule, and fails when the manifests have others that say they are not valid.
func of(t *testing.T, r audit.Report, id string) []audit.Finding {
	t.Helper()
	var own []audit.Finding
	for _, f := range r.Findings {
		switch {
		case f.ID == id:
			own = append(own, f)
		case strings.HasPrefix(f.ID, "field-") || f.ID == "document-unreadable":
			if !strings.HasPrefix(id, "field-") && id != "document-unreadable" {
				t.Errorf("the case is not valid: %s: %s", f.ID, f.Message)
			}
		}
	}
	return own
}

// golden compares with a file of testdata, and writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); after a wanted change run go test with -update\n%s", file, diff)
	}
}

// A rule has what its page and its findings need.
func TestRulesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range audit.Rules() {
		if seen[r.ID] {
			t.Errorf("%s stands twice", r.ID)
		}
		seen[r.ID] = true
		if r.Title == "" || r.Why == "" || r.Remedy == "" || !strings.HasSuffix(r.Why, ".") {
			t.Errorf("%s lacks a title, a why that ends with a full stop, or a remedy", r.ID)
		}
		if _, err := audit.ParseSeverity(string(r.Severity)); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	files, err := os.ReadDir(filepath.Join("testdata", "rules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if id := strings.TrimSuffix(file.Name(), filepath.Ext(file.Name())); !seen[id] {
			t.Errorf("testdata/rules/%s belongs to no rule", file.Name())
		}
	}
}

// page returns the page of a rule as docs/findings has it.
func page(t *testing.T, r audit.Rule) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- Generated by go test ./internal/audit -update. Do not edit. -->\n# %s\n\n**%s**: %s.\n\n", r.ID, r.Severity, r.Title)
	fmt.Fprintf(&b, "%s\n\n**Remedy.** %s\n", r.Why, r.Remedy)
	for _, c := range cases(t, r.ID) {
		if c.fires {
			fmt.Fprintf(&b, "\nAn example, %s:\n\n```yaml\n%s\n```\n", c.name, strings.TrimSpace(c.text))
			break
		}
	}
	b.WriteString("\nIt stays silent, among others, for:\n\n")
	for _, c := range cases(t, r.ID) {
		if !c.fires {
			fmt.Fprintf(&b, "- %s\n", c.name)
		}
	}
	fmt.Fprintf(&b, "\nTo take it out of one object, with a reason: a comment `# segue:ignore %s=REASON` in its document. [All findings](../audit.md)\n", r.ID)
	return b.String()
}

func TestEveryFindingHasItsPage(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "findings")
	pages := map[string]bool{}
	for _, r := range audit.Rules() {
		pages[r.ID+".md"] = true
		golden(t, filepath.Join(dir, r.ID+".md"), page(t, r))
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !pages[file.Name()] {
			t.Errorf("docs/findings/%s is the page of no rule", file.Name())
		}
	}
}

// The table of docs/audit.md has all rules.
func TestDocumentListsEveryRule(t *testing.T) {
	file := filepath.Join("..", "..", "docs", "audit.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- rules, generated by go test ./internal/audit -update -->\n", "<!-- end of rules -->"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks around the table", file)
	}
	var table strings.Builder
	table.WriteString("| finding | severity | says |\n|---|---|---|\n")
	for _, r := range audit.Rules() {
		fmt.Fprintf(&table, "| [%s](findings/%s.md) | %s | %s |\n", r.ID, r.ID, r.Severity, r.Title)
	}
	golden(t, file, before+begin+table.String()+end+after)
}
