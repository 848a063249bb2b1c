package view

import (
	"html/template"
	"sort"
	"strconv"
	"strings"
)

// Sizes of a node's lane, in units of the picture.
const (
	laneHead     = 38.0 // the node's own row
	laneFoot     = 8.0
	rowPlain     = 21.0 // a pod without marks
	rowMarks     = 14.0 // a strip of marks above a pod's bar
	rowDense     = 6.0  // a pod among many, thinner where the lane would become taller than a page
	rowThin      = 2.5
	laneTallest  = 400.0
	barHeight    = 15.0
	fewPods      = 8 // up to so many changing pods get a row with a name
	foldFrom     = 3 // so many unchanging pods become one bar
	nodeNameSize = 12.5
	podNameSize  = 11.0
)

// phaseNames are the phases in the words of the picture.
var phaseNames = map[PodPhase]string{
	PodStarting: "starting", PodReady: "ready", PodNotReady: "not ready", PodStopping: "stopping",
}

func phaseName(p PodPhase) string {
	if name, known := phaseNames[p]; known {
		return name
	}
	return clean(string(p))
}

// phaseClass is the class of a known phase; what is unknown looks like not ready, the most careful reading.
func phaseClass(p PodPhase) string {
	if _, known := phaseNames[p]; known {
		return string(p)
	}
	return string(PodNotReady)
}

// laneRows are the pods of a node, sorted into the rows that the picture gives them.
type laneRows struct {
	// named pods have a row each; dense pods are too many for that; folded pods did nothing at all and are shown as one
	// bar per phase.
	named, dense []PodBar
	folded       map[PodPhase][]PodBar
}

// sortPods decides which row each pod gets. Pods that lie outside the axis are left out.
func sortPods(n NodeLane, a axis) laneRows {
	var changing, quiet []PodBar
	for _, p := range n.Pods {
		switch {
		case !visible(p, a):
		case isQuiet(p, n, a):
			quiet = append(quiet, p)
		default:
			changing = append(changing, p)
		}
	}
	rows := laneRows{folded: map[PodPhase][]PodBar{}}
	if len(quiet) >= foldFrom && len(quiet)+len(changing) > fewPods {
		for _, p := range quiet {
			phase := visiblePhases(p, a)[0].Phase
			rows.folded[phase] = append(rows.folded[phase], p)
		}
		quiet = nil
	}
	pods := append(quiet, changing...)
	sort.SliceStable(pods, func(i, j int) bool { return begin(pods[i], a) < begin(pods[j], a) })
	if len(pods) > fewPods {
		rows.dense = pods
	} else {
		rows.named = pods
	}
	return rows
}

func visiblePhases(p PodBar, a axis) []PhaseSpan {
	var list []PhaseSpan
	for _, phase := range p.Phases {
		if part, ok := a.cut(phase.Span); ok {
			list = append(list, PhaseSpan{phase.Phase, part})
		}
	}
	return list
}

func visible(p PodBar, a axis) bool { return len(visiblePhases(p, a)) > 0 }

// begin is when a visible pod's bar begins.
func begin(p PodBar, a axis) float64 { return visiblePhases(p, a)[0].From }

// isQuiet says that a pod stayed in one phase for as long as its node is in the picture, and nothing happened to it.
func isQuiet(p PodBar, n NodeLane, a axis) bool {
	phases := visiblePhases(p, a)
	life, ok := a.cut(n.Span)
	if !ok || len(phases) != 1 || phases[0].From > life.From || phases[0].To < life.To {
		return false
	}
	for _, m := range p.Marks {
		if a.shows(m.T) {
			return false
		}
	}
	return true
}

