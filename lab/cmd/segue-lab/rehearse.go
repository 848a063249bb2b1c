package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/install"
	"github.com/segue-dev/segue/lab/rehearse"
)

func newRehearseCommand() *cobra.Command {
	return rehearse.NewCommand(func(ctx context.Context, cp *controlplane.ControlPlane) (rehearse.Operator, error) {
		operator, err := install.Install(ctx, cp, install.Options{})
		if err != nil { // not a nil *Operator in the interface
			return nil, err
		}
		return operator, nil
	})
}
