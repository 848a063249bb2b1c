package rehearse

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/scenario"
)

// outcome is how a run ended, next to what was measured in it.
type outcome struct {
	run view.Run
	// missed is the step whose condition was not reached in time, nil when every step was done.
	missed *scenario.StepError
	// measured says that the run came to the step `measure`.
	measured bool
}

// judge turns the outcomes of a scenario's runs into its document. A run proves something only when the load was sent and
// answered at least once and a node was really asked to leave; where it proves nothing the verdict is invalid, and the
// reason stands among the expectations. It does no I/O.
func judge(s *scenario.Scenario, outcomes []outcome) view.Rehearsal {
	doc := view.Rehearsal{Schema: view.RehearsalSchema, Scenario: s.Name, Title: s.Title, Verdict: view.VerdictPass, Runs: []view.Run{}}
	for _, o := range outcomes {
		doc.Runs = append(doc.Runs, o.run)
		if unmet := invalid(s, o); len(unmet) > 0 {
			doc.Expectations = append(doc.Expectations, unmet...)
			doc.Verdict = view.VerdictInvalid
		} else if o.missed != nil {
			doc.Expectations = append(doc.Expectations, missedStep(o))
		}
	}
	for _, e := range s.Expectations {
		for _, o := range outcomes {
			if slices.Contains(e.Modes, o.run.Mode) {
				doc.Expectations = append(doc.Expectations, check(e, o.run))
			}
		}
	}
	for _, e := range doc.Expectations {
		if !e.Met && doc.Verdict == view.VerdictPass {
			doc.Verdict = view.VerdictFail
		}
	}
	return doc
}

// invalid returns, as expectations that were not met, why a run proves nothing.
func invalid(s *scenario.Scenario, o outcome) []view.Expectation {
	var unmet []view.Expectation
	not := func(text, got string) {
		unmet = append(unmet, view.Expectation{Mode: o.run.Mode, Text: text, Got: got})
	}
	if !o.measured {
		got := "the script ended before it"
		if o.missed != nil {
			got = o.missed.Error()
		}
		not("the scenario is set up and the step `measure` is reached", got)
		return unmet
	}
	if sent := o.run.Requests; s.HasLoad && sent.Total == 0 {
		not("the load is sent", "0 requests")
	} else if s.HasLoad && sent.Failed == sent.Total {
		not("the load is answered", fmt.Sprintf("%d of %d requests failed", sent.Failed, sent.Total))
	}
	if s.Karpenter && !happened(o.run, kindNode, reasonTainted) && !happened(o.run, kindNode, reasonGone) {
		not("Karpenter disrupts a node", "no node was tainted or gone")
	}
	if !s.Karpenter && !happened(o.run, kindNode, reasonCordoned) && !happened(o.run, kindNode, reasonTainted) && !happened(o.run, kindNode, reasonGone) {
		not("a node is asked to leave", "no node was cordoned, tainted or gone")
	}
	return unmet
}

func missedStep(o outcome) view.Expectation {
	return view.Expectation{Mode: o.run.Mode, Text: fmt.Sprintf("step %q of line %d", o.missed.Step.Text, o.missed.Step.Line), Got: o.missed.Err.Error()}
}

func happened(run view.Run, kind, reason string) bool {
	return count(run, kind, reason) > 0
}

// count counts the events of a kind and reason since `measure`.
func count(run view.Run, kind, reason string) int {
	n := 0
	for _, e := range run.Events {
		if e.T >= 0 && e.Kind == kind && e.Reason == reason {
			n++
		}
	}
	return n
}

func check(e scenario.Expectation, run view.Run) view.Expectation {
	if e.Metric == "" {
		return checkOrder(e, run)
	}
	value := measured(e.Metric, run)
	return view.Expectation{
		Mode: run.Mode, Text: e.Text, Met: compare(value, e.Operator, e.Value),
		Got: strconv.FormatFloat(value, 'f', -1, 64),
	}
}

func measured(m scenario.Metric, run view.Run) float64 {
	switch m {
	case scenario.MetricDowntime:
		return run.DowntimeSeconds
	case scenario.MetricDrain:
		return run.DrainSeconds
	case scenario.MetricRequestsTotal:
		return float64(run.Requests.Total)
	case scenario.MetricRequestsFailed:
		return float64(run.Requests.Failed)
	case scenario.MetricPodsStarted:
		return float64(run.PodsStarted)
	case scenario.MetricRevisions:
		return float64(run.RevisionsCreated)
	case scenario.MetricNodesLaunched:
		return float64(run.NodesLaunched)
	case scenario.MetricNodesGone:
		return float64(run.NodesGone)
	case scenario.MetricHandovers:
		return float64(run.Handovers)
	case scenario.MetricEvictionsAllowed:
		return float64(count(run, kindEviction, reasonAllowed))
	case scenario.MetricEvictionsDenied:
		return float64(count(run, kindEviction, reasonDenied))
	case scenario.MetricDrainsFinished:
		return float64(count(run, kindDrain, reasonFinished))
	case scenario.MetricDrainsFailed:
		return float64(count(run, kindDrain, reasonFailed))
	}
	panic("unknown metric " + string(m)) // the parser knows the same list, and a test walks it
}

func compare(a float64, operator string, b float64) bool {
	switch operator {
	case "==":
		return a == b
	case "!=":
		return a != b
	case ">":
		return a > b
	case ">=":
		return a >= b
	case "<":
		return a < b
	case "<=":
		return a <= b
	}
	panic("unknown operator " + operator)
}

// checkOrder holds when both moments came after `measure` and the first of the one before the first of the other. The
// order of two events of the same millisecond is the order in which they were seen.
func checkOrder(e scenario.Expectation, run view.Run) view.Expectation {
	result := view.Expectation{Mode: run.Mode, Text: e.Text}
	before, after := first(run, e.Before, e.Workload), first(run, e.After, e.Workload)
	switch {
	case before < 0:
		result.Got = "no " + e.Before
	case after < 0:
		result.Got = "no " + e.After
	default:
		result.Met = before < after
		result.Got = fmt.Sprintf("%s at %.3f s, %s at %.3f s", e.Before, run.Events[before].T, e.After, run.Events[after].T)
	}
	return result
}

// first returns the index of the first event of a moment since `measure`, -1 when there is none. Of pods and evictions
// only those of the workload count, unless it is empty.
func first(run view.Run, moment, workload string) int {
	return slices.IndexFunc(run.Events, func(e view.Event) bool {
		if e.T < 0 || e.Kind+"-"+e.Reason != moment {
			return false
		}
		ofPod := e.Kind == kindPod || e.Kind == kindEviction
		return !ofPod || workload == "" || workloadOfPod(run, e.Object) == workload
	})
}

// workloadOfPod finds the workload of a pod by its name, in the event of its creation.
func workloadOfPod(run view.Run, pod string) string {
	for _, e := range run.Events {
		if e.Kind == kindPod && e.Reason == reasonCreated && e.Object == pod {
			return e.Message
		}
	}
	return ""
}
