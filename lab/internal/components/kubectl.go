package components

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // the same credential plugins as the stock kubectl
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// Kubectl runs the stock kubectl with args and the kubeconfig at path, and ends the process with its exit code when it
// fails. It mirrors cmd/kubectl/kubectl.go of Kubernetes.
func Kubectl(kubeconfig string, args []string) error {
	if err := os.Setenv("KUBECONFIG", kubeconfig); err != nil {
		return err
	}
	os.Args = append([]string{"kubectl"}, args...)
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // a wrong level is reported by the command itself
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return nil
}
