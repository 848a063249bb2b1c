package play

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// listenRetry is when a pod tries again to listen after it could not.
const listenRetry = time.Second

// actor plays one pod from the moment it is seen on its node until it is gone: it moves the life on, makes the servers
// follow it, and tells the reporter what to write.
type actor struct {
	log       *slog.Logger
	addresses *addresses
	reporter  *reporter
	name      string
	at        place
	behaviour Behaviour
	// broken says why the pod cannot be played, nil if it can; then life is nil.
	broken  error
	life    *life
	ports   map[string][]int32
	servers map[string]*server

	requests, cut atomic.Int64
	wake          chan struct{}

	mu   sync.Mutex
	seen sighting
}

// sighting is what the cluster shows of the pod.
type sighting struct {
	pod *corev1.Pod
	// gone says that the pod no longer exists in the API server; pod is its last version.
	gone bool
	// lost says that nothing of the pod runs any more, because its node is gone or an earlier player has ended it: only
	// the deletion of its object is left.
	lost bool
}

// newActor prepares the pod to be played at the place. A pod that runs already, because the player was restarted, goes
// on where it was, as it does when a kubelet is restarted.
func newActor(client kubernetes.Interface, log *slog.Logger, addrs *addresses, pod *corev1.Pod, at place) *actor {
	log = log.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID)
	a := &actor{
		log: log, addresses: addrs, reporter: newReporter(client, log, pod), name: pod.Name, at: at,
		servers: map[string]*server{}, wake: make(chan struct{}, 1), seen: sighting{pod: pod},
	}
	if a.behaviour, a.broken = ParseBehaviour(pod.Annotations); a.broken != nil {
		log.Error("pod cannot be played", "error", a.broken)
		return a
	}
	begun := time.Now()
	if pod.Status.Phase == corev1.PodRunning && pod.Status.StartTime != nil {
		begun = pod.Status.StartTime.Time
	}
	a.life, a.ports = newLife(pod, a.behaviour, begun), portsOf(pod)
	for name := range a.ports {
		a.servers[name] = newServer(a, a.poke)
	}
	for _, c := range pod.Spec.Containers {
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep == nil {
			log.Info("preStop hook is not a sleep: played as one that ends at once", "container", c.Name)
		}
	}
	return a
}

// portsOf returns the TCP ports of the containers that serve. If none declares one, the first container serves every
// port, written as 0.
func portsOf(pod *corev1.Pod) map[string][]int32 {
	ports := map[string][]int32{}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Protocol == corev1.ProtocolTCP || p.Protocol == "" {
				ports[c.Name] = append(ports[c.Name], p.ContainerPort)
			}
		}
	}
	if len(ports) == 0 {
		ports[pod.Spec.Containers[0].Name] = []int32{0}
	}
	return ports
}

// show tells the actor what the cluster shows now.
func (a *actor) show(change func(*sighting)) {
	a.mu.Lock()
	change(&a.seen)
	pod := a.seen.pod
	a.mu.Unlock()
	a.reporter.seen(pod)
	a.poke()
}

func (a *actor) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run plays the pod until it is gone or the context ends; then nothing of it is left on this machine.
func (a *actor) run(ctx context.Context) {
	writes, stop := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { a.reporter.run(writes) })
	defer func() {
		a.killAll()
		stop()
		reporting.Wait()
	}()
	for ctx.Err() == nil {
		a.mu.Lock()
		seen := a.seen
		a.mu.Unlock()
		wake, done := a.advance(seen)
		if done {
			return
		}
		a.wait(ctx, wake)
	}
}

// wait returns when the actor is poked, the time has come (zero: never) or the context ends.
func (a *actor) wait(ctx context.Context, until time.Time) {
	var due <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-a.wake:
	case <-due:
	}
}

