package view

import (
	"html/template"
	"sort"
	"strings"
)

// Sizes of the curves below the lanes, in units of the picture.
const (
	serviceHeight  = 66.0
	serviceTop     = 14.0
	serviceBottom  = 56.0
	failuresTop    = 14.0
	failuresBottom = 78.0
	failuresHeight = 86.0
	namedCauses    = 4 // causes beyond these are drawn as one
)

// service draws a Service's number of ready endpoints as steps, and every time without any as a marked gap.
func (p *picture) service(s ServiceSeries, end float64) strip {
	c := &canvas{}
	p.backdrop(c, serviceHeight)
	c.line(0, 0.5, pictureWidth, 0.5, "divider")
	name := clean(s.Name)
	c.text(0, 26, "t-node", atStart, cutMiddle(name, fitting(plotLeft-56, nodeNameSize)), name)
	c.text(0, 41, "t-type", atStart, "ready endpoints", "")
	top := 1
	for _, r := range s.Ready {
		top = max(top, r.Ready)
	}
	y := func(n int) float64 {
		return serviceBottom - float64(max(n, 0))/float64(top)*(serviceBottom-serviceTop)
	}
	c.text(plotLeft-8, y(top)+4, "t-tick", atEnd, grouped(top), "")
	c.text(plotLeft-8, y(0)+4, "t-tick", atEnd, "0", "")
	c.line(plotLeft, y(0), plotRight, y(0), "baseline")
	p.readyLine(c, s, end, y)
	lost := gaps(s, min(end, p.axis.end))
	p.gapMarks(c, lost)
	label := "Ready endpoints of " + name
	if len(lost) == 0 {
		label += ": never zero"
		if len(s.Ready) == 0 {
			label += " seen, nothing was recorded"
			c.text(plotLeft+8, y(0)-6, "t-empty", atStart, "nothing was recorded", "")
		}
	}
	total := 0.0
	for _, g := range lost {
		label += "; none " + spanWords(g)
		total += g.To - g.From
	}
	if len(lost) > 1 {
		c.text(0, 56, "t-type", atStart, cutEnd(count(len(lost), "gap")+", "+seconds(total)+" in all", fitting(plotLeft-30, podNameSize)), "")
	}
	return strip{class: "strip-service", height: serviceHeight, label: label, body: template.HTML(c.out.String())}
}

// readyLine draws the line and the area under it.
func (p *picture) readyLine(c *canvas, s ServiceSeries, end float64, y func(int) float64) {
	end = min(end, p.axis.end)
	var line strings.Builder
	first := 0.0
	for i, r := range s.Ready {
		until := end
		if i+1 < len(s.Ready) {
			until = min(s.Ready[i+1].T, end)
		}
		from := max(r.T, 0)
		if !(until > from) {
			continue
		}
		if line.Len() == 0 {
			first = p.axis.x(from)
			line.WriteString("M" + num(first) + " " + num(y(r.Ready)))
		} else {
			line.WriteString("V" + num(y(r.Ready)))
		}
		line.WriteString("H" + num(p.axis.x(until)))
	}
	if line.Len() == 0 {
		return
	}
	c.path(line.String()+"V"+num(y(0))+"H"+num(first)+"Z", "ready-area", "")
	c.path(line.String(), "ready-line", "")
}

// gapMarks hatches the gaps and writes their length beside them where it fits; the tooltip always has it.
func (p *picture) gapMarks(c *canvas, lost []Span) {
	free := plotLeft
	for i, g := range lost {
		x := p.axis.x(g.From)
		right := max(p.axis.x(g.To), x+2)
		c.textured(x, serviceTop-4, right-x, serviceBottom-serviceTop+4, "gap", "no ready endpoint "+spanWords(g))
		next := plotRight
		if i+1 < len(lost) {
			next = p.axis.x(lost[i+1].From)
		}
		words := "no endpoint for " + seconds(g.To-g.From)
		width := textWidth(words, 12)
		switch {
		case width+10 <= next-right:
			c.text(right+7, serviceBottom-8, "t-gap", atStart, words, "")
			free = right + 7 + width
			continue
		case width+10 <= right-x:
			c.text((x+right)/2, serviceBottom-8, "t-gap", atMiddle, words, "")
		case width+10 <= x-free:
			c.text(x-7, serviceBottom-8, "t-gap", atEnd, words, "")
		}
		free = right
	}
}

// causes are the causes of failed requests in all runs, most frequent first, at most namedCauses of them.
func causes(runs []Run) []string {
	total := map[string]int{}
	for _, r := range runs {
		for _, f := range r.Timeline.Failures {
			total[f.Cause]++
		}
	}
	var names []string
	for name := range total {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		if total[names[i]] != total[names[j]] {
			return total[names[i]] > total[names[j]]
		}
		return names[i] < names[j]
	})
	return names[:min(len(names), namedCauses)]
}

