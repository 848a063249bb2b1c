package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/internal/components"
)

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl [--dir DIR] ARGS...",
		Short: "Run kubectl against a lab",
		Long: `Runs the kubectl that is built into this binary against a lab: the one in --dir, which must come first; else the one
that the environment variable KUBECONFIG names; else the one that was started last and still runs.`,
		Example:            "  segue-lab kubectl get nodes\n  segue-lab kubectl --dir /tmp/mylab get pods -A",
		DisableFlagParsing: true, // all but --dir belong to kubectl
		RunE: func(_ *cobra.Command, args []string) error {
			dir, args, err := cutDir(args)
			if err != nil {
				return err
			}
			path := os.Getenv("KUBECONFIG")
			if dir != "" || path == "" {
				if path, err = controlplane.FindKubeconfig(dir); err != nil {
					return err
				}
			}
			return components.Kubectl(path, args)
		},
	}
}

// cutDir takes --dir off the front of args.
func cutDir(args []string) (dir string, rest []string, err error) {
	if len(args) == 0 {
		return "", args, nil
	}
	if value, ok := strings.CutPrefix(args[0], "--dir="); ok {
		return value, args[1:], nil
	}
	if args[0] != "--dir" {
		return "", args, nil
	}
	if len(args) < 2 {
		return "", nil, errors.New("--dir needs the state directory of a lab")
	}
	return args[1], args[2:], nil
}