// advance does what is due and returns when it must be called again at the latest; done says that the pod is over.
func (a *actor) advance(seen sighting) (wake time.Time, done bool) {
	now := time.Now()
	switch {
	case seen.lost:
		// If the machine is gone, so is every connection. The object goes at once too: the garbage collector's 40 s of
		// quarantine guard against a view of the nodes that lags, which is no danger here.
		a.killAll()
		a.reporter.set(nil, true)
		return time.Time{}, seen.gone
	case a.broken != nil:
		status := brokenStatus(seen.pod, a.broken, now)
		a.reporter.set(&status, seen.pod.DeletionTimestamp != nil)
		return time.Time{}, seen.gone
	}
	a.mu.Lock()
	if grace, asked := graceOf(seen); asked {
		a.life.stop(now, grace)
	}
	wake = a.life.step(now, a.busy)
	a.mu.Unlock()
	err := a.follow()
	switch {
	case seen.gone:
		return wake, a.life.over()
	case err != nil:
		// What was reported last stands: it runs and is not ready.
		a.log.Error("pod cannot listen, trying again", "in", listenRetry, "error", err)
		return now.Add(listenRetry), false
	}
	status := statusAt(seen.pod, a.life, a.at, now)
	a.reporter.set(&status, a.life.over())
	return wake, false
}

// graceOf returns the time that the pod has to stop, and whether it has to. A deletion by force shows up as a grace
// period of 0 just before the pod is gone; of a pod that vanishes without a word a kubelet takes the spec's.
func graceOf(seen sighting) (time.Duration, bool) {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if spec := seen.pod.Spec.TerminationGracePeriodSeconds; spec != nil {
		seconds = *spec
	}
	if asked := seen.pod.DeletionGracePeriodSeconds; asked != nil {
		seconds = *asked
	}
	return time.Duration(seconds) * time.Second, seen.gone || seen.pod.DeletionTimestamp != nil
}

// follow makes the servers do what the life says. The error says that a container cannot listen.
func (a *actor) follow() error {
	var errs []error
	for _, c := range a.life.containers {
		s, serves := a.servers[c.name]
		if !serves {
			continue
		}
		switch c.mode {
		case modeServing:
			if s.listening() {
				continue
			}
			r, err := s.listen(a.ports[c.name])
			if err != nil {
				errs = append(errs, fmt.Errorf("container %q: %w", c.name, err))
				continue
			}
			a.addresses.set(a.at.podIP, r)
		case modeDraining:
			a.addresses.unset(a.at.podIP, a.ports[c.name])
			s.stopAccepting()
		case modeExited:
			a.end(s, a.ports[c.name])
		}
	}
	return errors.Join(errs...)
}

// busy says whether the container has open requests.
func (a *actor) busy(container string) bool {
	s, serves := a.servers[container]
	return serves && s.open() > 0
}

func (a *actor) killAll() {
	for name, s := range a.servers {
		a.end(s, a.ports[name])
	}
}

// end ends a server; requests that still run are cut off and counted.
func (a *actor) end(s *server, ports []int32) {
	a.addresses.unset(a.at.podIP, ports)
	a.cut.Add(int64(s.kill()))
}

// ServeHTTP answers a request as the pod's application: after the request duration, with the pod's name.
func (a *actor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	work := time.NewTimer(a.behaviour.RequestDuration)
	defer work.Stop()
	select {
	case <-work.C:
	case <-r.Context().Done():
		return
	}
	a.requests.Add(1)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, a.name) // the client that went away counts its own failure
}

// info returns what Pods shows of this pod.
func (a *actor) info() PodInfo {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod := a.seen.pod
	i := PodInfo{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, IP: a.at.podIP,
		Requests: a.requests.Load(), Cut: a.cut.Load(),
	}
	for _, s := range a.servers {
		i.Open += s.open()
	}
	if a.life != nil {
		i.State, i.Stopping = string(a.life.containers[0].mode), !a.life.stopSeen.IsZero()
	}
	return i
}
