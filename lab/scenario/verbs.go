package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// verb is a word that a step of the script may begin with.
type verb struct {
	name  string
	usage string
	// parse returns the step's action, or nil when the line is a declaration.
	parse func(p *parser, a args) (Action, error)
}

// verbs is the complete list, in the order of the documentation.
var verbs []verb

func init() { // not in the declaration, because the parsers refer to the list
	verbs = []verb{
		{"karpenter", "karpenter", parseKarpenter},
		{"node", "node NAME… [cpu=8] [memory=32Gi]", parseNode},
		{"apply", "apply FILE", parseApply},
		{"delete", "delete KIND/NAME", parseDelete},
		{"scale", "scale KIND/NAME REPLICAS", parseScale},
		{"let", "let NAME = node|pod of KIND/NAME", parseLet},
		{"wait", "wait " + strings.Join(conditionNames(), "|") + " … [within 60s]", parseWait},
		{"load", "load SERVICE [rate=50] [path=/]", parseLoad},
		{"measure", "measure", parseMeasure},
		{"drain", "drain NODE [timeout=60s]", parseDrain},
		{"kill", "kill COMPONENT", parseKill},
		{"restart", "restart COMPONENT", parseRestart},
		{"observe", "observe TIME", parseObserve},
	}
}

func verbNames() string {
	names := make([]string, len(verbs))
	for i, v := range verbs {
		names[i] = v.name
	}
	return strings.Join(names, ", ")
}

func parseKarpenter(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(0, 0), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	if len(p.s.Steps) > 0 {
		return nil, errors.New("comes before the first step: the lab is started with it")
	}
	p.s.Karpenter = true
	return nil, nil
}

type loadAction struct {
	service string
	rate    int
	path    string
}

const defaultRate = 50 // requests a second

func parseLoad(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(1, 1, "rate", "path"), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	load := loadAction{service: a.words[0], rate: defaultRate, path: "/"}
	if s, ok := a.options["rate"]; ok {
		n, err := parseCount(s)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("rate=%s is not a number of requests a second", s)
		}
		load.rate = n
	}
	if s, ok := a.options["path"]; ok {
		if !strings.HasPrefix(s, "/") {
			return nil, fmt.Errorf("path=%s does not begin with /", s)
		}
		load.path = s
	}
	p.s.HasLoad = true
	return load, nil
}

func (l loadAction) Do(ctx context.Context, w *World) error {
	return w.Traffic.Load(ctx, l.service, l.rate, l.path)
}

type measureAction struct{}

func parseMeasure(p *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(0, 0), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	if p.measured {
		return nil, errors.New("is there twice")
	}
	p.measured = true
	return measureAction{}, nil
}

func (measureAction) Do(_ context.Context, w *World) error {
	w.Observer.Measure()
	return nil
}

// observeAction lets time pass while the load goes on. It never stands for a condition: what can be waited for is
// waited for.
type observeAction struct{ d time.Duration }

func parseObserve(_ *parser, a args) (Action, error) {
	if err := errors.Join(a.expect(1, 1), a.expectNoDeadline()); err != nil {
		return nil, err
	}
	d, err := parseDuration(a.words[0])
	return observeAction{d}, err
}

func (o observeAction) Do(ctx context.Context, _ *World) error {
	timer := time.NewTimer(o.d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// components are what faults can hit: those of package controlplane, and Segue's operator.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "karpenter", "segue"}

func parseComponent(a args) (string, error) {
	if err := errors.Join(a.expect(1, 1), a.expectNoDeadline()); err != nil {
		return "", err
	}
	if !slices.Contains(components, a.words[0]) {
		return "", fmt.Errorf("unknown component %q (%s)", a.words[0], strings.Join(components, ", "))
	}
	return a.words[0], nil
}

type killAction struct{ component string }

func parseKill(_ *parser, a args) (Action, error) {
	component, err := parseComponent(a)
	return killAction{component}, err
}

func (k killAction) Do(_ context.Context, w *World) error { return w.Faults.Kill(k.component) }

type restartAction struct{ component string }

func parseRestart(_ *parser, a args) (Action, error) {
	component, err := parseComponent(a)
	return restartAction{component}, err
}

func (r restartAction) Do(ctx context.Context, w *World) error {
	return w.Faults.Restart(ctx, r.component)
}
