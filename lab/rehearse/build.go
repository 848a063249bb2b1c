package rehearse

import (
	"cmp"
	"slices"
	"time"

	"github.com/segue-dev/segue/internal/view"
)

// build turns a record into the model of a run; end is where the run ended. It does no I/O and reads no clock, and is
// called when nothing writes to the record any more.
func (r *record) build(mode view.Mode, end time.Time, requests []request) view.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := builder{r: r, end: end, zero: r.measured}
	if b.zero.IsZero() { // the run ended before `measure`: count nothing, show what there is
		b.zero = end
	}
	run := view.Run{
		Mode:             mode,
		DowntimeSeconds:  b.downtime(),
		DrainSeconds:     b.drain(),
		RevisionsCreated: r.newRevision,
		NodesLaunched:    r.launched,
		Handovers:        r.newHandover,
		Events:           b.events(),
		Timeline: view.Timeline{
			EndSeconds: b.t(end),
			Nodes:      b.nodes(),
			Services:   b.services(),
			Steps:      b.steps(),
		},
	}
	for _, p := range r.podOrder {
		if p.served && p.measured {
			run.PodsStarted++
		}
	}
	for _, n := range r.nodeOrder {
		if !n.gone.IsZero() && !n.gone.Before(b.zero) {
			run.NodesGone++
		}
	}
	run.DrainsFailed = count(run, kindDrain, reasonFailed)
	run.Requests, run.Timeline.Failures = b.requests(requests)
	return run
}

// request is one request that the load generator sent.
type request struct {
	at      time.Time
	service string
	failed  bool
	cause   string
}

type builder struct {
	r    *record
	zero time.Time // the step `measure`
	end  time.Time
}

// t is a moment in seconds since `measure`, to the millisecond.
func (b *builder) t(at time.Time) float64 {
	return float64(at.Sub(b.zero).Milliseconds()) / 1000
}

// orEnd is the end of an interval: what had not ended ends with the run.
func (b *builder) orEnd(at time.Time) time.Time {
	if at.IsZero() || at.After(b.end) {
		return b.end
	}
	return at
}

func (b *builder) span(from, to time.Time) view.Span {
	return view.Span{From: b.t(from), To: b.t(b.orEnd(to))}
}

// downtime sums, over the Services, the time since `measure` without a ready endpoint.
func (b *builder) downtime() float64 {
	var sum time.Duration
	for _, s := range b.r.services {
		for i, p := range s.points {
			from, to := p.at, b.end
			if i+1 < len(s.points) {
				to = s.points[i+1].at
			}
			if from.Before(b.zero) {
				from = b.zero
			}
			if p.ready == 0 && to.After(from) {
				sum += to.Sub(from)
			}
		}
	}
	return float64(sum.Milliseconds()) / 1000
}

// drain is the longest time from a node's first leave signal until it was gone; where a drain was asked for and the
// node stays, until its last pod was gone; until the end of the run where neither happened.
func (b *builder) drain() float64 {
	var longest time.Duration
	for _, n := range b.r.nodeOrder {
		if n.leaving.IsZero() {
			continue
		}
		to := b.orEnd(n.gone)
		if n.gone.IsZero() && !n.drainEnded.IsZero() && n.drainErr == nil {
			to = b.lastPodGone(n)
		}
		longest = max(longest, to.Sub(n.leaving))
	}
	return float64(longest.Milliseconds()) / 1000
}

func (b *builder) lastPodGone(n *nodeTrack) time.Time {
	last := n.leaving
	for _, p := range b.r.podOrder {
		if p.node == n.name && p.gone.After(last) {
			last = p.gone
		}
	}
	return last
}

func (b *builder) events() []view.Event {
	happenings := slices.Clone(b.r.happenings)
	slices.SortStableFunc(happenings, func(x, y happening) int { return x.at.Compare(y.at) })
	events := make([]view.Event, 0, len(happenings))
	for _, h := range happenings {
		events = append(events, view.Event{T: b.t(h.at), Kind: h.kind, Object: h.object, Reason: h.reason, Message: h.message})
	}
	return events
}

func (b *builder) steps() []view.Mark {
	steps := []view.Mark{}
	for _, h := range b.r.happenings {
		if h.kind == kindStep {
			steps = append(steps, view.Mark{T: b.t(h.at), Kind: view.MarkStep, Label: h.message})
		}
	}
	return steps
}

func (b *builder) nodes() []view.NodeLane {
	lanes := make([]view.NodeLane, 0, len(b.r.nodeOrder))
	for _, n := range b.r.nodeOrder {
		lane := view.NodeLane{Name: n.name, InstanceType: n.instanceType, Span: b.span(n.from, n.gone)}
		for _, t := range n.taints {
			to := t.to
			if to.IsZero() {
				to = n.gone
			}
			lane.Taints = append(lane.Taints, view.TaintSpan{Key: t.key, Effect: t.effect, Span: b.span(t.from, to)})
		}
		if !n.deleted.IsZero() {
			lane.Marks = append(lane.Marks, view.Mark{T: b.t(n.deleted), Kind: view.MarkDeletion, Label: "deletion asked for"})
		}
		for _, p := range b.r.podOrder {
			if p.node == n.name && len(p.phases) > 0 {
				lane.Pods = append(lane.Pods, b.pod(p))
			}
		}
		lanes = append(lanes, lane)
	}
	return lanes
}

func (b *builder) pod(p *podTrack) view.PodBar {
	bar := view.PodBar{Name: p.name, Workload: p.workload}
	for i, phase := range p.phases {
		to := p.gone
		if i+1 < len(p.phases) {
			to = p.phases[i+1].from
		}
		bar.Phases = append(bar.Phases, view.PhaseSpan{Phase: phase.phase, Span: b.span(phase.from, to)})
	}
	marks := slices.Clone(p.marks)
	slices.SortStableFunc(marks, func(x, y markTime) int { return x.at.Compare(y.at) })
	for _, m := range marks {
		bar.Marks = append(bar.Marks, view.Mark{T: b.t(m.at), Kind: m.kind, Label: m.label})
	}
	return bar
}

func (b *builder) services() []view.ServiceSeries {
	series := make([]view.ServiceSeries, 0, len(b.r.services))
	for name, s := range b.r.services {
		line := view.ServiceSeries{Name: name}
		for _, p := range s.points {
			line.Ready = append(line.Ready, view.ReadyPoint{T: b.t(p.at), Ready: p.ready})
		}
		series = append(series, line)
	}
	slices.SortFunc(series, func(x, y view.ServiceSeries) int { return cmp.Compare(x.Name, y.Name) })
	return series
}

// requests counts the requests sent since `measure`.
func (b *builder) requests(sent []request) (view.Requests, []view.RequestFailure) {
	var count view.Requests
	failures := []view.RequestFailure{}
	for _, q := range sent {
		if q.at.Before(b.zero) || q.at.After(b.end) {
			continue
		}
		count.Total++
		if q.failed {
			count.Failed++
			failures = append(failures, view.RequestFailure{T: b.t(q.at), Service: q.service, Cause: q.cause})
		}
	}
	slices.SortStableFunc(failures, func(x, y view.RequestFailure) int { return cmp.Compare(x.T, y.T) })
	return count, failures
}
