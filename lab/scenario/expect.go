package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/segue-dev/segue/internal/view"
)

// Metric is a number of a run that an expectation can be about.
type Metric string

// The metrics. Those that are durations can only be compared with 0: a rehearsal judges counts and order, never how
// long something took on the machine at hand.
const (
	MetricDowntime         Metric = "downtimeSeconds"
	MetricDrain            Metric = "drainSeconds"
	MetricRequestsTotal    Metric = "requests.total"
	MetricRequestsFailed   Metric = "requests.failed"
	MetricPodsStarted      Metric = "podsStarted"
	MetricRevisions        Metric = "revisionsCreated"
	MetricNodesLaunched    Metric = "nodesLaunched"
	MetricNodesGone        Metric = "nodesGone"
	MetricHandovers        Metric = "handovers"
	MetricEvictionsAllowed Metric = "evictions.allowed"
	MetricEvictionsDenied  Metric = "evictions.denied"
	MetricDrainsFinished   Metric = "drains.finished"
	MetricDrainsFailed     Metric = "drains.failed"
)

var metrics = []Metric{
	MetricDowntime, MetricDrain, MetricRequestsTotal, MetricRequestsFailed, MetricPodsStarted, MetricRevisions, MetricNodesLaunched,
	MetricNodesGone, MetricHandovers, MetricEvictionsAllowed, MetricEvictionsDenied, MetricDrainsFinished, MetricDrainsFailed,
}

// moments are the events that an order can name, as kind-reason of view.Event.
var moments = []string{
	"pod-created", "pod-ready", "pod-deleted", "pod-gone", "eviction-allowed", "eviction-denied",
	"node-created", "node-cordoned", "node-tainted", "node-deleted", "node-gone",
	"endpoints-none", "handover-created", "handover-done", "drain-finished", "drain-failed",
}

// Expectation is one line of a scenario's expectations: a comparison of a metric, or an order of two moments.
type Expectation struct {
	// Line is the line in the scenario file, from 1.
	Line int
	// Modes are the modes of the runs that it is about.
	Modes []view.Mode
	// Text is the expectation as it was written, without the mode.
	Text string

	// Metric, Operator and Value are set for a comparison; Operator is one of == != > >= < <=.
	Metric   Metric
	Operator string
	Value    float64

	// Before and After name two moments as kind-reason of view.Event when the expectation is about order: both happened
	// after `measure`, and the first Before came before the first After. Workload, if not empty, restricts moments of pods
	// and evictions to those of that workload, as kind/name.
	Before, After string
	Workload      string
}

const expectUsage = "`MODE METRIC OPERATOR NUMBER` or `MODE order MOMENT before MOMENT [WORKLOAD]`"

// expectations parses the file of expectations, whose first line is at line first of the scenario file.
func (p *parser) expectations(first int, data string) {
	wrong := len(p.errs)
	for i, text := range strings.Split(data, "\n") {
		line := first + i
		text = stripComment(text)
		if text == "" {
			continue
		}
		e, err := parseExpectation(strings.Fields(text))
		if err != nil {
			p.fail(line, "expectation %q: %v; write %s", text, err, expectUsage)
			continue
		}
		e.Line = line
		p.s.Expectations = append(p.s.Expectations, e)
	}
	if len(p.s.Expectations) == 0 && len(p.errs) == wrong {
		p.fail(first-1, "the file %q is empty: write %s", ExpectFile, expectUsage)
	}
}

func parseExpectation(fields []string) (Expectation, error) {
	var e Expectation
	switch fields[0] {
	case string(view.ModeStock), string(view.ModeSegue):
		e.Modes = []view.Mode{view.Mode(fields[0])}
	case "both":
		e.Modes = []view.Mode{view.ModeStock, view.ModeSegue}
	default:
		return e, fmt.Errorf("unknown mode %q (stock, segue or both)", fields[0])
	}
	fields = fields[1:]
	e.Text = strings.Join(fields, " ")
	if len(fields) > 0 && fields[0] == "order" {
		return e, e.parseOrder(fields[1:])
	}
	return e, e.parseComparison(fields)
}

func (e *Expectation) parseComparison(fields []string) error {
	if len(fields) != 3 {
		return fmt.Errorf("a comparison has three words after the mode")
	}
	e.Metric, e.Operator = Metric(fields[0]), fields[1]
	if !slices.Contains(metrics, e.Metric) {
		return fmt.Errorf("unknown metric %q (%s)", e.Metric, joined(metrics))
	}
	if !slices.Contains([]string{"==", "!=", ">", ">=", "<", "<="}, e.Operator) {
		return fmt.Errorf("unknown operator %q (== != > >= < <=)", e.Operator)
	}
	value, err := strconv.ParseFloat(fields[2], 64)
	if err != nil {
		return fmt.Errorf("%q is not a number", fields[2])
	}
	e.Value = value
	isDuration := e.Metric == MetricDowntime || e.Metric == MetricDrain
	if isDuration && (value != 0 || e.Operator != "==" && e.Operator != ">") {
		return fmt.Errorf("%s is a duration and can only be compared with == 0 or > 0", e.Metric)
	}
	return nil
}

func (e *Expectation) parseOrder(fields []string) error {
	if len(fields) < 3 || len(fields) > 4 || fields[1] != "before" {
		return fmt.Errorf("an order names two moments with `before` between them")
	}
	e.Before, e.After = fields[0], fields[2]
	for _, m := range []string{e.Before, e.After} {
		if !slices.Contains(moments, m) {
			return fmt.Errorf("unknown moment %q (%s)", m, joined(moments))
		}
	}
	if len(fields) == 4 {
		e.Workload = fields[3]
		if kind, name, ok := strings.Cut(e.Workload, "/"); !ok || kind == "" || name == "" {
			return fmt.Errorf("%q does not name a workload: write kind/name, for example deployment/web", e.Workload)
		}
	}
	return nil
}

func joined[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// Metrics lists every metric that an expectation can be about.
func Metrics() []Metric { return slices.Clone(metrics) }
