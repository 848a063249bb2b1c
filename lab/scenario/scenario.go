// Package scenario reads rehearsal scenarios and carries out their steps on a cluster.
//
// A scenario is one txtar file: the part before the first file is the script, one step a line; the files after it are
// the manifests that the script applies, and the file `expect` holds the expectations. Everything that can be wrong in
// a file is found by Parse, with file and line, before anything is started. docs/scenarios.md describes the verbs.
//
// The package neither starts a control plane nor measures anything: it is told by a World where to act, and tells it
// what it did. It never judges an expectation.
package scenario

import (
	"context"
	"fmt"
	"strings"

	"github.com/segue-dev/segue/internal/view"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ExpectFile is the name of the file of a scenario that holds its expectations.
const ExpectFile = "expect"

// Scenario is one parsed scenario file.
type Scenario struct {
	// Name is the file's base name without `.txtar`; it is also the namespace that the scenario plays in.
	Name string
	// File is the path as it was given, for messages.
	File string
	// Title is one sentence that says what the scenario plays.
	Title string
	// Karpenter says that the scenario needs the real Karpenter.
	Karpenter bool
	// HasLoad says that the script sends requests, so that a run without any proves nothing.
	HasLoad bool
	// Steps are the script's steps in their order.
	Steps []Step
	// Manifests are the objects of the files, by file name.
	Manifests map[string][]Manifest
	// Expectations are the lines of the file `expect`.
	Expectations []Expectation
}

// Step is one line of the script.
type Step struct {
	// Line is the line in the scenario file, from 1.
	Line int
	// Text is the step as it was written, without its mode and comment.
	Text string
	// Mode restricts the step to runs in that mode; empty means every run.
	Mode view.Mode
	// Action is what the step does.
	Action Action
}

// Action is the work of a step. Do returns when the work is done; it returns a *Missed when a condition was not reached
// in time, and any other error when the step could not be carried out.
type Action interface {
	Do(ctx context.Context, w *World) error
}

// Manifest is one object of a scenario's files.
type Manifest struct {
	// Line is the line in the scenario file at which the object begins.
	Line   int
	Object *unstructured.Unstructured
}

// Error is a mistake in a scenario file.
type Error struct {
	File string
	Line int
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Errors are all mistakes of one scenario file, in the order of their lines; it is never empty.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// StepError says which step failed and why.
type StepError struct {
	File string
	Step Step
	Err  error
}

func (e *StepError) Error() string {
	if located, ok := e.Err.(*Error); ok { // the error names its own line, that of a manifest
		return located.Error()
	}
	return fmt.Sprintf("%s:%d: %s: %v", e.File, e.Step.Line, e.Step.Text, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// Run carries out the steps that are meant for the World's mode, in their order, and stops at the first that fails. Its
// error is a *StepError, or the context's cause when the context ended first. Before each step it calls onStep, which
// may be nil.
func (s *Scenario) Run(ctx context.Context, w *World, onStep func(Step)) error {
	w.scenario = s
	for _, step := range s.Steps {
		if step.Mode != "" && step.Mode != w.Mode {
			continue
		}
		if onStep != nil {
			onStep(step)
		}
		err := step.Action.Do(ctx, w)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return &StepError{File: s.File, Step: step, Err: err}
		}
	}
	return nil
}
