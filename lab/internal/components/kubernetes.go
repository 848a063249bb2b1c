package components

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/segue-dev/segue/lab/internal/lifeline"
)

// The three mains below follow the RunE of the stock cobra commands (cmd/kube-*/app), with one difference: the listening
// socket comes from the parent.

func runAPIServer(ctx context.Context, l launch) error {
	o := apiserveroptions.NewServerRunOptions()
	if err := parseFlags("kube-apiserver", o.Flags(), l.args); err != nil {
		return err
	}
	if err := inheritListener(o.SecureServing.SecureServingOptions); err != nil {
		return err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	return apiserver.Run(ctx, completed)
}

func runControllerManager(ctx context.Context, l launch) error {
	o, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, off, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	if err := parseFlags("kube-controller-manager", o.Flags(known, off, aliases), l.args); err != nil {
		return err
	}
	if err := inheritListener(o.SecureServing); err != nil {
		return err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	config, err := o.Config(ctx, known, off, aliases)
	if err != nil {
		return err
	}
	return controllermanager.Run(ctx, config.Complete())
}

func runScheduler(ctx context.Context, l launch) error {
	o := scheduleroptions.NewOptions()
	if err := parseFlags("kube-scheduler", *o.Flags, l.args); err != nil {
		return err
	}
	if err := inheritListener(o.SecureServing); err != nil {
		return err
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	informerName, err := cache.NewInformerName("kube-scheduler")
	if err != nil {
		return err
	}
	o.InformerName = informerName
	config, sched, err := scheduler.Setup(ctx, o)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, config, sched)
}

// parseFlags parses args into the flag sets of a Kubernetes component.
func parseFlags(name string, sets cliflag.NamedFlagSets, args []string) error {
	globalflag.AddGlobalFlags(sets.FlagSet("global"), name, logs.SkipLoggingConfigurationFlags())
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.Usage = func() {} // hundreds of lines that would hide the error
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return fmt.Errorf("takes no arguments, got %q", rest)
	}
	return nil
}

// inheritListener lets a component serve on the socket that the parent bound.
func inheritListener(serving *genericoptions.SecureServingOptions) error {
	listener, err := lifeline.Listener()
	if err != nil {
		return err
	}
	serving.Listener = listener
	return nil
}
