package view

import "strings"

// most is the number of pods that a tooltip or a description names; more would be noise to listen to.
const most = 60

// spanWords is a span in words, with its length.
func spanWords(s Span) string {
	return "from " + moment(s.From) + " to " + moment(s.To) + " (" + seconds(s.To-s.From) + ")"
}

func nodeTooltip(n NodeLane) string {
	words := "node " + clean(n.Name)
	if n.InstanceType != "" {
		words += ", " + clean(n.InstanceType)
	}
	return words + ", " + spanWords(n.Span)
}

func taintTooltip(t TaintSpan) string {
	words := clean(t.Key)
	if t.Effect != "" {
		words += ":" + clean(t.Effect)
	}
	return words + " " + spanWords(t.Span)
}

func podTooltip(p PodBar) string {
	words := clean(p.Name)
	if p.Workload != "" {
		words += " of " + clean(p.Workload)
	}
	return words
}

// podList names pods, up to most of them.
func podList(pods []PodBar) string {
	var names []string
	for i, p := range pods {
		if i == most {
			names = append(names, "and "+grouped(len(pods)-most)+" more")
			break
		}
		names = append(names, cutMiddle(clean(p.Name), 80))
	}
	return strings.Join(names, ", ")
}

// laneLabel says in one sentence what is in a lane.
func laneLabel(n NodeLane, rows laneRows) string {
	pods := len(rows.named) + len(rows.dense)
	for _, folded := range rows.folded {
		pods += len(folded)
	}
	var words []string
	if n.InstanceType != "" {
		words = append(words, clean(n.InstanceType))
	}
	words = append(words, "there "+spanWords(n.Span), count(pods, "pod"))
	for _, t := range n.Taints {
		words = append(words, "taint "+taintTooltip(t))
	}
	for _, m := range n.Marks {
		words = append(words, moment(m.T)+" "+markName(m.Kind)+" "+clean(m.Label))
	}
	return strings.Join(words, "; ")
}

// laneDescription says what happened to each pod that has a bar of its own.
func laneDescription(rows laneRows, a axis) string {
	var words []string
	pods := append(append([]PodBar(nil), rows.named...), rows.dense...)
	for i, p := range pods {
		if i == most {
			words = append(words, "And "+grouped(len(pods)-most)+" more pods.")
			break
		}
		parts := []string{cutMiddle(podTooltip(p), 80)}
		for _, phase := range visiblePhases(p, a) {
			parts = append(parts, phaseName(phase.Phase)+" "+spanWords(phase.Span))
		}
		for _, k := range gather(p.Marks, a, clusterSpan) {
			parts = append(parts, k.tooltip())
		}
		words = append(words, strings.Join(parts, ", ")+".")
	}
	return strings.Join(words, " ")
}
