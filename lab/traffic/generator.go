package traffic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Defaults of GeneratorOptions.
const (
	defaultTimeout     = 5 * time.Second
	defaultMaxInFlight = 512
)

// Doer sends one request and returns what became of it. Balancer is one.
type Doer interface {
	Do(ctx context.Context, namespace, service, path string) Result
}

// GeneratorOptions say what a Generator sends.
type GeneratorOptions struct {
	// Namespace and Service are where requests go; the service may name a port, as in Balancer.Do. Required.
	Namespace, Service string
	// Path is the path of the requests. Default "/".
	Path string
	// Rate is the number of requests a second, above 0 and at most 10,000. Required.
	Rate float64
	// Timeout is the time after which a request has failed. Default 5s.
	Timeout time.Duration
	// MaxInFlight is the number of requests that may be open at once; one that comes on top is not sent and fails with
	// cause Saturated. Default 512.
	MaxInFlight int
}

// Generator sends requests at a fixed rate: request k is sent k/Rate seconds after the start, no matter how late earlier
// answers are. Its methods may be called from any goroutine.
type Generator struct {
	doer Doer
	o    GeneratorOptions
	stop chan struct{}
	done chan struct{}
	once sync.Once
	open chan struct{}

	mu      sync.Mutex
	started bool
	results []Result
	maxLate time.Duration
}

// Summary counts the requests of a Generator that have ended.
type Summary struct {
	Total, Failed int
	ByCause       map[Cause]int
	// MaxLate is how late the latest request was sent: large when the machine could not keep up with the rate.
	MaxLate time.Duration
}

// NewGenerator returns a Generator that has not started yet. The error says which option is wrong.
func NewGenerator(d Doer, o GeneratorOptions) (*Generator, error) {
	var errs []error
	if o.Namespace == "" || o.Service == "" {
		errs = append(errs, fmt.Errorf("namespace %q, service %q: both are required", o.Namespace, o.Service))
	}
	if !(o.Rate > 0 && o.Rate <= 10_000) {
		errs = append(errs, fmt.Errorf("rate %v: want more than 0 and at most 10000 requests a second", o.Rate))
	}
	if o.Timeout < 0 || o.MaxInFlight < 0 {
		errs = append(errs, fmt.Errorf("timeout %v, max in flight %d: want no negative values", o.Timeout, o.MaxInFlight))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("generate load: %w", errors.Join(errs...))
	}
	if o.Path == "" {
		o.Path = "/"
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = defaultMaxInFlight
	}
	return &Generator{
		doer: d, o: o, stop: make(chan struct{}), done: make(chan struct{}), open: make(chan struct{}, o.MaxInFlight),
	}, nil
}

// Start begins to send; a second call does nothing.
func (g *Generator) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.started {
		g.started = true
		go g.run()
	}
}

// Stop ends the sending and returns when every open request has ended, after the timeout at the latest. A Generator
// cannot be started again.
func (g *Generator) Stop() {
	g.mu.Lock()
	if !g.started {
		g.started = true // so that Start does nothing any more
		close(g.done)
	}
	g.mu.Unlock()
	g.once.Do(func() { close(g.stop) })
	<-g.done
}

// run sends requests until Stop, then waits for the open ones. A request whose time has passed already is sent at once:
// the number of requests depends on the time only.
func (g *Generator) run() {
	defer close(g.done)
	var open sync.WaitGroup
	defer open.Wait()
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := 0; ; k++ {
		due := start.Add(time.Duration(float64(k) / g.o.Rate * float64(time.Second)))
		timer.Reset(time.Until(due))
		select {
		case <-g.stop:
			return
		case <-timer.C:
		}
		g.noteLate(time.Since(due))
		select {
		case g.open <- struct{}{}:
			open.Go(g.send)
		default:
			g.record(Result{Sent: time.Now(), Cause: Saturated, Message: fmt.Sprintf("%d requests are open already", g.o.MaxInFlight)})
		}
	}
}

func (g *Generator) send() {
	defer func() { <-g.open }()
	ctx, cancel := context.WithTimeout(context.Background(), g.o.Timeout)
	defer cancel()
	g.record(g.doer.Do(ctx, g.o.Namespace, g.o.Service, g.o.Path))
}

func (g *Generator) record(r Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.results = append(g.results, r)
}

func (g *Generator) noteLate(late time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxLate = max(g.maxLate, late)
}

// Results returns the requests that have ended, in the order in which they were sent.
func (g *Generator) Results() []Result {
	g.mu.Lock()
	results := slices.Clone(g.results)
	g.mu.Unlock()
	slices.SortStableFunc(results, func(a, b Result) int { return a.Sent.Compare(b.Sent) })
	return results
}

// Summary counts the requests that have ended.
func (g *Generator) Summary() Summary {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Summary{Total: len(g.results), ByCause: map[Cause]int{}, MaxLate: g.maxLate}
	for _, r := range g.results {
		if r.Failed() {
			s.Failed++
			s.ByCause[r.Cause]++
		}
	}
	return s
}
