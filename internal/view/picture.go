package view

import (
	"html/template"
	"slices"
	"strings"
)

// Sizes of the ruler, in units of the picture.
const (
	rulerHeight = 28.0
	stepsHeight = 24.0
	stepText    = 11.5
)

// picture draws the runs of one rehearsal on one time axis.
type picture struct {
	axis   axis
	causes []string
	// tallest is the highest bin of failed requests in any run.
	tallest int
	// dense is set once a block of pods without names has been drawn; the legend explains it then.
	dense bool
	// steps and end belong to the run that is being drawn.
	steps []cluster
	end   float64
}

// newPicture fixes what all runs of a rehearsal share.
func newPicture(runs []Run) *picture {
	p := &picture{axis: newAxis(runs), causes: causes(runs)}
	for _, r := range runs {
		p.tallest = max(p.tallest, p.binned(r.Timeline.Failures).highest())
	}
	return p
}

// run draws one run: ruler and steps, nodes, Services, failed requests, and the ruler again.
func (p *picture) run(r Run) []strip {
	p.steps = fit(r.Timeline.Steps, p.axis)
	p.end = finite(r.Timeline.EndSeconds)
	if p.end <= 0 {
		p.end = p.axis.end
	}
	strips := []strip{p.head()}
	for _, n := range r.Timeline.Nodes {
		if s, ok := p.lane(n); ok {
			strips = append(strips, s)
		}
	}
	for _, s := range r.Timeline.Services {
		strips = append(strips, p.service(s, p.end))
	}
	return append(strips, p.failures(r), p.foot())
}

// backdrop draws what goes through all strips: the grid, the steps, and the end of a run that is shorter than the axis.
func (p *picture) backdrop(c *canvas, height float64) {
	for _, t := range p.axis.ticks() {
		c.line(p.axis.x(t), 0, p.axis.x(t), height, "grid")
	}
	for _, s := range p.steps {
		c.line(s.at, 0, s.at, height, "step-line")
	}
	if p.end < p.axis.end {
		x := p.axis.x(p.end)
		c.rect(x, 0, plotRight-x, height, "after", "this run ended at "+moment(p.end))
	}
}

// head is the ruler above a run, with the scenario's steps.
func (p *picture) head() strip {
	c := &canvas{}
	height := rulerHeight
	if len(p.steps) > 0 {
		height += stepsHeight
	}
	for _, t := range p.axis.ticks() {
		c.text(p.axis.x(t), 14, "t-tick", atMiddle, p.axis.tickLabel(t), "")
		c.line(p.axis.x(t), 21, p.axis.x(t), height, "grid")
	}
	c.text(0, 14, "t-type", atStart, "time since the step measure", "")
	label := "Time from 0 to " + seconds(p.axis.end)
	if len(p.steps) > 0 {
		c.text(0, rulerHeight+12, "t-type", atStart, "scenario steps", "")
		p.stepFlags(c, rulerHeight+8, height)
	}
	var words []string
	for _, s := range p.steps {
		words = append(words, s.tooltip())
	}
	return strip{class: "strip-axis", height: height, label: label, description: strings.Join(words, "; "),
		body: template.HTML(c.out.String())}
}

// stepFlags draws the steps with as much of their labels as fits before the next one.
func (p *picture) stepFlags(c *canvas, y, foot float64) {
	list := slices.Clone(p.steps)
	for i, k := range list {
		room := pictureWidth - k.right() - 4
		if i+1 < len(list) {
			room = list[i+1].left() - k.right() - 10
		}
		if fits := fitting(room, stepText); k.note == "" && fits >= 4 {
			list[i].note = cutEnd(clean(k.marks[0].Label), fits)
		}
	}
	c.clusters(list, y, foot)
}

// foot is the ruler below a run.
func (p *picture) foot() strip {
	c := &canvas{}
	for _, t := range p.axis.ticks() {
		c.line(p.axis.x(t), 0, p.axis.x(t), 6, "grid")
		c.text(p.axis.x(t), 19, "t-tick", atMiddle, p.axis.tickLabel(t), "")
	}
	return strip{class: "strip-axis", height: rulerHeight, label: "Time from 0 to " + seconds(p.axis.end),
		body: template.HTML(c.out.String())}
}
