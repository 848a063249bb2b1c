package rehearse

import (
	"path/filepath"
	"testing"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/scenario"
)

// BenchmarkW1 is the whole CI rehearsal in both modes on Karpenter's own clock, and within it the work W1: the real
// Karpenter consolidates the node of a Deployment with one replica, 5 s start, 1 s stop. The time of an operation is that
// of the rehearsal; the figures of a mode are its time without a ready endpoint, the time from the node's taint until it
// was gone, and what was started for it.
func BenchmarkW1(b *testing.B) { benchmarkConsolidation(b, false) }

// BenchmarkRehearsalFastClock is the same rehearsal with Karpenter's waits shortened, as in quick tests.
func BenchmarkRehearsalFastClock(b *testing.B) { benchmarkConsolidation(b, true) }

func benchmarkConsolidation(b *testing.B, fastClock bool) {
	s, err := scenario.ParseFile(filepath.Join(scenarios, "ci-consolidation.txtar"))
	if err != nil {
		b.Fatal(err)
	}
	silenceClients()
	var doc view.Rehearsal
	for b.Loop() {
		if doc, err = Run(b.Context(), s, Options{FastClock: fastClock, Segue: installSegue}); err != nil {
			b.Fatal(err)
		}
		if doc.Verdict != view.VerdictPass {
			b.Fatalf("verdict %q: %+v", doc.Verdict, doc.Expectations)
		}
	}
	for _, run := range doc.Runs {
		name := string(run.Mode)
		b.ReportMetric(run.DowntimeSeconds, name+"-gap-s")
		b.ReportMetric(run.DrainSeconds, name+"-node-gone-s")
		b.ReportMetric(float64(run.RevisionsCreated), name+"-revisions")
		b.ReportMetric(float64(run.PodsStarted), name+"-pods-started")
		b.ReportMetric(float64(run.Requests.Failed), name+"-failed-requests")
	}
}
