package audit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/segue-dev/segue/internal/audit"
	"github.com/segue-dev/segue/internal/audit/schemas"
)

func TestSplit(t *testing.T) {
	type part struct {
		Line int
		Text string
	}
	tests := map[string]struct {
		text string
		want []part
	}{
		"one":                    {"a: 1\n", []part{{1, "a: 1\n"}}},
		"two":                    {"a: 1\n---\nb: 2", []part{{1, "a: 1\n"}, {2, "---\nb: 2"}}},
		"content on the marker":  {"--- {a: 1}\n--- # x\nb: 2\n", []part{{1, "--- {a: 1}\n"}, {2, "--- # x\nb: 2\n"}}},
		"empty ones":             {"---\n# c\n---\n\n---\na: 1\n---\n", []part{{5, "---\na: 1\n"}}},
		"a marker in a text":     {"a: |\n  ---\n  x\n", []part{{1, "a: |\n  ---\n  x\n"}}},
		"a longer row of dashes": {"a: 1\n----\n", []part{{1, "a: 1\n----\n"}}},
		"the end marker":         {"a: 1\n...\nb: 2\n", []part{{1, "a: 1\n"}, {3, "b: 2\n"}}},
		"Windows lines and mark": {"\xef\xbb\xbfa: 1\r\n---\r\nb: 2\r\n", []part{{1, "a: 1\r\n"}, {2, "---\r\nb: 2\r\n"}}},
		"a directive":            {"%YAML 1.1\n---\na: 1\n", []part{{2, "---\na: 1\n"}}},
		"nothing":                {"", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []part
			for _, d := range audit.Split("f", []byte(test.text)) {
				got = append(got, part{d.Line, string(d.Text)})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// read reads one document.
func read(text string) ([]*audit.Object, *audit.Problem) {
	return audit.Read(audit.Document{File: "f", Line: 1, Text: []byte(text)}, audit.DefaultLimits)
}

// Values are those that the Kubernetes clients send: YAML 1.1 words, aliases put in, numbers as numbers.
func TestReadValues(t *testing.T) {
	objects, problem := read(`
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
x: &x {b: yes, s: "yes", i: 1_000, o: 0755, h: 0x10, f: 1.5, n: ~, t: 2026-01-01, v: 1.2.3, tag: !!str 5, e: "", empty: }
list: [*x, {<<: *x, b: off}]
`)
	if problem != nil {
		t.Fatal(problem)
	}
	x := map[string]any{"b": true, "s": "yes", "i": int64(1000), "o": int64(493), "h": int64(16), "f": 1.5, "n": nil, "t": "2026-01-01", "v": "1.2.3", "tag": "5", "e": "", "empty": nil}
	merged := map[string]any{}
	for key, value := range x {
		merged[key] = value
	}
	merged["b"] = false
	if diff := cmp.Diff([]any{x, merged}, objects[0].Content["list"]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestReadListsAndJSON(t *testing.T) {
	objects, problem := read("{\n\t\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n\t{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\", \"namespace\": \"n\"}, \"spec\": {\"priority\": 7}},\n\t{\"no\": \"object\"}]}")
	if problem != nil || len(objects) != 1 || objects[0].ID() != "v1/Pod/n/a" {
		t.Fatalf("got %v, %v", objects, problem)
	}
	objects, problem = read("apiVersion: v1\nkind: PodList\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: b\n")
	if problem != nil || len(objects) != 2 {
		t.Fatalf("got %v, %v", objects, problem)
	}
	if line := new(audit.Locator).Line(objects[1], "metadata.name"); line != 10 {
		t.Errorf("line of the second name: %d, want 10", line)
	}
	if line := new(audit.Locator).Line(objects[1], "spec.x[3].y"); line != 7 {
		t.Errorf("line of what is not there: %d, want that of the item, 7", line)
	}
}

// What is broken, endless or hostile ends in a problem that says where, and soon.
func TestReadProblems(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	tests := map[string]struct {
		text, message string
		line          int
	}{
		"not closed":      {"a: 1\nb: [1,\nc: }\n", "did not find expected node content", 3},
		"a tab":           {"a:\n\tb: 1\n", "found character that cannot start any token", 2},
		"a template":      {"a: {{ .Values.x }}\n", "it looks like a template", 1},
		"a bomb":          {bomb, "more than 1000000 values", 0},
		"a loop":          {"a: &a\n  b: *a\n", "contains itself", 2},
		"a loop by merge": {"a: &a\n  <<: *a\n", "contains itself", 2},
		"too deep":        {strings.Repeat("[", 2000) + strings.Repeat("]", 2000), "deep", 0},
		"much too deep":   {strings.Repeat("{a: ", 200000), "", 0},
		"deep JSON":       {strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "deep", 0},
		"too large":       {"a: " + strings.Repeat("x", 16<<20), "bytes, more than", 1},
		"an odd key":      {"[a, b]: 1\n", "not a plain word", 1},
		"infinity":        {"a: .inf\n", "which JSON cannot hold", 1},
		"a wrong merge":   {"a:\n  <<: 1\n", "merge key", 2},
		"binary":          {"\x00\x01\x02", "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			objects, problem := read(test.text)
			if problem == nil {
				t.Fatalf("no problem, got %v", objects)
			}
			if !strings.Contains(problem.Message, test.message) || test.line != 0 && problem.Line != test.line {
				t.Errorf("got %v, want line %d and %q", problem, test.line, test.message)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A broken document does not hide its neighbours, and lines are counted in the file.
func TestBrokenDocumentHidesNothing(t *testing.T) {
	report := run(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n---\nx: [\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\nspec: {zzz: 1}\n", audit.Options{})
	var got []string
	for _, f := range report.Findings {
		file, line := new(audit.Locator).Position(f)
		got = append(got, fmt.Sprintf("%s %s %s:%d", f.ID, f.Object, file, line))
	}
	want := []string{"document-unreadable case.yaml:6 case.yaml:6", "bare-pod v1/Pod//a case.yaml:1", "field-unknown v1/Pod//b case.yaml:12", "bare-pod v1/Pod//b case.yaml:8"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// No text makes the audit panic, hang or disagree with itself.
func FuzzAudit(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "rules", "*.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {containers: [null, {}]}}]"))
	set := schemas.Builtin()
	limits := audit.Limits{Bytes: 64 << 10, Nodes: 10_000, Depth: 32}
	f.Fuzz(func(t *testing.T, text []byte) {
		var objects []*audit.Object
		var problems []audit.Problem
		for _, d := range audit.Split("f", text) {
			found, problem := audit.Read(d, limits)
			objects = append(objects, found...)
			if problem != nil {
				problems = append(problems, *problem)
			}
		}
		first := audit.Run(objects, problems, audit.Options{Schemas: set})
		second := audit.Run(objects, problems, audit.Options{Schemas: set})
		half := len(objects) / 2
		audit.Change(objects[:half], objects[half:], audit.Options{Schemas: set})
		audit.Compare(objects[:half], objects[half:], "other", audit.Options{Schemas: set})
		if len(first.Findings) != len(second.Findings) {
			t.Fatalf("%d findings, then %d", len(first.Findings), len(second.Findings))
		}
		var locator audit.Locator
		for i, finding := range first.Findings {
			if finding.Remedy == "" || finding.Message == "" || finding.Object == "" {
				t.Errorf("incomplete: %+v", finding)
			}
			if _, line := locator.Position(finding); line < 1 {
				t.Errorf("%s at line %d", finding.ID, line)
			}
			if finding.Message != second.Findings[i].Message {
				t.Errorf("%q, then %q", finding.Message, second.Findings[i].Message)
			}
		}
	})
}
