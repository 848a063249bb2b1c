package view

import (
	"strconv"
	"strings"
)

// measure is one figure of the comparison of runs.
type measure struct {
	name string
	// value and unit are the figure in words, for example "5.07" and "s", or "253" and "of 1,800".
	value func(Run) (value, unit string)
	// isLoss says that the figure is harm done to users.
	isLoss func(Run) bool
}

func never(Run) bool { return false }

func counter(n func(Run) int) func(Run) (string, string) {
	return func(r Run) (string, string) { return grouped(n(r)), "" }
}

// measures are the figures of the comparison, in the order in which every view shows them.
var measures = []measure{
	{"Downtime", func(r Run) (string, string) { return split(seconds(r.DowntimeSeconds)) },
		func(r Run) bool { return r.DowntimeSeconds > 0 }},
	{"Failed requests", func(r Run) (string, string) {
		return grouped(r.Requests.Failed), "of " + grouped(r.Requests.Total)
	}, func(r Run) bool { return r.Requests.Failed > 0 }},
	{"Drain time", func(r Run) (string, string) { return drain(r) }, never},
	{"Pods started", counter(func(r Run) int { return r.PodsStarted }), never},
	{"Revisions", counter(func(r Run) int { return r.RevisionsCreated }), never},
	{"Nodes launched", counter(func(r Run) int { return r.NodesLaunched }), never},
	{"Nodes gone", counter(func(r Run) int { return r.NodesGone }), never},
	{"Handovers", counter(func(r Run) int { return r.Handovers }), never},
}

// drain is the drain time, or a dash where no node was drained.
func drain(r Run) (value, unit string) {
	if r.DrainSeconds == 0 && r.NodesGone == 0 {
		return "–", ""
	}
	return split(seconds(r.DrainSeconds))
}

// split parts the first word from the rest.
func split(s string) (value, rest string) {
	value, rest, _ = strings.Cut(s, " ")
	return value, rest
}

// modeName is the mode as the views write it.
func modeName(m Mode) string {
	switch m {
	case ModeStock:
		return "Stock"
	case ModeSegue:
		return "Segue"
	case "":
		return "Unnamed"
	}
	return clean(string(m))
}

// runNames gives every run of a rehearsal its name; runs of the same mode are numbered.
func runNames(runs []Run) []string {
	total := map[Mode]int{}
	for _, r := range runs {
		total[r.Mode]++
	}
	seen := map[Mode]int{}
	names := make([]string, len(runs))
	for i, r := range runs {
		seen[r.Mode]++
		names[i] = modeName(r.Mode)
		if total[r.Mode] > 1 {
			names[i] += " " + strconv.Itoa(seen[r.Mode])
		}
	}
	return names
}

// headline says in plain words what a rehearsal has shown, a sentence a run.
func headline(doc Rehearsal) []string {
	var sentences []string
	if doc.Verdict == VerdictInvalid {
		sentences = append(sentences, "These runs prove nothing, whatever their figures say.")
	}
	names := runNames(doc.Runs)
	for i, r := range doc.Runs {
		who := names[i]
		switch who {
		case "Stock":
			who = "Without Segue"
		case "Segue":
			who = "With Segue"
		}
		sentences = append(sentences, who+": "+outcome(r)+".")
	}
	if len(doc.Runs) == 0 {
		sentences = append(sentences, "Nothing was run.")
	}
	return sentences
}

// outcome is one run in half a sentence: first the harm, then the node.
func outcome(r Run) string {
	var parts []string
	switch {
	case r.Requests.Total == 0 && r.DowntimeSeconds == 0:
		parts = append(parts, "no downtime seen, but no request was sent")
	case r.Requests.Total == 0:
		parts = append(parts, downtimeWords(r)+", and no request was sent")
	case r.DowntimeSeconds == 0 && r.Requests.Failed == 0:
		parts = append(parts, "no downtime, none of "+count(r.Requests.Total, "request")+" failed")
	default:
		parts = append(parts, downtimeWords(r)+", "+grouped(r.Requests.Failed)+" of "+count(r.Requests.Total, "request")+" failed")
	}
	switch {
	case r.DrainsFailed > 0:
		parts = append(parts, "the drain gave up after "+seconds(r.DrainSeconds))
	case r.NodesGone == 1:
		parts = append(parts, "the node was gone after "+seconds(r.DrainSeconds))
	case r.NodesGone > 1:
		parts = append(parts, grouped(r.NodesGone)+" nodes were gone, the drain took "+seconds(r.DrainSeconds))
	case r.DrainSeconds > 0:
		parts = append(parts, "the drain took "+seconds(r.DrainSeconds))
	default:
		parts = append(parts, "no node went")
	}
	return strings.Join(parts, "; ")
}

func downtimeWords(r Run) string {
	if r.DowntimeSeconds == 0 {
		return "no downtime"
	}
	return seconds(r.DowntimeSeconds) + " of downtime"
}

// verdictWords are a verdict's symbol and word; the word alone carries the meaning.
func verdictWords(v Verdict) (symbol, word string) {
	switch v {
	case VerdictPass:
		return "✓", "pass"
	case VerdictFail:
		return "✗", "fail"
	case VerdictInvalid:
		return "?", "invalid"
	case "":
		return "?", "no verdict"
	}
	return "?", clean(string(v))
}

// gaps are the intervals in [0, end] in which a Service had no ready endpoint. Before the first point nothing is known,
// and what is not known is no gap.
func gaps(s ServiceSeries, end float64) []Span {
	var found []Span
	for i, p := range s.Ready {
		if p.Ready > 0 {
			continue
		}
		until := end
		if i+1 < len(s.Ready) {
			until = s.Ready[i+1].T
		}
		from, to := max(p.T, 0), min(until, end)
		if !(to > from) {
			continue
		}
		if n := len(found); n > 0 && found[n-1].To == from {
			found[n-1].To = to
			continue
		}
		found = append(found, Span{from, to})
	}
	return found
}
