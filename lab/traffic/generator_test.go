package traffic

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// doer answers when answer returns.
type doer func(ctx context.Context) Cause

func (d doer) Do(ctx context.Context, _, _, _ string) Result {
	r := Result{Sent: time.Now()}
	r.Cause = d(ctx)
	r.Duration = time.Since(r.Sent)
	return r
}

func start(t *testing.T, d Doer, o GeneratorOptions) *Generator {
	t.Helper()
	o.Namespace, o.Service = "shop", "web"
	g, err := NewGenerator(d, o)
	if err != nil {
		t.Fatal(err)
	}
	g.Start()
	g.Start() // does nothing
	t.Cleanup(g.Stop)
	return g
}

func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}

// TestGeneratorIsOpenLoop shows that requests that are not answered do not keep others from being sent.
func TestGeneratorIsOpenLoop(t *testing.T) {
	var sent atomic.Int32
	letGo := make(chan struct{})
	g := start(t, doer(func(context.Context) Cause { sent.Add(1); <-letGo; return "" }), GeneratorOptions{Rate: 1000})
	answer := sync.OnceFunc(func() { close(letGo) })
	t.Cleanup(answer) // else a failure would hang in Stop
	eventually(t, "100 requests sent, none answered", func() bool { return sent.Load() >= 100 })
	if s := g.Summary(); s.Total != 0 {
		t.Errorf("%d requests have ended before an answer", s.Total)
	}
	answer()
	g.Stop()
	if s := g.Summary(); s.Total != int(sent.Load()) || s.Failed != 0 {
		t.Errorf("%d requests recorded, %d failed, %d sent; want all and none failed", s.Total, s.Failed, sent.Load())
	}
}

// TestGeneratorKeepsItsRate shows that the number of requests follows from the time alone.
func TestGeneratorKeepsItsRate(t *testing.T) {
	const rate = 200
	g := start(t, doer(func(context.Context) Cause { return "" }), GeneratorOptions{Rate: rate})
	eventually(t, "100 requests", func() bool { return g.Summary().Total >= 100 })
	g.Stop()
	results := g.Results()
	took := results[len(results)-1].Sent.Sub(results[0].Sent).Seconds()
	// Only late sending, which a busy machine causes and MaxLate reports, may make the time differ.
	if want, slack := float64(len(results)-1)/rate, g.Summary().MaxLate.Seconds()+0.05; math.Abs(took-want) > slack {
		t.Errorf("%d requests took %.3fs, want %.3fs give or take %.3fs", len(results), took, want, slack)
	}
}

func TestGeneratorRecordsSaturation(t *testing.T) {
	letGo := make(chan struct{})
	g := start(t, doer(func(context.Context) Cause { <-letGo; return "" }), GeneratorOptions{Rate: 1000, MaxInFlight: 3})
	answer := sync.OnceFunc(func() { close(letGo) })
	t.Cleanup(answer)
	eventually(t, "5 requests that were not sent", func() bool { return g.Summary().ByCause[Saturated] >= 5 })
	answer()
	g.Stop()
	s := g.Summary()
	if s.Failed != s.ByCause[Saturated] || s.Total-s.Failed < 3 {
		t.Errorf("summary %+v; want 3 or more answered, and no other failure than saturation", s)
	}
}

func TestGeneratorTimesOut(t *testing.T) {
	g := start(t, doer(func(ctx context.Context) Cause { <-ctx.Done(); return causeOf(ctx.Err()) }),
		GeneratorOptions{Rate: 100, Timeout: 20 * time.Millisecond})
	eventually(t, "a request that timed out", func() bool { return g.Summary().ByCause[Timeout] > 0 })
}

func TestGeneratorStop(t *testing.T) {
	g, err := NewGenerator(doer(func(context.Context) Cause { return "" }), GeneratorOptions{Namespace: "shop", Service: "web", Rate: 1000})
	if err != nil {
		t.Fatal(err)
	}
	g.Stop()
	g.Stop()
	g.Start()
	if s := g.Summary(); s.Total != 0 {
		t.Errorf("%d requests after Stop", s.Total)
	}
}

func TestGeneratorRefuses(t *testing.T) {
	ok := GeneratorOptions{Namespace: "shop", Service: "web", Rate: 1}
	for want, change := range map[string]func(*GeneratorOptions){
		"rate":          func(o *GeneratorOptions) { o.Rate = 0 },
		"rate NaN":      func(o *GeneratorOptions) { o.Rate = math.NaN() },
		"rate 20000":    func(o *GeneratorOptions) { o.Rate = 20000 },
		"namespace":     func(o *GeneratorOptions) { o.Namespace = "" },
		"timeout":       func(o *GeneratorOptions) { o.Timeout = -1 },
		"max in flight": func(o *GeneratorOptions) { o.MaxInFlight = -1 },
	} {
		o := ok
		change(&o)
		if _, err := NewGenerator(nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one about %s", err, want)
		}
	}
}
