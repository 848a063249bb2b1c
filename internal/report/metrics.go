package report

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/decide"
)

var (
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "segue_evictions_total",
		Help: "Evictions that the guard answered, by answer (Allow, Hold, Conflict) and reason. Dry runs are not counted.",
	}, []string{"answer", "reason"})
	guardSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "segue_guard_duration_seconds",
		Help:    "Time that the guard took to answer an eviction, by whether the answer wrote something.",
		Buckets: []float64{.0005, .001, .002, .004, .008, .016, .032, .064, .128, .256, .512, 1, 2, 4},
	}, []string{"wrote"})
	handovers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "segue_handovers_total",
		Help: "Handovers that ended, by strategy, phase (Done, Cancelled, Failed, Observed) and reason.",
	}, []string{"strategy", "phase", "reason"})
	handoverSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "segue_handover_duration_seconds",
		Help:    "Time from the creation of a Handover to its end, by strategy and phase.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600},
	}, []string{"strategy", "phase"})
	failOpen = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "segue_guard_fail_open_total",
		Help: "Evictions that were allowed because state could not be read or written for too long; alert on any.",
	}, []string{"reason"})
)

func init() {
	metrics.Registry.MustRegister(evictions, guardSeconds, handovers, handoverSeconds, failOpen)
}

// Eviction counts an answer of the guard and how long it took.
func Eviction(answer string, reason decide.Reason, took time.Duration, wrote bool) {
	evictions.WithLabelValues(answer, string(reason)).Inc()
	label := "false"
	if wrote {
		label = "true"
	}
	guardSeconds.WithLabelValues(label).Observe(took.Seconds())
}

// FailedOpen counts an eviction that was allowed because Segue itself could not do its work.
func FailedOpen(reason decide.Reason) { failOpen.WithLabelValues(string(reason)).Inc() }

// Finished counts a Handover that ended.
func Finished(strategy v1alpha1.Strategy, phase v1alpha1.Phase, reason decide.Reason, took time.Duration) {
	if strategy == "" {
		strategy = v1alpha1.StrategyNone
	}
	handovers.WithLabelValues(string(strategy), string(phase), string(reason)).Inc()
	handoverSeconds.WithLabelValues(string(strategy), string(phase)).Observe(took.Seconds())
}
