package controlplane

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The components of a lab, by the names that errors, log files, Kill, Restart and ExtraArgs use.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	KWOK              = "kwok"
	Karpenter         = "karpenter"
)

// Components lists the names of all components in the order in which they start.
func Components() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, KWOK, Karpenter}
}

// Options is how a lab differs from the default one. The zero value is a lab without Karpenter on free ports.
type Options struct {
	// Dir is the state directory; it must be empty or missing. "" makes a new one, in memory where there is room. Stop
	// removes what the lab wrote, unless Keep is set.
	Dir string
	// Keep leaves the state directory, with its logs, in place after Stop and after a failed Start.
	Keep bool
	// Binary is the segue-lab binary whose subcommands are the components. "" means $SEGUE_LAB_BIN, else this executable
	// if it is segue-lab, else bin/segue-lab in the working directory or the nearest directory above it.
	Binary string
	// Port is the API server's port on 127.0.0.1; 0 is a free one.
	Port int
	// Karpenter asks for Karpenter; nil is none.
	Karpenter *KarpenterOptions
	// FeatureGates is passed to the three Kubernetes components, for example "Foo=true,Bar=false".
	FeatureGates string
	// RuntimeConfig is passed to the API server, for example "resource.k8s.io/v1alpha3=true".
	RuntimeConfig string
	// ExtraArgs has flags by component, each as --name=value. A flag replaces the lab's own flag of the same name.
	ExtraArgs map[string][]string
	// Progress receives one line a step; nil is silent.
	Progress io.Writer
}

// KarpenterOptions is how a lab's Karpenter differs from the stock one.
type KarpenterOptions struct {
	// FastClock shortens batching and the 15 s validation of a consolidation, for quick tests. Figures that are quoted
	// anywhere use the stock clock.
	FastClock bool
	// InstanceTypesFile has the instance types of the KWOK provider, in its JSON format; "" is lab.2x, lab.4x and lab.8x,
	// each on demand and as spot, in zone-a.
	InstanceTypesFile string
	// Env is added to Karpenter's environment, which is where it takes its settings from.
	Env map[string]string
}

// check finds what can be found wrong before anything is started.
func (o Options) check() error {
	for name, args := range o.ExtraArgs {
		if !slices.Contains(Components(), name) {
			return fmt.Errorf("extra argument for component %q: unknown, choose one of %s", name, strings.Join(Components(), ", "))
		}
		if name == Karpenter && o.Karpenter == nil {
			return fmt.Errorf("extra argument for component %q: this lab runs without Karpenter", name)
		}
		for _, arg := range args {
			if !strings.HasPrefix(arg, "--") {
				return fmt.Errorf("extra argument %q for component %q: write it as --flag=value", arg, name)
			}
		}
	}
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("port %d of the API server: out of range, choose 1 to 65535, or 0 for a free one", o.Port)
	}
	if k := o.Karpenter; k != nil && k.InstanceTypesFile != "" {
		content, err := os.ReadFile(k.InstanceTypesFile)
		if err != nil {
			return fmt.Errorf("read Karpenter's instance types: %w", err)
		}
		if !json.Valid(content) {
			return fmt.Errorf("read Karpenter's instance types: %s is not JSON", k.InstanceTypesFile)
		}
	}
	return nil
}

// FindBinary is the path of the segue-lab binary, see Options.Binary.
func FindBinary(explicit string) (string, error) {
	if explicit == "" {
		explicit = os.Getenv("SEGUE_LAB_BIN")
	}
	if explicit != "" {
		if _, err := os.Stat(explicit); err != nil {
			return "", fmt.Errorf("find the segue-lab binary: %w (run `make build`)", err)
		}
		return filepath.Abs(explicit)
	}
	if self, err := os.Executable(); err == nil && filepath.Base(self) == "segue-lab" {
		return self, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the segue-lab binary: %w", err)
	}
	for start := dir; ; dir = filepath.Dir(dir) {
		candidate := filepath.Join(dir, "bin", "segue-lab")
		if _, err := os.Stat(candidate); err == nil {
			return candidate, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the segue-lab binary: no bin/segue-lab in %s or above it: run `make build`, or set SEGUE_LAB_BIN", start)
		}
	}
}
