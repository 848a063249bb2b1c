// Command segue-lab runs a real Kubernetes control plane on loopback, with KWOK nodes and the real Karpenter, and
// rehearses scenarios on it. This file only gathers the commands; each has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitFailure is the exit code for usage errors and failures; 1 is for findings.
const exitFailure = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRootCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "segue-lab:", err)
	code := exitFailure
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		code = coded.ExitCode()
	}
	os.Exit(code)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "segue-lab",
		Short:         "A real Kubernetes control plane in one command, for rehearsals and tests",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newUpCommand(),
		newKubectlCommand(),
		newRehearseCommand(),
		newVersionCommand(),
		newComponentCommand(),
	)
	return root
}
