package main

import (
	"github.com/spf13/cobra"

	"github.com/segue-dev/segue/lab/internal/components"
)

// newComponentCommand is the main function of the lab's child processes.
func newComponentCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "component NAME",
		Hidden:             true,
		DisableFlagParsing: true, // they belong to the component
		RunE: func(_ *cobra.Command, args []string) error {
			return components.Run(args)
		},
	}
}
