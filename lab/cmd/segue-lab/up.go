package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/segue-dev/segue/lab/controlplane"
	"github.com/segue-dev/segue/lab/internal/starter"
	"github.com/segue-dev/segue/lab/play"
)

// upOptions are the flags of segue-lab up.
type upOptions struct {
	lab       controlplane.Options
	karpenter bool
	fastClock bool
	types     string
	nodes     int
	extraArgs []string
}

func newUpCommand() *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane and keep it until Ctrl-C",
		Long: `Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK, with --karpenter also the real Karpenter
with its KWOK provider, on loopback and as child processes. Prints the kubeconfig when all are ready and ends them, and
removes their state, on Ctrl-C. Several labs can run side by side.

There are KWOK nodes to begin with, with --karpenter a NodePool named default instead. Pods are played. Those with the
annotation lab.segue.dev/serve: "true" answer real HTTP on loopback.

Exit codes: 0 ended by Ctrl-C or SIGTERM, 2 could not start or a component ended by itself.`,
		Example: "  segue-lab up --karpenter\n  segue-lab kubectl get nodes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := o.resolve()
			if err != nil {
				return err
			}
			options.Progress = cmd.ErrOrStderr()
			return runUp(cmd, options, o.nodes)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.karpenter, "karpenter", false, "run the real Karpenter with its KWOK provider")
	flags.BoolVar(&o.fastClock, "fast-clock", false, "shorten Karpenter's batching and the 15 s validation of a consolidation")
	flags.StringVar(&o.types, "instance-types", "", "JSON file with the instance types of Karpenter's KWOK provider (default lab.2x, lab.4x, lab.8x)")
	flags.IntVar(&o.nodes, "nodes", 2, "KWOK nodes to begin with; none with --karpenter")
	flags.StringVar(&o.lab.Dir, "dir", "", "state directory, empty or missing (default a temporary one, in memory where there is room)")
	flags.BoolVar(&o.lab.Keep, "keep", false, "keep the state directory, with its logs, at the end")
	flags.IntVar(&o.lab.Port, "port", 0, "port of the API server on 127.0.0.1 (default a free one)")
	flags.StringVar(&o.lab.FeatureGates, "feature-gates", "", "feature gates of the Kubernetes components, for example Foo=true,Bar=false")
	flags.StringVar(&o.lab.RuntimeConfig, "runtime-config", "", "API versions to switch on or off in the API server, for example resource.k8s.io/v1alpha3=true")
	flags.StringArrayVar(&o.extraArgs, "extra-arg", nil, "flag for a component, written component=--flag=value; may be repeated; replaces the lab's own flag of that name")
	return cmd
}

func (o upOptions) resolve() (controlplane.Options, error) {
	lab := o.lab
	if o.karpenter {
		lab.Karpenter = &controlplane.KarpenterOptions{FastClock: o.fastClock, InstanceTypesFile: o.types}
	} else if o.fastClock || o.types != "" {
		return lab, fmt.Errorf("--fast-clock and --instance-types are Karpenter's: add --karpenter")
	}
	for _, arg := range o.extraArgs {
		component, flag, ok := strings.Cut(arg, "=")
		if !ok || !strings.HasPrefix(flag, "--") {
			return lab, fmt.Errorf("--extra-arg %q: write it as component=--flag=value", arg)
		}
		if lab.ExtraArgs == nil {
			lab.ExtraArgs = map[string][]string{}
		}
		lab.ExtraArgs[component] = append(lab.ExtraArgs[component], flag)
	}
	return lab, nil
}

// runUp starts a lab, keeps it until ctx ends or it breaks down, and stops it.
func runUp(cmd *cobra.Command, o controlplane.Options, nodes int) (err error) {
	ctx := cmd.Context()
	began := time.Now()
	lab, err := controlplane.Start(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil // Ctrl-C; all is cleaned up
		}
		return err
	}
	defer func() { err = errors.Join(err, lab.Stop()) }()
	if o.Karpenter != nil {
		err = starter.NodePool(ctx, lab.Config())
	} else {
		err = starter.Nodes(ctx, lab.Config(), nodes)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "ready after %.1fs; Ctrl-C ends it\n", time.Since(began).Seconds())
	fmt.Fprintf(cmd.OutOrStdout(), "export KUBECONFIG=%s\n", lab.Kubeconfig())
	return keepUp(ctx, lab, cmd.ErrOrStderr())
}

// keepUp plays served pods until ctx ends, or returns the reason why the lab broke down before.
func keepUp(ctx context.Context, lab *controlplane.ControlPlane, log io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	player := play.New(lab.Config(), play.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	played := make(chan error, 1)
	go func() { played <- player.Run(ctx) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-played:
		return fmt.Errorf("play pods: %w", err)
	case err := <-lab.Died():
		return fmt.Errorf("the lab broke down (--keep keeps its logs): %w", err)
	}
}
