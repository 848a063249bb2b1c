// Package viewtest makes rehearsals that are hard to draw, for the tests of the views: many nodes and pods, strings that
// try to break out of their place, and nothing at all. It must never be linked into a binary.
package viewtest

import (
	"fmt"
	"strings"

	"github.com/segue-dev/segue/internal/view"
)

// Crowded is a rehearsal of both modes in which every pod of every node changes, with names as long as Kubernetes
// allows and more causes of failure than the picture has textures for.
func Crowded(nodes, pods int) view.Rehearsal {
	doc := view.Rehearsal{Schema: view.RehearsalSchema, Scenario: "crowded", Title: "Every node of a large fleet is replaced", Verdict: view.VerdictPass}
	for i, mode := range []view.Mode{view.ModeStock, view.ModeSegue} {
		run := view.Run{Mode: mode, Timeline: view.Timeline{EndSeconds: 900 - 200*float64(i)}, NodesGone: nodes, DrainSeconds: 640}
		for n := range nodes {
			run.Timeline.Nodes = append(run.Timeline.Nodes, crowdedNode(n, pods))
		}
		run.Requests = view.Requests{Total: 45_000, Failed: 700}
		for k := range run.Requests.Failed {
			run.Timeline.Failures = append(run.Timeline.Failures, view.RequestFailure{
				T: float64(k), Service: "shop", Cause: fmt.Sprintf("cause-%d", k%7)})
		}
		run.Timeline.Services = append(run.Timeline.Services, flapping())
		for k := range 40 {
			run.Timeline.Steps = append(run.Timeline.Steps, view.Mark{T: float64(k * 11), Kind: view.MarkStep, Label: fmt.Sprintf("roll node %d with a long sentence about it", k)})
			run.Events = append(run.Events, view.Event{T: float64(k), Kind: "node", Object: "node-" + fmt.Sprint(k), Reason: "Gone", Message: strings.Repeat("word ", 40)})
		}
		doc.Runs = append(doc.Runs, run)
	}
	return doc
}

