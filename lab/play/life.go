package play

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// minimumStop is the time that a container gets between SIGTERM and SIGKILL even if its preStop hook used up the whole
// grace period; it mirrors minimumGracePeriodInSeconds of pkg/kubelet/kuberuntime/kuberuntime_manager.go.
const minimumStop = 2 * time.Second

// exitKilled is the exit code of a process that was ended by SIGKILL.
const exitKilled = 137

// mode is what a container does with requests.
type mode string

const (
	// modeStarting runs, but nothing listens yet.
	modeStarting mode = "starting"
	// modeServing accepts requests.
	modeServing mode = "serving"
	// modeDraining accepts no more and finishes the requests that run.
	modeDraining mode = "draining"
	// modeExited has ended.
	modeExited mode = "exited"
)

// container is what becomes of one container. Zero times have not happened yet.
type container struct {
	name string
	// preStop is the length of the sleep hook, 0 if there is none.
	preStop time.Duration
	// probeLag is the time until a readiness probe has noticed that nothing listens any more, 0 if there is no probe.
	probeLag time.Duration

	mode     mode
	termed   time.Time // SIGTERM was delivered
	closed   time.Time // stopped accepting
	exited   time.Time
	exitCode int32
}

// life is the state machine of one served pod: it knows when which container serves, gets SIGTERM, is killed, and is
// ready. It holds no clock and does no I/O: step moves it on, and the caller makes the servers follow the modes.
type life struct {
	behaviour Behaviour
	// begun is when the containers started.
	begun time.Time
	// stopSeen is when the kubelet saw that the pod has to stop, or stop sooner; zero as long as it need not.
	stopSeen time.Time
	// grace is the time that the pod gets to stop, hooks included, counted from stopSeen.
	grace      time.Duration
	containers []*container
}

// newLife returns the life of a pod whose containers started at begun.
func newLife(pod *corev1.Pod, b Behaviour, begun time.Time) *life {
	l := &life{behaviour: b, begun: begun}
	for i := range pod.Spec.Containers {
		spec := &pod.Spec.Containers[i]
		c := &container{name: spec.Name, mode: modeStarting}
		if spec.Lifecycle != nil && spec.Lifecycle.PreStop != nil && spec.Lifecycle.PreStop.Sleep != nil {
			c.preStop = time.Duration(spec.Lifecycle.PreStop.Sleep.Seconds) * time.Second
		}
		if probe := spec.ReadinessProbe; probe != nil {
			c.probeLag = time.Duration(max(probe.PeriodSeconds, 1)*max(probe.FailureThreshold, 1)) * time.Second
		}
		l.containers = append(l.containers, c)
	}
	return l
}

// stop tells the pod to stop within the grace period. As with a kubelet (calculateEffectiveGracePeriod of
// pkg/kubelet/pod_workers.go) a later call can only shorten the time, which then counts from that call, and the hooks
// run anew; the grace period is at least one second.
func (l *life) stop(now time.Time, grace time.Duration) {
	grace = max(grace, time.Second)
	if !l.stopSeen.IsZero() && grace >= l.grace {
		return
	}
	l.stopSeen, l.grace = now, grace
}

// step moves the pod on to now and returns when to call it again at the latest; zero means not before something else
// happens. A step that returns now has changed a mode that the caller must apply before it asks busy again. busy says
// whether a container has open requests; it is asked once a container has stopped accepting.
func (l *life) step(now time.Time, busy func(container string) bool) time.Time {
	var wake time.Time
	for _, c := range l.containers {
		before := c.mode
		l.advance(c, now, busy)
		if c.mode != before && c.mode != modeExited {
			return now
		}
		if next := l.next(c, now); wake.IsZero() || (!next.IsZero() && next.Before(wake)) {
			wake = next
		}
	}
	return wake
}

// advance moves one container on to now, by at most one mode.
func (l *life) advance(c *container, now time.Time, busy func(string) bool) {
	if c.mode == modeExited {
		return
	}
	stopping := !l.stopSeen.IsZero()
	term, kill := l.deadlines(c)
	if stopping && c.termed.IsZero() && !now.Before(term) {
		c.termed = now
	}
	switch done := c.termed.Add(l.behaviour.StopDelay); {
	case l.obeys(c) && c.mode == modeServing:
		if l.behaviour.OnTerm == Close || !now.Before(done) {
			c.mode, c.closed = modeDraining, now
		}
	case l.obeys(c):
		if !now.Before(done) && !busy(c.name) {
			c.mode, c.exited = modeExited, now
		}
	case c.mode == modeStarting && !now.Before(l.begun.Add(l.behaviour.StartDelay)):
		c.mode = modeServing
	}
	if stopping && c.mode != modeExited && !now.Before(kill) {
		c.mode, c.exited, c.exitCode = modeExited, now, exitKilled
	}
}

// obeys says whether the container is shutting down by itself.
func (l *life) obeys(c *container) bool {
	return !c.termed.IsZero() && l.behaviour.OnTerm != Ignore
}

// deadlines returns when the container gets SIGTERM and SIGKILL. It mirrors killContainer of
// pkg/kubelet/kuberuntime/kuberuntime_container.go: the hook's time, in whole seconds, is taken off the grace period.
func (l *life) deadlines(c *container) (term, kill time.Time) {
	hook := min(c.preStop, l.grace)
	left := max(l.grace-hook.Truncate(time.Second), minimumStop)
	term = l.stopSeen.Add(hook)
	return term, term.Add(left)
}

// next returns the first moment after now at which time alone changes something for the container, or zero.
func (l *life) next(c *container, now time.Time) time.Time {
	if c.mode == modeExited {
		return time.Time{}
	}
	var moments []time.Time
	if c.mode == modeStarting {
		moments = append(moments, l.begun.Add(l.behaviour.StartDelay))
	}
	if !l.stopSeen.IsZero() {
		term, kill := l.deadlines(c)
		moments = append(moments, term, kill)
	}
	if !c.termed.IsZero() {
		moments = append(moments, c.termed.Add(l.behaviour.StopDelay))
	}
	if !c.closed.IsZero() {
		moments = append(moments, c.closed.Add(c.probeLag))
	}
	var first time.Time
	for _, m := range moments {
		if m.After(now) && (first.IsZero() || m.Before(first)) {
			first = m
		}
	}
	return first
}

// ready says whether the kubelet takes the container for ready at now. A container without a readiness probe is ready
// as long as it runs, also when it no longer accepts requests.
func (l *life) ready(c *container, now time.Time) bool {
	switch c.mode {
	case modeServing:
		return !l.behaviour.NeverReady
	case modeDraining:
		return !l.behaviour.NeverReady && (c.probeLag == 0 || now.Before(c.closed.Add(c.probeLag)))
	}
	return false
}

// over says whether every container has exited.
func (l *life) over() bool {
	for _, c := range l.containers {
		if c.mode != modeExited {
			return false
		}
	}
	return true
}
