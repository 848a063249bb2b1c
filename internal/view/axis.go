package view

import (
	"math"
	"strconv"
)

// Geometry of every strip, in units of the picture.
const (
	pictureWidth = 1120.0
	plotLeft     = 232.0
	plotRight    = 1100.0
	plotWidth    = plotRight - plotLeft
)

// axis maps seconds since `measure` to x. It begins at 0; what began earlier is cut there.
type axis struct {
	end  float64
	step float64
}

// newAxis is the common axis of all runs of a rehearsal.
func newAxis(runs []Run) axis {
	end := 0.0
	for _, r := range runs {
		end = max(end, finite(r.Timeline.EndSeconds))
	}
	if end <= 0 {
		for _, r := range runs {
			end = max(end, lastMoment(r.Timeline))
		}
	}
	if end <= 0 {
		end = 1
	}
	return axis{end: end, step: tickStep(end)}
}

// lastMoment is the latest time in a timeline that says no end itself.
func lastMoment(t Timeline) float64 {
	last := 0.0
	for _, n := range t.Nodes {
		last = max(last, finite(n.To))
		for _, p := range n.Pods {
			for _, phase := range p.Phases {
				last = max(last, finite(phase.To))
			}
		}
	}
	for _, s := range t.Services {
		for _, p := range s.Ready {
			last = max(last, finite(p.T))
		}
	}
	for _, f := range t.Failures {
		last = max(last, finite(f.T))
	}
	return last
}

func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// x is where t is drawn. Callers ask shows or cut first, so t lies on the axis.
func (a axis) x(t float64) float64 { return plotLeft + t/a.end*plotWidth }

// shows says whether t lies on the axis.
func (a axis) shows(t float64) bool { return t >= 0 && t <= a.end }

// cut is the part of s that lies on the axis; ok is false when there is none.
func (a axis) cut(s Span) (part Span, ok bool) {
	part = Span{max(finite(s.From), 0), min(finite(s.To), a.end)}
	return part, part.To > part.From
}

// ticks are the labelled times.
func (a axis) ticks() []float64 {
	var ticks []float64
	for i := 0; float64(i)*a.step <= a.end*(1+1e-9); i++ {
		ticks = append(ticks, float64(i)*a.step)
	}
	return ticks
}

// niceSteps are the intervals, in seconds, that people read easily.
var niceSteps = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400}

// niceStep is the smallest nice interval of at least shortest seconds.
func niceStep(shortest float64) float64 {
	for _, s := range niceSteps {
		if s >= shortest {
			return s
		}
	}
	day := niceSteps[len(niceSteps)-1]
	return day * math.Pow(2, math.Ceil(math.Log2(shortest/day)))
}

// tickStep leaves at least 80 units between two ticks, room for any label.
func tickStep(end float64) float64 { return niceStep(end * 80 / plotWidth) }

// tickLabel writes a time on the axis.
func (a axis) tickLabel(t float64) string {
	if a.end <= 180 || a.step < 1 {
		return trimZeros(strconv.FormatFloat(t, 'f', 2, 64)) + " s"
	}
	whole := int64(math.Round(t))
	two := func(n int64) string {
		if n < 10 {
			return "0" + strconv.FormatInt(n, 10)
		}
		return strconv.FormatInt(n, 10)
	}
	if a.end < 3600 {
		return strconv.FormatInt(whole/60, 10) + ":" + two(whole%60)
	}
	return strconv.FormatInt(whole/3600, 10) + ":" + two(whole/60%60) + ":" + two(whole%60)
}
