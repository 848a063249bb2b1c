package scenario

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segue-dev/segue/internal/view"
)

const minimal = `title A test
karpenter
node a b cpu=4 # two nodes
apply web.yaml
wait available deployment/web within 30s
let old = node of deployment/web
load web rate=20 path=/slow
measure
stock: delete pod/x
wait gone node/$old
drain $old timeout=5s
observe 2s

-- web.yaml --
# a comment
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second}
-- expect --
stock downtimeSeconds > 0 # a comment
both order pod-ready before pod-deleted deployment/web
`

func TestParse(t *testing.T) {
	s, err := Parse("dir/a-test.txtar", []byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "a-test" || s.Title != "A test" || !s.Karpenter || !s.HasLoad {
		t.Errorf("Parse: name %q, title %q, karpenter %v, load %v", s.Name, s.Title, s.Karpenter, s.HasLoad)
	}
	type step struct {
		Line int
		Mode view.Mode
		Text string
	}
	var steps []step
	for _, st := range s.Steps {
		steps = append(steps, step{st.Line, st.Mode, st.Text})
	}
	want := []step{
		{3, "", "node a b cpu=4"},
		{4, "", "apply web.yaml"},
		{5, "", "wait available deployment/web within 30s"},
		{6, "", "let old = node of deployment/web"},
		{7, "", "load web rate=20 path=/slow"},
		{8, "", "measure"},
		{9, view.ModeStock, "delete pod/x"},
		{10, "", "wait gone node/$old"},
		{11, "", "drain $old timeout=5s"},
		{12, "", "observe 2s"},
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := s.Steps[4].Action; got != (loadAction{service: "web", rate: 20, path: "/slow"}) {
		t.Errorf("load: %+v", got)
	}
	if got := s.Steps[8].Action; got != (drainAction{node: "$old", timeout: 5 * time.Second}) {
		t.Errorf("drain: %+v", got)
	}
	var lines []int
	for _, m := range s.Manifests["web.yaml"] {
		lines = append(lines, m.Line)
	}
	if diff := cmp.Diff([]int{16, 20}, lines); diff != "" {
		t.Errorf("lines of the manifests (-want +got):\n%s", diff)
	}
	wantExpect := []Expectation{
		{Line: 24, Modes: []view.Mode{"stock"}, Text: "downtimeSeconds > 0", Metric: MetricDowntime, Operator: ">"},
		{Line: 25, Modes: []view.Mode{"stock", "segue"}, Text: "order pod-ready before pod-deleted deployment/web", Before: "pod-ready", After: "pod-deleted", Workload: "deployment/web"},
	}
	if diff := cmp.Diff(wantExpect, s.Expectations); diff != "" {
		t.Errorf("expectations (-want +got):\n%s", diff)
	}
}

// TestParseErrors gives Parse the minimal scenario with one thing changed, and looks for the message with its line.
func TestParseErrors(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           string // the message after "x.txtar:"
	}{
		{"unknown verb", "observe 2s", "sleep 2s", `12: unknown verb "sleep"; the verbs are karpenter, node, apply,`},
		{"no title", "title A test", "apply web.yaml", "1: the first line must be `title`"},
		{"unknown file", "apply web.yaml", "apply wep.yaml", `4: apply: the scenario has no file "wep.yaml"`},
		{"unused file", "apply web.yaml", "", `14: file "web.yaml" is never applied`},
		{"file twice", "-- expect --", "-- web.yaml --\na: b\n-- expect --", `23: file "web.yaml" is there twice`},
		{"too few arguments", "drain $old timeout=5s", "drain", "11: drain: needs 1 argument; usage: drain NODE"},
		{"too many arguments", "measure", "measure now", `8: measure: unexpected argument "now"`},
		{"unknown option", "rate=20", "speed=20", "7: load: unknown option speed="},
		{"option twice", "rate=20", "rate=20 rate=30", "7: load: option rate is given twice"},
		{"rate of zero", "rate=20", "rate=0", "7: load: rate=0 is not a number of requests a second"},
		{"bad time", "within 30s", "within soon", `5: wait: "soon" is not a time above 0`},
		{"within too early", "available deployment/web within 30s", "available within 30s deployment/web", "5: wait: `within` is followed by a time and nothing else"},
		{"within elsewhere", "measure", "measure within 3s", "8: measure: `within` does not belong here"},
		{"unknown condition", "wait gone", "wait vanished", `10: wait: unknown condition "vanished"; usage: wait available|pods|`},
		{"condition's arguments", "wait gone node/$old", "wait gone", "10: wait: write `wait gone KIND/NAME`"},
		{"variable not set", "let old =", "let young =", "10: wait: variable $old is not set by a step above"},
		{"variable set later", "wait available deployment/web within 30s", "wait tainted $old", "5: wait: variable $old is not set"},
		{"let without of", "node of deployment/web", "node in deployment/web", "6: let: cannot be read; usage: let NAME ="},
		{"not an object", "deployment/web within", "web within", `5: wait: "web" does not name an object`},
		{"quantity", "cpu=4", "cpu=much", "3: node: cpu=much: quantities must match"},
		{"karpenter too late", "observe 2s", "karpenter", "12: karpenter: comes before the first step"},
		{"measure twice", "observe 2s", "measure", "12: measure: is there twice"},
		{"no measure", "measure\n", "\n", "1: the script has no step `measure`"},
		{"unknown component", "observe 2s", "kill kubelet", `12: kill: unknown component "kubelet" (etcd,`},
		{"only a mode", "stock: delete pod/x", "stock:", "9: nothing follows the mode"},
		{"broken YAML", "metadata: {name: second}", "metadata: {name: second", "22: web.yaml: broken YAML: did not find expected ',' or '}'"},
		{"broken YAML in the first document", "kind: ConfigMap\nmetadata: {name: first}", "kind: ConfigMap\n  metadata: {name: first}", "18: web.yaml: broken YAML: mapping values are not allowed"},
		{"key twice", "metadata: {name: second}", "kind: Secret\nmetadata: {name: second}", `22: web.yaml: broken YAML: key "kind" already set`},
		{"no kind", "kind: ConfigMap\nmetadata: {name: first}", "metadata: {name: first}", "16: web.yaml: the object has no apiVersion or no kind"},
		{"no name", "{name: second}", "{}", "20: web.yaml: the ConfigMap has no metadata.name"},
		{"no expectations", "-- expect --", "-- expects --", `1: the scenario has no file "expect"`},
		{"unknown mode", "stock downtime", "mixed downtime", `24: expectation "mixed downtimeSeconds > 0": unknown mode "mixed"`},
		{"unknown metric", "downtimeSeconds", "downtime", `24: expectation "stock downtime > 0": unknown metric "downtime" (downtimeSeconds,`},
		{"unknown operator", "Seconds > 0", "Seconds => 0", `24: expectation "stock downtimeSeconds => 0": unknown operator "=>"`},
		{"judging a duration", "Seconds > 0", "Seconds > 5", "24: expectation \"stock downtimeSeconds > 5\": downtimeSeconds is a duration"},
		{"not a number", "Seconds > 0", "Seconds > zero", `24: expectation "stock downtimeSeconds > zero": "zero" is not a number`},
		{"unknown moment", "before pod-deleted", "before pod-removed", `25: expectation "both order pod-ready before pod-removed deployment/web": unknown moment "pod-removed"`},
		{"order without before", "pod-ready before", "pod-ready after", "an order names two moments with `before` between them"},
		{"order of what", "pod-deleted deployment/web", "pod-deleted web", `"web" does not name a workload`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(minimal, tt.old) {
				t.Fatalf("the minimal scenario has no %q", tt.old)
			}
			_, err := Parse("x.txtar", []byte(strings.Replace(minimal, tt.old, tt.new, 1)))
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("Parse: error %v, want Errors", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Parse: error\n%v\nwant one with\n%s", err, tt.want)
			}
		})
	}
}

func TestParseFindsAllErrorsInOrder(t *testing.T) {
	broken := strings.NewReplacer("observe 2s", "sleep 2s", "node a b", "nodes a b", "stock downtime", "stok downtime").Replace(minimal)
	_, err := Parse("x.txtar", []byte(broken))
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatalf("Parse: error %v, want Errors", err)
	}
	var lines []int
	for _, e := range errs {
		lines = append(lines, e.Line)
	}
	if diff := cmp.Diff([]int{3, 12, 24}, lines); diff != "" {
		t.Errorf("lines of the errors (-want +got):\n%s\n%v", diff, err)
	}
}

func TestParseRefusesNamesThatAreNoNamespace(t *testing.T) {
	for _, name := range []string{"My_Test.txtar", "-x.txtar", strings.Repeat("a", 64) + ".txtar"} {
		if _, err := Parse(name, []byte(minimal)); err == nil {
			t.Errorf("Parse(%q): no error", name)
		}
	}
}
