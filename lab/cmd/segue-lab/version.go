package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// engines are the modules whose versions a user wants to know, with the names under which they know them.
var engines = []struct{ name, module string }{
	{"kubernetes", "k8s.io/kubernetes"},
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kwok", "sigs.k8s.io/kwok"},
	{"karpenter", "sigs.k8s.io/karpenter"},
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of what is built in",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("read the versions of what is built in: this binary was built without modules")
			}
			versions := map[string]string{}
			for _, dep := range info.Deps {
				versions[dep.Path] = dep.Version
			}
			out := cmd.OutOrStdout()
			fmt.Fprintln(out, "segue-lab", info.Main.Version)
			for _, e := range engines {
				fmt.Fprintln(out, e.name, versions[e.module])
			}
			return nil
		},
	}
}
