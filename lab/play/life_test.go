package play

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// zero is when the containers of every test start.
var zero = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// order is a deletion, or a second one with a shorter grace period.
type order struct {
	at, grace time.Duration
}

// script is one pod and what happens to it; times count from the start of its containers.
type script struct {
	behaviour Behaviour
	// preStop holds the hook of each container in seconds; one container without a hook if empty.
	preStop []int64
	probe   *corev1.Probe
	orders  []order
	// busyUntil is when the last open request has ended.
	busyUntil time.Duration
}

// play runs the script on a clock that jumps from one wake to the next, and returns the changes as lines
// "time container mode[ ready][ exit code]".
func (s script) play(t *testing.T) []string {
	t.Helper()
	pod := &corev1.Pod{}
	if len(s.preStop) == 0 {
		s.preStop = []int64{0}
	}
	for i, seconds := range s.preStop {
		c := corev1.Container{Name: fmt.Sprint("c", i), ReadinessProbe: s.probe}
		if seconds > 0 {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	l := newLife(pod, s.behaviour, zero)
	orders := s.orders
	last := map[string]string{}
	var lines []string
	for now, steps := zero, 0; ; steps++ {
		if steps > 100 {
			t.Fatalf("does not come to rest; so far %q", lines)
		}
		for len(orders) > 0 && !zero.Add(orders[0].at).After(now) {
			l.stop(now, orders[0].grace)
			orders = orders[1:]
		}
		wake := l.step(now, func(string) bool { return now.Before(zero.Add(s.busyUntil)) })
		for _, c := range l.containers {
			state := string(c.mode)
			if l.ready(c, now) {
				state += " ready"
			}
			if c.mode == modeExited {
				state += fmt.Sprint(" ", c.exitCode)
			}
			if state != last[c.name] {
				lines = append(lines, fmt.Sprint(now.Sub(zero), " ", c.name, " ", state))
			}
			last[c.name] = state
		}
		if l.over() {
			return lines
		}
		next := wake
		for _, at := range []time.Time{zero.Add(s.busyUntil), nextOrder(orders)} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() {
			return lines
		}
		now = next
	}
}

func nextOrder(orders []order) time.Time {
	if len(orders) == 0 {
		return time.Time{}
	}
	return zero.Add(orders[0].at)
}

func TestLife(t *testing.T) {
	const s = time.Second
	served := func(onTerm OnTerm, stopDelay time.Duration) Behaviour {
		return Behaviour{StartDelay: s, StopDelay: stopDelay, OnTerm: onTerm}
	}
	up := []string{"0s c0 starting", "1s c0 serving ready"}
	for name, test := range map[string]struct {
		script
		want []string
	}{
		"starts and serves": {script: script{behaviour: served(Finish, 0)}, want: up},
		"never ready": {
			script: script{behaviour: Behaviour{StartDelay: s, NeverReady: true, OnTerm: Finish}},
			want:   []string{"0s c0 starting", "1s c0 serving"},
		},
		"finish accepts until the stop delay is over": {
			script: script{behaviour: served(Finish, 3*s), orders: []order{{10 * s, 30 * s}}},
			want:   append(up[:2:2], "13s c0 draining ready", "13s c0 exited 0"),
		},
		"finish waits for open requests": {
			script: script{behaviour: served(Finish, 3*s), orders: []order{{10 * s, 30 * s}}, busyUntil: 20 * s},
			want:   append(up[:2:2], "13s c0 draining ready", "20s c0 exited 0"),
		},
		"finish is killed with requests open": {
			script: script{behaviour: served(Finish, 0), orders: []order{{10 * s, 5 * s}}, busyUntil: 60 * s},
			want:   append(up[:2:2], "10s c0 draining ready", "15s c0 exited 137"),
		},
		"close stops accepting at once": {
			script: script{behaviour: served(Close, 3*s), orders: []order{{10 * s, 30 * s}}},
			want:   append(up[:2:2], "10s c0 draining ready", "13s c0 exited 0"),
		},
		"ignore is killed at the end of the grace period": {
			script: script{behaviour: served(Ignore, 0), orders: []order{{10 * s, 30 * s}}},
			want:   append(up[:2:2], "40s c0 exited 137"),
		},
		"preStop comes before SIGTERM and counts": {
			script: script{behaviour: served(Close, 60*s), preStop: []int64{4}, orders: []order{{10 * s, 30 * s}}},
			want:   append(up[:2:2], "14s c0 draining ready", "40s c0 exited 137"),
		},
		"preStop that takes all leaves two seconds": {
			script: script{behaviour: served(Ignore, 0), preStop: []int64{90}, orders: []order{{10 * s, 30 * s}}},
			want:   append(up[:2:2], "42s c0 exited 137"),
		},
		"two seconds are the least": {
			script: script{behaviour: served(Ignore, 0), orders: []order{{10 * s, 1 * s}}},
			want:   append(up[:2:2], "12s c0 exited 137"),
		},
		"a second deletion shortens the grace period from then on": {
			script: script{behaviour: served(Ignore, 0), orders: []order{{10 * s, 60 * s}, {15 * s, 5 * s}}},
			want:   append(up[:2:2], "20s c0 exited 137"),
		},
		"a second deletion never lengthens it": {
			script: script{behaviour: served(Ignore, 0), orders: []order{{10 * s, 5 * s}, {12 * s, 60 * s}}},
			want:   append(up[:2:2], "15s c0 exited 137"),
		},
		"a second deletion runs the hook again and cuts it short": {
			script: script{behaviour: served(Close, 0), preStop: []int64{50}, orders: []order{{10 * s, 60 * s}, {15 * s, 5 * s}}},
			want:   append(up[:2:2], "20s c0 draining ready", "20s c0 exited 0"),
		},
		"stopped before it has started": {
			script: script{behaviour: served(Finish, 0), orders: []order{{s / 2, 30 * s}}},
			want:   []string{"0s c0 starting", "500ms c0 exited 0"},
		},
		"starts while the hook runs": {
			script: script{behaviour: served(Finish, 0), preStop: []int64{5}, orders: []order{{0, 30 * s}}},
			want:   append(up[:2:2], "5s c0 draining ready", "5s c0 exited 0"),
		},
		"a readiness probe notices that nothing listens": {
			script: script{
				behaviour: served(Close, 20*s), orders: []order{{10 * s, 30 * s}},
				probe: &corev1.Probe{PeriodSeconds: 2, FailureThreshold: 3},
			},
			want: append(up[:2:2], "10s c0 draining ready", "16s c0 draining", "30s c0 exited 0"),
		},
		"containers stop each in its own time": {
			script: script{behaviour: served(Close, s), preStop: []int64{0, 5}, orders: []order{{10 * s, 30 * s}}},
			want: []string{
				"0s c0 starting", "0s c1 starting", "1s c0 serving ready", "1s c1 serving ready",
				"10s c0 draining ready", "11s c0 exited 0", "15s c1 draining ready", "16s c1 exited 0",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.play(t)); diff != "" {
				t.Errorf("what becomes of the pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLifeLate shows that a step that comes late, on a busy machine, still ends a pod by itself if it could.
func TestLifeLate(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	l := newLife(pod, Behaviour{StartDelay: time.Second, OnTerm: Finish}, zero)
	idle := func(string) bool { return false }
	l.step(zero.Add(10*time.Second), idle)
	l.stop(zero.Add(10*time.Second), 2*time.Second)
	late := zero.Add(11900 * time.Millisecond)
	for range 3 {
		l.step(late, idle)
	}
	if c := l.containers[0]; c.mode != modeExited || c.exitCode != 0 {
		t.Errorf("container is %s with exit code %d, want exited with 0", c.mode, c.exitCode)
	}
}