// lane draws one node: its life as a panel, its taints hatched over it, its pods as bars. ok is false when the node was
// not there in the time of the picture.
func (p *picture) lane(n NodeLane) (strip, bool) {
	life, ok := p.axis.cut(n.Span)
	if !ok {
		return strip{}, false
	}
	rows := sortPods(n, p.axis)
	height := laneHead + laneFoot + rows.height(p.axis)
	c := &canvas{}
	x := p.axis.x(life.From)
	c.roundRect(x, 4, max(p.axis.x(life.To)-x, 1), height-8, 3, "node", nodeTooltip(n))
	p.backdrop(c, height)
	c.line(0, 0.5, pictureWidth, 0.5, "divider")
	p.taints(c, n, height)
	p.nodeHead(c, n, rows)
	y := laneHead
	for _, pod := range rows.named {
		y = p.namedPod(c, pod, y)
	}
	y = p.densePods(c, rows.dense, y)
	p.foldedPods(c, rows.folded, y)
	return strip{class: "strip-lane", height: height, label: "Node " + clean(n.Name) + ": " + laneLabel(n, rows),
		description: laneDescription(rows, p.axis), body: template.HTML(c.out.String())}, true
}

func (r laneRows) height(a axis) float64 {
	h := 0.0
	for _, p := range r.named {
		h += rowHeight(p, a)
	}
	if len(r.dense) > 0 {
		h += denseHeight(len(r.dense))
	}
	return h + float64(len(r.folded))*rowPlain
}

// denseRow is the height of one of n pods that share a block without names.
func denseRow(n int) float64 { return max(rowThin, min(rowDense, laneTallest/float64(n))) }

func denseHeight(n int) float64 { return float64(n)*denseRow(n) + 8 }

func rowHeight(p PodBar, a axis) float64 {
	return rowPlain + float64(len(markStrips(p.Marks, a)))*rowMarks
}

// markStrips parts a pod's marks into the strips above its bar: the handover's steps have one of their own, so that
// their names have room.
func markStrips(marks []Mark, a axis) [][]Mark {
	var steps, answers []Mark
	for _, m := range marks {
		switch {
		case !a.shows(m.T):
		case m.Kind == MarkHandover:
			steps = append(steps, m)
		default:
			answers = append(answers, m)
		}
	}
	var strips [][]Mark
	for _, strip := range [][]Mark{steps, answers} {
		if len(strip) > 0 {
			strips = append(strips, strip)
		}
	}
	return strips
}

// nodeHead draws the node's own row: its name and instance type, and the marks of the node and of its dense pods.
func (p *picture) nodeHead(c *canvas, n NodeLane, rows laneRows) {
	name := clean(n.Name)
	c.text(0, 17, "t-node", atStart, cutMiddle(name, fitting(plotLeft-12, nodeNameSize)), name)
	if kind := clean(n.InstanceType); kind != "" {
		c.text(0, 31, "t-type", atStart, cutMiddle(kind, fitting(plotLeft-12, podNameSize)), kind)
	}
	marks := append([]Mark(nil), n.Marks...)
	for _, pod := range rows.dense {
		for _, m := range pod.Marks {
			m.Label = strings.TrimSpace(clean(pod.Name) + " " + m.Label)
			marks = append(marks, m)
		}
	}
	c.clusters(clusters(marks, p.axis), 28, laneHead-2)
}

// taints hatches the time of each taint and names it; names that would overlap are counted in the one before.
func (p *picture) taints(c *canvas, n NodeLane, height float64) {
	type name struct {
		x    float64
		text string
		more int
	}
	taints := append([]TaintSpan(nil), n.Taints...)
	sort.SliceStable(taints, func(i, j int) bool { return taints[i].From < taints[j].From })
	var names []name
	right := 0.0
	for _, t := range taints {
		part, ok := p.axis.cut(t.Span)
		if !ok {
			continue
		}
		x := p.axis.x(part.From)
		c.textured(x, 4, max(p.axis.x(part.To)-x, 1), height-8, "taint", taintTooltip(t))
		c.line(x, 4, x, height-4, "taint-edge")
		if len(names) > 0 && x < right+40 {
			names[len(names)-1].more++
			continue
		}
		names = append(names, name{x: x, text: cutMiddle(clean(t.Key), 40)})
		right = x + 8 + textWidth(names[len(names)-1].text, podNameSize)
	}
	for _, l := range names {
		text := l.text
		if l.more > 0 {
			text += " +" + strconv.Itoa(l.more)
		}
		x := l.x + 5
		anchor := atStart
		if x+textWidth(text, podNameSize) > pictureWidth {
			x, anchor = pictureWidth-4, atEnd
		}
		c.text(x, 16.5, "t-taint", anchor, text, "")
	}
}