func crowdedNode(n, pods int) view.NodeLane {
	leaves := float64(20 * (n + 1))
	node := view.NodeLane{
		Name:         fmt.Sprintf("ip-10-%d-7-13.%s.compute.internal", n, strings.Repeat("long-", 20)),
		InstanceType: "m7i-flex.metal-48xlarge-with-a-name-that-goes-on",
		Span:         view.Span{From: -50, To: leaves + 30},
		Taints: []view.TaintSpan{
			{Key: "karpenter.sh/disrupted", Effect: "NoSchedule", Span: view.Span{From: leaves, To: leaves + 30}},
			{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule", Span: view.Span{From: leaves + 1, To: leaves + 30}},
		},
		Marks: []view.Mark{{T: leaves + 2, Kind: view.MarkDeletion, Label: "NodeClaim deleted"}},
	}
	for k := range pods {
		at := leaves + float64(k)/10
		pod := view.PodBar{Name: fmt.Sprintf("%s-%d-%d", strings.Repeat("very-long-name-", 15), n, k), Workload: "Deployment/shop"}
		pod.Phases = []view.PhaseSpan{
			{Phase: view.PodStarting, Span: view.Span{From: -50, To: leaves - 15}},
			{Phase: view.PodReady, Span: view.Span{From: leaves - 15, To: at}},
			{Phase: view.PodNotReady, Span: view.Span{From: at, To: at + 8}},
			{Phase: view.PodStopping, Span: view.Span{From: at + 8, To: at + 20}},
		}
		for i := range 9 {
			kind := []view.MarkKind{view.MarkEvictionDenied, view.MarkHandover, view.MarkEvictionAllowed}[i%3]
			pod.Marks = append(pod.Marks, view.Mark{T: at + float64(i)/3, Kind: kind, Label: fmt.Sprintf("answer %d", i)})
		}
		pod.Marks = append(pod.Marks, view.Mark{T: at + 8, Kind: view.MarkDeletion, Label: "evicted"})
		node.Pods = append(node.Pods, pod)
	}
	return node
}

// flapping is a Service that is without an endpoint again and again.
func flapping() view.ServiceSeries {
	s := view.ServiceSeries{Name: "a-service-with-" + strings.Repeat("a-long-name-", 8)}
	for k := range 60 {
		s.Ready = append(s.Ready, view.ReadyPoint{T: float64(k * 12), Ready: (k * 7) % 4 * 250})
	}
	return s
}

// Payloads are strings that do harm where they are not escaped: to a page, to an attribute, to a terminal, or to the
// reading direction. Each contains the word attack.
var Payloads = []string{
	`<script>attack()</script>`,
	`"><img src=x onerror=attack()>`,
	`</title></svg><script>attack()</script>`,
	`' onload='attack()`,
	`{{attack}}]]>&lt;&#0;`,
	"\x1b[31mattack\x1b]0;attack\x07\r\n\x00",
	"attack \u202e\u2066 kcatta \u200b",
	"attack \xff\xfe broken \xc3",
	strings.Repeat("攻撃attack", 30),
}

// Hostile is a rehearsal whose every string is one of the Payloads, and whose numbers are at odds with each other.
func Hostile() view.Rehearsal {
	next := 0
	evil := func() string { next++; return Payloads[next%len(Payloads)] }
	doc := view.Rehearsal{Schema: view.RehearsalSchema, Scenario: evil(), Title: evil(), Verdict: view.Verdict(evil())}
	for i := range 3 {
		mode := []view.Mode{view.ModeStock, view.ModeStock, view.Mode(evil())}[i]
		run := view.Run{Mode: mode, DowntimeSeconds: -3, Requests: view.Requests{Total: -1, Failed: 5}, Timeline: view.Timeline{EndSeconds: 10}}
		for range 12 {
			run.Events = append(run.Events, view.Event{T: -1e12, Kind: evil(), Object: evil(), Reason: evil(), Message: evil()})
			run.Timeline.Steps = append(run.Timeline.Steps, view.Mark{T: 5, Kind: view.MarkKind(evil()), Label: evil()})
			run.Timeline.Failures = append(run.Timeline.Failures, view.RequestFailure{T: float64(next % 12), Service: evil(), Cause: evil()})
			run.Timeline.Services = append(run.Timeline.Services, view.ServiceSeries{Name: evil(), Ready: []view.ReadyPoint{
				{T: 3, Ready: -4}, {T: 1, Ready: 2}, {T: 4, Ready: 0}, {T: 1e9, Ready: 1}}})
			run.Timeline.Nodes = append(run.Timeline.Nodes, view.NodeLane{Name: evil(), InstanceType: evil(), Span: view.Span{From: -1e9, To: 1e9},
				Taints: []view.TaintSpan{{Key: evil(), Span: view.Span{From: -1e9, To: 1e9}}, {Key: evil(), Effect: evil(), Span: view.Span{From: 8, To: 2}}, {Key: evil(), Effect: evil(), Span: view.Span{From: 2, To: 8}}},
				Marks:  []view.Mark{{T: -5, Label: evil()}, {T: 5, Kind: view.MarkKind(evil()), Label: evil()}},
				Pods: []view.PodBar{{Name: evil(), Workload: evil(), Phases: []view.PhaseSpan{
					{Phase: view.PodPhase(evil()), Span: view.Span{From: 9, To: 1}}, {Phase: view.PodPhase(evil()), Span: view.Span{From: 1, To: 9}}}}},
			})
		}
		doc.Runs = append(doc.Runs, run)
	}
	for i := range 6 {
		doc.Expectations = append(doc.Expectations, view.Expectation{Mode: view.Mode(evil()), Text: evil(), Got: evil(), Met: i%2 == 0})
	}
	return doc
}

// Odd are rehearsals with nothing in them, or nearly nothing.
func Odd() []view.Rehearsal {
	return []view.Rehearsal{
		{},
		{Schema: view.RehearsalSchema, Scenario: "no-runs", Verdict: view.VerdictInvalid},
		{Schema: view.RehearsalSchema, Scenario: "no-stock", Runs: []view.Run{{Mode: view.ModeSegue}}, Verdict: view.VerdictFail,
			Expectations: []view.Expectation{{Mode: view.ModeSegue, Text: "downtime == 0", Met: false}}},
		{Schema: view.RehearsalSchema, Scenario: "empty-timeline", Runs: []view.Run{
			{Mode: view.ModeStock, Timeline: view.Timeline{EndSeconds: 30}},
			{Mode: view.ModeSegue, Timeline: view.Timeline{Nodes: []view.NodeLane{{Name: "no-end", Span: view.Span{From: 0, To: 12}}}}},
		}, Verdict: view.VerdictPass},
		{Schema: view.RehearsalSchema, Scenario: "one-of-each", Runs: []view.Run{{Mode: view.ModeStock, Timeline: view.Timeline{
			EndSeconds: 0.4,
			Nodes:      []view.NodeLane{{Name: "n", Span: view.Span{From: 0, To: 0.4}, Pods: []view.PodBar{{Name: "p"}}}, {Name: "gone-before", Span: view.Span{From: -9, To: -1}}},
			Services:   []view.ServiceSeries{{Name: "s"}, {Name: "down", Ready: []view.ReadyPoint{{T: -5, Ready: 0}}}},
			Failures:   []view.RequestFailure{{T: 0.4}},
		}}}, Verdict: view.VerdictPass},
	}
}
