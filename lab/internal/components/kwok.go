package components

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	"sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
)

// kwokConfigFile holds the stages; it lies in the state directory so that a user can see what plays the pods.
const kwokConfigFile = "kwok.yaml"

//go:embed pod-stages.yaml
var podStages string

// runKWOK runs the stock kwok command with the module's node stages and the lab's pod stages.
func runKWOK(ctx context.Context, l launch) error {
	stages := strings.Join([]string{nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease, podStages}, "\n---\n")
	if err := os.WriteFile(kwokConfigFile, []byte(stages), 0o600); err != nil {
		return fmt.Errorf("write stages: %w", err)
	}
	os.Args = append([]string{"kwok", "--config=" + kwokConfigFile}, l.args...)
	global := pflag.NewFlagSet("global", pflag.ContinueOnError)
	global.ParseErrorsAllowlist.UnknownFlags = true
	global.Usage = func() {}
	ctx, _ = log.InitFlags(ctx, global)
	ctx, err := config.InitFlags(ctx, global)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	command := kwokcmd.NewCommand(ctx)
	// k8s.io/component-base/version/verflag puts a flag named version, which is not a bool, on pflag.CommandLine; cobra
	// trips over it unless the command has no version of its own.
	command.Version = ""
	command.PersistentFlags().AddFlagSet(global)
	command.SetArgs(os.Args[1:])
	return command.ExecuteContext(ctx)
}