// namedPod draws a pod with a row of its own and returns where the next row begins.
func (p *picture) namedPod(c *canvas, pod PodBar, y float64) float64 {
	height := rowHeight(pod, p.axis)
	top := y + height - barHeight - 3
	name := clean(pod.Name)
	c.text(12, top+11, "t-pod", atStart, cutMiddle(name, fitting(plotLeft-24, podNameSize)), podTooltip(pod))
	p.bar(c, pod, top, barHeight)
	strips := markStrips(pod.Marks, p.axis)
	for i, marks := range strips {
		c.clusters(clusters(marks, p.axis), top-9-float64(len(strips)-1-i)*rowMarks, top+2)
	}
	return y + height
}

// bar draws a pod's phases; where there is room the phase is written into it. Bars too thin for a texture are told
// apart by how dark they are.
func (p *picture) bar(c *canvas, pod PodBar, top, height float64) {
	for _, phase := range visiblePhases(pod, p.axis) {
		x := p.axis.x(phase.From)
		width := max(p.axis.x(phase.To)-x, 1)
		class := phaseClass(phase.Phase)
		tooltip := clean(pod.Name) + " " + phaseName(phase.Phase) + " " + spanWords(phase.Span)
		if height < barHeight {
			c.rect(x, top, width, height, "thin thin-"+class, tooltip)
			continue
		}
		c.textured(x, top, width, height, "bar bar-"+class, tooltip)
		name := phaseName(phase.Phase)
		if textWidth(name, markText)+10 <= width && columns(name) <= 20 {
			c.text(x+5, top+11, "t-phase t-"+class, atStart, name, "")
		}
	}
}

func (p *picture) densePods(c *canvas, pods []PodBar, y float64) float64 {
	if len(pods) == 0 {
		return y
	}
	p.dense = true
	c.text(12, y+11, "t-pod", atStart, count(len(pods), "pod")+", a line each", podList(pods))
	for i, pod := range pods {
		row := denseRow(len(pods))
		p.bar(c, pod, y+2+float64(i)*row, row-1)
	}
	return y + denseHeight(len(pods))
}

// foldedPods draws the pods that did nothing, one bar a phase.
func (p *picture) foldedPods(c *canvas, folded map[PodPhase][]PodBar, y float64) {
	for _, phase := range sortedPhases(folded) {
		pods := folded[phase]
		top := y + rowPlain - barHeight - 3
		c.text(12, top+11, "t-pod", atStart, count(len(pods), "pod")+" without change", podList(pods))
		part := visiblePhases(pods[0], p.axis)[0]
		x := p.axis.x(part.From)
		width := max(p.axis.x(part.To)-x, 1)
		c.textured(x, top, width, barHeight, "bar bar-"+phaseClass(phase), podList(pods))
		words := grouped(len(pods)) + " × " + phaseName(phase)
		if textWidth(words, markText)+10 <= width {
			c.text(x+5, top+11, "t-phase t-"+phaseClass(phase), atStart, words, "")
		}
		y += rowPlain
	}
}

func sortedPhases(folded map[PodPhase][]PodBar) []PodPhase {
	var phases []PodPhase
	for phase := range folded {
		phases = append(phases, phase)
	}
	sort.Slice(phases, func(i, j int) bool { return phases[i] < phases[j] })
	return phases
}
