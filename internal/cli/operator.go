package cli

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/operator"
)

func newOperatorCommand() *cobra.Command {
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		namespace = "segue-system"
	}
	o := operator.DefaultOptions(namespace)
	var kubeconfig string
	protection := string(o.DefaultProtection)
	logs := textlogger.NewConfig()
	c := &cobra.Command{
		Use:   "operator",
		Short: "Run the guard and the handover controllers",
		Long: `Runs the admission webhook that answers evictions and the controllers that hand pods over. This is what runs in the cluster;
it ends on SIGTERM. Replicas share the work of the webhook; one of them, the leader, runs the controllers.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			logger := textlogger.NewLogger(logs)
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			switch p := v1alpha1.Protection(protection); p {
			case v1alpha1.ProtectionEnabled, v1alpha1.ProtectionObserve, v1alpha1.ProtectionDisabled:
				o.DefaultProtection = p
			default:
				return fmt.Errorf("--default-protection %q: want enabled, observe or disabled", protection)
			}
			if !c.Flags().Changed("webhook-dns-name") {
				o.WebhookDNSNames = operator.DefaultOptions(o.Namespace).WebhookDNSNames
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("find the cluster (give --kubeconfig outside of one): %w", err)
			}
			return operator.Run(ctx, config, o)
		},
	}
	f := c.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; the cluster that the process runs in when empty")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the operator itself, which is never protected (default from POD_NAMESPACE)")
	f.StringVar(&protection, "default-protection", protection, "protection of namespaces without the label "+v1alpha1.ProtectLabel+": enabled, observe or disabled")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "elect a leader; needed with more than one replica")
	f.StringVar(&o.WebhookAddress, "webhook-address", o.WebhookAddress, "host:port that the webhook listens on")
	f.StringSliceVar(&o.WebhookDNSNames, "webhook-dns-name", o.WebhookDNSNames, "name that the API server calls the webhook by")
	f.StringVar(&o.WebhookConfiguration, "webhook-configuration", o.WebhookConfiguration, "ValidatingWebhookConfiguration that points at the webhook")
	f.StringVar(&o.WebhookSecret, "webhook-secret", o.WebhookSecret, "secret for the webhook's certificate authority; made when missing")
	f.DurationVar(&o.AuthorityDuration, "authority-duration", o.AuthorityDuration, "validity of the webhook's certificate authority")
	f.DurationVar(&o.CertificateDuration, "certificate-duration", o.CertificateDuration, "validity of the webhook's serving certificates")
	f.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "host:port for metrics; 0 serves none")
	f.StringVar(&o.HealthAddress, "health-address", o.HealthAddress, "host:port for /healthz and /readyz")
	f.DurationVar(&o.Settings.MaxWait, "max-wait", o.Settings.MaxWait, "how long a pod is held at most")
	f.DurationVar(&o.Settings.Margin, "margin", o.Settings.Margin, "how long before its deadline a pod is let go")
	f.DurationVar(&o.Settings.Settle, "settle", o.Settings.Settle, "how long a replacement serves before a pod that was replaced alone is let go")
	f.DurationVar(&o.Settings.Keep, "keep-handovers", o.Settings.Keep, "how long finished Handovers are kept")
	verbosity := flag.NewFlagSet("logs", flag.ContinueOnError)
	logs.AddFlags(verbosity)
	f.AddGoFlagSet(verbosity)
	return c
}