// histogram is a run's failed requests by time and cause.
type histogram struct {
	width float64 // seconds a bin
	bins  [][]int // by bin, then by cause; the last cause is all others
	total []int   // by cause
}

// binned sorts the failures of a run into bins. What failed before `measure` is not in the picture.
func (p *picture) binned(failures []RequestFailure) histogram {
	width := niceStep(p.axis.end * 6 / plotWidth)
	n := int(p.axis.end/width) + 1
	h := histogram{width: width, bins: make([][]int, n), total: make([]int, len(p.causes)+1)}
	for i := range h.bins {
		h.bins[i] = make([]int, len(p.causes)+1)
	}
	for _, f := range failures {
		if !p.axis.shows(f.T) {
			continue
		}
		cause := len(p.causes)
		for i, name := range p.causes {
			if name == f.Cause {
				cause = i
			}
		}
		h.bins[int(f.T/width)][cause]++
		h.total[cause]++
	}
	return h
}

func (h histogram) highest() int {
	most := 0
	for _, bin := range h.bins {
		n := 0
		for _, k := range bin {
			n += k
		}
		most = max(most, n)
	}
	return most
}

// seen is how many causes occurred.
func (h histogram) seen() int {
	n := 0
	for _, k := range h.total {
		if k > 0 {
			n++
		}
	}
	return n
}

func (h histogram) sum() int {
	n := 0
	for _, k := range h.total {
		n += k
	}
	return n
}

// failures draws a run's failed requests over time. All runs have the same height scale, so that they compare.
func (p *picture) failures(r Run) strip {
	h := p.binned(r.Timeline.Failures)
	height := max(failuresHeight, 56+14*float64(h.seen()))
	c := &canvas{}
	p.backdrop(c, height)
	c.line(0, 0.5, pictureWidth, 0.5, "divider")
	c.text(0, 20, "t-title", atStart, "Failed requests", "")
	label := "Failed requests over time: "
	c.line(plotLeft, failuresBottom, plotRight, failuresBottom, "baseline")
	if h.sum() == 0 {
		words := "none of " + count(r.Requests.Total, "request")
		if r.Requests.Total == 0 {
			words = "no request was sent"
		} else if r.Requests.Failed > 0 {
			words = "none in this time"
		}
		c.text(0, 37, "t-type", atStart, words, "")
		return strip{class: "strip-failures", height: height, label: label + words, body: template.HTML(c.out.String())}
	}
	c.text(plotLeft-8, failuresBottom+4, "t-tick", atEnd, "0", "")
	c.text(plotLeft-8, failuresTop+4, "t-tick", atEnd, grouped(p.tallest), "")
	p.drawBins(c, h)
	var words []string
	y := 37.0
	for i, n := range h.total {
		if n == 0 {
			continue
		}
		name := "other causes"
		if i < len(p.causes) {
			name = causeName(p.causes[i])
		}
		c.textured(0, y-9, 10, 10, "cause cause-"+num(float64(i)), "")
		text := grouped(n) + " " + name
		c.text(15, y, "t-type", atStart, cutMiddle(text, fitting(plotLeft-60, podNameSize)), text)
		words = append(words, text)
		y += 14
	}
	c.text(0, y, "t-tick", atStart, "a bar is "+seconds(h.width), "")
	return strip{class: "strip-failures", height: height, label: label + strings.Join(words, ", "),
		description: failureTimes(h), body: template.HTML(c.out.String())}
}

// drawBins draws the bins, the causes stacked.
func (p *picture) drawBins(c *canvas, h histogram) {
	unit := (failuresBottom - failuresTop) / float64(max(p.tallest, 1))
	for i, bin := range h.bins {
		from, to := float64(i)*h.width, min(float64(i+1)*h.width, p.axis.end)
		x, right := p.axis.x(from), p.axis.x(to)
		y := failuresBottom
		for cause, n := range bin {
			if n == 0 {
				continue
			}
			name := "other causes"
			if cause < len(p.causes) {
				name = causeName(p.causes[cause])
			}
			y -= float64(n) * unit
			c.textured(x+0.5, y, max(right-x-1, 1), float64(n)*unit, "cause cause-"+num(float64(cause)),
				moment(from)+" to "+moment(to)+": "+grouped(n)+" failed, "+name)
		}
	}
}

func causeName(cause string) string {
	if cause == "" {
		return "unknown cause"
	}
	return clean(cause)
}

// failureTimes says when requests failed, for those who do not see the picture.
func failureTimes(h histogram) string {
	first, last := -1, 0
	for i, bin := range h.bins {
		for _, n := range bin {
			if n > 0 {
				if first < 0 {
					first = i
				}
				last = i
			}
		}
	}
	return "Between " + moment(float64(first)*h.width) + " and " + moment(float64(last+1)*h.width) + "."
}
