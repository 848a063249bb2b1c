// Package operator is the door: the webhook, the controllers and their wiring. It is glue only: what to do is decided in
// package decide, and done in package cluster.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/segue-dev/segue/api/v1alpha1"
	"github.com/segue-dev/segue/internal/cluster"
	"github.com/segue-dev/segue/internal/decide"
	"github.com/segue-dev/segue/internal/report"
)

// GuardPath is where the webhook answers evictions.
const GuardPath = "/evictions"

// Options configure the operator.
type Options struct {
	// Namespace is where the operator runs: its leases and its secret live there, and nothing in it is ever held.
	Namespace string
	// DefaultProtection is the protection of namespaces without the label segue.dev/protect.
	DefaultProtection v1alpha1.Protection
	// LeaderElect makes one replica the leader; needed with more than one.
	LeaderElect bool
	// WebhookAddress, MetricsAddress and HealthAddress are host:port to listen on. Metrics "0" are not served.
	WebhookAddress, MetricsAddress, HealthAddress string
	// WebhookDNSNames are the names that the API server calls the webhook by.
	WebhookDNSNames []string
	// WebhookConfiguration is the ValidatingWebhookConfiguration that points at the webhook.
	WebhookConfiguration string
	// WebhookSecret is the secret that holds the webhook's certificate authority.
	WebhookSecret string
	// AuthorityDuration and CertificateDuration are how long the authority and a serving certificate are valid; each is
	// replaced when a third is left.
	AuthorityDuration, CertificateDuration time.Duration
	// Settings are the decisions' defaults.
	Settings decide.Settings
	// NewClient makes the client that writes; nil is the ordinary one. Tests inject faults here.
	NewClient client.NewClientFunc
}

// DefaultOptions returns the documented defaults for a namespace.
func DefaultOptions(namespace string) Options {
	return Options{
		Namespace: namespace, DefaultProtection: v1alpha1.ProtectionDisabled, LeaderElect: true,
		WebhookAddress: ":9443", MetricsAddress: ":8080", HealthAddress: ":8081",
		WebhookDNSNames:      []string{"segue-guard." + namespace + ".svc"},
		WebhookConfiguration: "segue-guard", WebhookSecret: "segue-guard-authority",
		AuthorityDuration: 365 * 24 * time.Hour, CertificateDuration: 7 * 24 * time.Hour,
		Settings: decide.DefaultSettings(),
	}
}

// Run runs the operator until ctx ends. An error says what could not be set up, or what ended it.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("register kinds: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server's own fairness bounds us
	host, port, err := splitAddress(o.WebhookAddress)
	if err != nil {
		return err
	}
	hooks := webhook.NewServer(webhook.Options{Host: host, Port: port}).(*webhook.DefaultServer)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Cache: cluster.CacheOptions(), WebhookServer: hooks,
		Metrics: metricsserver.Options{BindAddress: o.MetricsAddress}, HealthProbeBindAddress: o.HealthAddress,
		LeaderElection: o.LeaderElect, LeaderElectionID: "segue-leader", LeaderElectionNamespace: o.Namespace, LeaderElectionReleaseOnCancel: true,
		NewClient: o.NewClient,
		// Tests run more than one operator in a process.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.PersistentVolumeClaim{}}}},
	})
	if err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	if err := wire(ctx, mgr, hooks, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func wire(ctx context.Context, mgr manager.Manager, hooks *webhook.DefaultServer, o Options) error {
	claims, err := cluster.HasNodeClaims(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	if err := cluster.AddIndexes(ctx, mgr.GetCache()); err != nil {
		return err
	}
	eyes := &cluster.Eyes{Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Settings: o.Settings, Default: o.DefaultProtection,
		Excluded: []string{"kube-system", o.Namespace}, NodeClaims: claims, Now: time.Now}
	hands := &cluster.Hands{Client: mgr.GetClient(), Cache: mgr.GetCache()}
	voice := &report.Voice{Recorder: mgr.GetEventRecorder("segue")}
	g := &guard{eyes: eyes, hands: hands, voice: voice, now: time.Now, started: time.Now()}
	certs := newCertificates(mgr, o)
	hooks.Options.TLSOpts = append(hooks.Options.TLSOpts, certs.serve)
	// Asking the manager for the server is what makes it run.
	mgr.GetWebhookServer().Register(GuardPath, &webhook.Admission{Handler: g})
	warmUp := manager.RunnableFunc(func(ctx context.Context) error {
		g.warm.Store(mgr.GetCache().WaitForCacheSync(ctx))
		<-ctx.Done()
		return nil
	})
	return errors.Join(
		mgr.Add(certs),
		mgr.Add(everywhere{warmUp}),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook", hooks.StartedChecker()),
		mgr.AddReadyzCheck("certificates", certs.ready),
		mgr.AddReadyzCheck("caches", func(*http.Request) error {
			if !g.warm.Load() {
				return errors.New("the caches are not in sync yet")
			}
			return nil
		}),
		(&handovers{eyes: eyes, hands: hands, voice: voice}).add(mgr),
	)
}

// everywhere is a runnable that runs on every replica, leader or not.
type everywhere struct{ manager.Runnable }

// NeedLeaderElection is part of controller-runtime's interface.
func (everywhere) NeedLeaderElection() bool { return false }

func splitAddress(address string) (string, int, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("webhook address %q is not host:port: %w", address, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return "", 0, fmt.Errorf("webhook address %q: the port must be a number from 1 to 65535", address)
	}
	return host, n, nil
}
