package rehearse

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/segue-dev/segue/lab/controlplane"
)

// Lab is a control plane that scenarios are rehearsed on.
type Lab struct {
	cp        *controlplane.ControlPlane
	evictions *evictionLog
}

// LabOptions is how a Lab is started.
type LabOptions struct {
	// Karpenter starts the real Karpenter with the lab's instance types lab.2x, lab.4x and lab.8x.
	Karpenter bool
	// FastClock shortens Karpenter's waits; figures that are quoted anywhere use the stock clock.
	FastClock bool
	// Progress receives one line a step; nil is silent.
	Progress io.Writer
}

// StartLab starts a control plane whose answers to evictions are recorded. When it fails nothing is left behind.
func StartLab(ctx context.Context, o LabOptions) (*Lab, error) {
	evictions, err := newEvictionLog()
	if err != nil {
		return nil, err
	}
	options := controlplane.Options{
		ExtraArgs: map[string][]string{controlplane.APIServer: evictions.args()},
		Progress:  o.Progress,
	}
	if o.Karpenter {
		options.Karpenter = &controlplane.KarpenterOptions{FastClock: o.FastClock}
	}
	cp, err := controlplane.Start(ctx, options)
	if err != nil {
		return nil, errors.Join(err, evictions.remove())
	}
	return &Lab{cp: cp, evictions: evictions}, nil
}

// ControlPlane is the lab's control plane.
func (l *Lab) ControlPlane() *controlplane.ControlPlane { return l.cp }

// Stop ends the control plane and removes what it wrote.
func (l *Lab) Stop() error {
	if err := errors.Join(l.cp.Stop(), l.evictions.remove()); err != nil {
		return fmt.Errorf("stop the lab: %w", err)
	}
	return nil
}

// Operator is a running Segue.
type Operator interface {
	// Died receives once, when the operator ends unasked.
	Died() <-chan error
	// Kill ends it with SIGKILL, for good unless Restart follows. That is asked for, so it is no death.
	Kill() error
	// Restart ends it, if it still runs, starts it again and returns when it is ready.
	Restart(ctx context.Context) error
	// Stop ends it and removes what makes the API server ask it.
	Stop() error
}

// Installer installs Segue on a control plane and returns when it guards the namespaces that are protected.
type Installer func(ctx context.Context, cp *controlplane.ControlPlane) (Operator, error)
