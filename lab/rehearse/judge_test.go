package rehearse

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/scenario"
)

func measuredRun() view.Run {
	return view.Run{
		Mode: view.ModeStock, DowntimeSeconds: 5.03, DrainSeconds: 6.2, Requests: view.Requests{Total: 100, Failed: 40},
		PodsStarted: 1, RevisionsCreated: 2, NodesLaunched: 3, NodesGone: 4, Handovers: 5,
		Events: []view.Event{
			{T: -3, Kind: kindPod, Object: "web-old", Reason: reasonCreated, Message: "deployment/web"},
			{T: -2, Kind: kindPod, Object: "web-old", Reason: reasonReady},
			{T: 1, Kind: kindNode, Object: "a", Reason: reasonTainted},
			{T: 1.1, Kind: kindEviction, Object: "web-old", Reason: reasonDenied},
			{T: 1.2, Kind: kindPod, Object: "web-new", Reason: reasonCreated, Message: "deployment/web"},
			{T: 1.3, Kind: kindPod, Object: "other", Reason: reasonCreated, Message: "deployment/other"},
			{T: 1.4, Kind: kindPod, Object: "other", Reason: reasonDeleted},
			{T: 2, Kind: kindPod, Object: "web-new", Reason: reasonReady},
			{T: 2, Kind: kindPod, Object: "web-old", Reason: reasonDeleted},
			{T: 3, Kind: kindEviction, Object: "web-old", Reason: reasonAllowed},
			{T: 3.5, Kind: kindEviction, Object: "other", Reason: reasonAllowed},
			{T: 4, Kind: kindNode, Object: "a", Reason: reasonGone},
			{T: 5, Kind: kindDrain, Object: "a", Reason: reasonFinished},
		},
	}
}

func parseExpectations(t *testing.T, lines string) []scenario.Expectation {
	t.Helper()
	s, err := scenario.Parse("x.txtar", []byte("title T\nnode a\nmeasure\n-- expect --\n"+lines+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s.Expectations
}

func TestCheck(t *testing.T) {
	tests := []struct {
		line string
		met  bool
		got  string
	}{
		{"downtimeSeconds > 0", true, "5.03"},
		{"downtimeSeconds == 0", false, "5.03"},
		{"drainSeconds > 0", true, "6.2"},
		{"requests.total >= 100", true, "100"},
		{"requests.failed < 40", false, "40"},
		{"podsStarted == 1", true, "1"},
		{"revisionsCreated != 2", false, "2"},
		{"nodesLaunched <= 3", true, "3"},
		{"nodesGone == 4", true, "4"},
		{"handovers > 5", false, "5"},
		{"evictions.allowed == 2", true, "2"},
		{"evictions.denied == 1", true, "1"},
		{"drains.finished == 1", true, "1"},
		{"drains.failed == 0", true, "0"},
		{"order pod-ready before pod-deleted deployment/web", true, "pod-ready at 2.000 s, pod-deleted at 2.000 s"},
		{"order pod-deleted before pod-ready deployment/web", false, "pod-deleted at 2.000 s, pod-ready at 2.000 s"},
		{"order pod-ready before pod-deleted", false, "pod-ready at 2.000 s, pod-deleted at 1.400 s"},
		{"order eviction-denied before eviction-allowed deployment/web", true, "eviction-denied at 1.100 s, eviction-allowed at 3.000 s"},
		{"order node-tainted before pod-deleted deployment/web", true, "node-tainted at 1.000 s, pod-deleted at 2.000 s"},
		{"order node-tainted before pod-deleted deployment/none", false, "no pod-deleted"},
		{"order node-tainted before drain-failed", false, "no drain-failed"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			got := check(parseExpectations(t, "stock "+tt.line)[0], measuredRun())
			want := view.Expectation{Mode: view.ModeStock, Text: tt.line, Met: tt.met, Got: tt.got}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("check (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	missed := &scenario.StepError{File: "x.txtar", Step: scenario.Step{Line: 7, Text: "wait gone node/a"}, Err: &scenario.Missed{Condition: "gone node/a"}}
	tests := []struct {
		name    string
		change  func(*scenario.Scenario, *outcome)
		verdict view.Verdict
	}{
		{"all met", func(*scenario.Scenario, *outcome) {}, view.VerdictPass},
		{"one not met", func(s *scenario.Scenario, _ *outcome) { s.Expectations = parseExpectations(t, "stock nodesGone == 0") }, view.VerdictFail},
		{"not met in the other mode only", func(s *scenario.Scenario, _ *outcome) { s.Expectations = parseExpectations(t, "segue nodesGone == 0") }, view.VerdictPass},
		{"a step missed its time", func(_ *scenario.Scenario, o *outcome) { o.missed = missed }, view.VerdictFail},
		{"measure never reached", func(_ *scenario.Scenario, o *outcome) { o.missed, o.measured = missed, false }, view.VerdictInvalid},
		{"no request", func(_ *scenario.Scenario, o *outcome) { o.run.Requests = view.Requests{} }, view.VerdictInvalid},
		{"no request, and none wanted", func(s *scenario.Scenario, o *outcome) { s.HasLoad, o.run.Requests = false, view.Requests{} }, view.VerdictPass},
		{"no answer", func(_ *scenario.Scenario, o *outcome) { o.run.Requests.Failed = 100 }, view.VerdictInvalid},
		{"no disruption", func(_ *scenario.Scenario, o *outcome) { o.run.Events = nil }, view.VerdictInvalid},
		{"disruption before measure only", func(_ *scenario.Scenario, o *outcome) {
			o.run.Events = []view.Event{{T: -1, Kind: kindNode, Object: "a", Reason: reasonTainted}}
		}, view.VerdictInvalid},
		{"Karpenter did nothing, somebody cordoned", func(_ *scenario.Scenario, o *outcome) {
			o.run.Events = []view.Event{{T: 1, Kind: kindNode, Object: "a", Reason: reasonCordoned}}
		}, view.VerdictInvalid},
		{"cordon without Karpenter", func(s *scenario.Scenario, o *outcome) {
			s.Karpenter = false
			o.run.Events = []view.Event{{T: 1, Kind: kindNode, Object: "a", Reason: reasonCordoned}}
		}, view.VerdictPass},
		{"invalid and not met", func(s *scenario.Scenario, o *outcome) {
			s.Expectations = parseExpectations(t, "stock nodesGone == 0")
			o.run.Requests = view.Requests{}
		}, view.VerdictInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &scenario.Scenario{Name: "x", HasLoad: true, Karpenter: true, Expectations: parseExpectations(t, "stock nodesGone == 4")}
			o := outcome{run: measuredRun(), measured: true}
			tt.change(s, &o)
			doc := judge(s, []outcome{o})
			if doc.Verdict != tt.verdict {
				t.Errorf("verdict %q, want %q: %+v", doc.Verdict, tt.verdict, doc.Expectations)
			}
			reasons := 0
			for _, e := range doc.Expectations {
				if !e.Met {
					reasons++
				}
			}
			if (doc.Verdict == view.VerdictPass) != (reasons == 0) {
				t.Errorf("verdict %q with %d reasons", doc.Verdict, reasons)
			}
		})
	}
}

// TestEveryMetricIsMeasured walks the list of metrics that the parser prints, so that none can be written in a scenario
// and then fail when it is judged.
func TestEveryMetricIsMeasured(t *testing.T) {
	for _, m := range scenario.Metrics() {
		parseExpectations(t, fmt.Sprintf("stock %s == 0", m))
		measured(m, view.Run{}) // panics for one that it does not know
	}
}
