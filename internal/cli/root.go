// Package cli holds the commands of the binary segue, a file each. A command parses and prints; it decides nothing and
// holds no client of its own.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	ExitSafe     = 0
	ExitFindings = 1
	ExitFailure  = 2
)

// New returns the root command, which writes results to out and everything else to errOut.
func New(out, errOut io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "segue",
		Short: "Node autoscaling that never hurts what runs on the nodes",
		Long: `Segue makes node autoscaling safe for what runs on the nodes: when a node is about to leave, every pod that its service
cannot spare is replaced on another node before it is let go.

Exit codes: 0 safe, 1 findings, 2 usage or failure.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetOut(out)
	root.SetErr(errOut)
	root.AddCommand(newOperatorCommand(), newVersionCommand(), newAuditCommand())
	return root
}

// Main runs the binary and returns its exit code.
func Main() int {
	root := New(os.Stdout, os.Stderr)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "segue:", err)
		var code exitError
		if errors.As(err, &code) {
			return code.code
		}
		return ExitFailure
	}
	return ExitSafe
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}
