package rehearse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segue-dev/segue/internal/view"
	"github.com/segue-dev/segue/lab/scenario"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Options is how scenarios are rehearsed.
type Options struct {
	// Modes are the modes to run in, in this order; none means stock, then segue.
	Modes []view.Mode
	// Lab is a running lab to share, which is cleaned after every run; nil starts a new one for every run. A shared lab
	// must have Karpenter when the scenario needs it.
	Lab *Lab
	// FastClock shortens Karpenter's waits in the labs that are started.
	FastClock bool
	// Segue installs Segue for runs in mode segue.
	Segue Installer
	// Progress receives one line a step; nil is silent.
	Progress io.Writer
}

// Run rehearses a scenario in every mode and returns what was measured with its verdict. An error means that the
// scenario could not be run: a step that is wrong for this cluster (with file and line), or a part of the lab that died,
// by name. Expectations that are not met, and runs that prove nothing, are verdicts. Whatever happens, the labs that it
// started are stopped when it returns.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (view.Rehearsal, error) {
	if len(o.Modes) == 0 {
		o.Modes = []view.Mode{view.ModeStock, view.ModeSegue}
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	var outcomes []outcome
	for _, mode := range o.Modes {
		result, err := runMode(ctx, s, mode, o)
		if err != nil {
			var step *scenario.StepError
			if errors.As(err, &step) { // it names file and line
				return view.Rehearsal{}, err
			}
			return view.Rehearsal{}, fmt.Errorf("rehearse %s in mode %s: %w", s.Name, mode, err)
		}
		outcomes = append(outcomes, result)
	}
	return judge(s, outcomes), nil
}

// runMode makes the one run of a mode, on the shared lab or on one of its own.
func runMode(ctx context.Context, s *scenario.Scenario, mode view.Mode, o Options) (result outcome, err error) {
	if mode == view.ModeSegue && o.Segue == nil {
		return outcome{}, errors.New("nothing can install Segue here; rehearse in mode stock only")
	}
	lab := o.Lab
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(o.Progress, "%s %s %6.1fs  %s\n", s.Name, mode, time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if lab == nil {
		say("start the control plane")
		if lab, err = StartLab(ctx, LabOptions{Karpenter: s.Karpenter, FastClock: o.FastClock}); err != nil {
			return outcome{}, err
		}
		defer func() { err = orStop(err, lab.Stop) }()
	}
	ctx, end := context.WithCancelCause(ctx) // ends with the lab
	defer end(nil)
	go endWhen(ctx, lab.cp.Died(), end)
	r := &run{scenario: s, mode: mode, lab: lab, shared: o.Lab != nil, say: say}
	if r.shared {
		defer func() { err = orStop(err, func() error { return r.clean(ctx) }) }()
	}
	playing, endPlay := context.WithCancelCause(ctx) // ends with the lab or the operator
	defer endPlay(nil)
	if mode == view.ModeSegue {
		say("install Segue")
		if r.operator, err = o.Segue(ctx, lab.cp); err != nil {
			return outcome{}, orCause(ctx, err)
		}
		defer func() { err = orStop(err, r.operator.Stop) }()
		go endWhen(playing, r.operator.Died(), endPlay)
	}
	result, err = r.play(playing)
	return result, orCause(playing, err)
}

// orStop stops a part of the lab. How that went matters only when nothing went wrong before.
func orStop(err error, stop func() error) error {
	if stopErr := stop(); err == nil {
		return stopErr
	}
	return err
}

// endWhen ends a run with the error of a part that died.
func endWhen(ctx context.Context, died <-chan error, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case err := <-died:
		end(err)
	}
}

// deathNotice is how long the end of a component can take to be noticed after a request to it has failed.
const deathNotice = 2 * time.Second

// orCause prefers the reason why a run was ended over the error that followed from it. A request to a component that
// just died can fail before its end is noticed, so that it waits a moment for that, unless the API server gave an answer.
func orCause(ctx context.Context, err error) error {
	var answer apierrors.APIStatus
	var located *scenario.Error // a manifest was refused
	if err == nil || errors.As(err, &answer) || errors.As(err, &located) {
		return err
	}
	wait := time.NewTimer(deathNotice)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return err
	}
}
