package controlplane_test

import (
	"testing"
	"time"

	"github.com/segue-dev/segue/lab/controlplane"
)

// BenchmarkStart measures from the call of Start to a lab that is ready for pods, in seconds per start. The target is 6 s
// on 2 cores.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name    string
		options controlplane.Options
	}{
		{"plain", controlplane.Options{}},
		{"karpenter", controlplane.Options{Karpenter: &controlplane.KarpenterOptions{}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var total time.Duration
			for b.Loop() {
				began := time.Now()
				lab, err := controlplane.Start(b.Context(), c.options)
				if err != nil {
					b.Fatal(err)
				}
				total += time.Since(began)
				b.StopTimer()
				if err := lab.Stop(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(total.Seconds()/float64(b.N), "s/start")
		})
	}
}
