package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/segue-dev/segue/internal/cluster"
)

// trustEvery is how often the webhook configuration is compared with the authority besides at every rotation: somebody may
// have written the configuration anew.
const trustEvery = 10 * time.Second

// certificates makes and rotates the webhook's serving certificate, and has the API server trust the authority behind it.
// The authority lives in one Secret, which all replicas share; serving keys never leave a process. The work is done by
// cert-manager's library; only the trust is ours.
type certificates struct {
	source        *servertls.DynamicSource
	secret        client.ObjectKey
	configuration string
	client        client.Client
	live          client.Reader
	trusted       atomic.Bool
}

func newCertificates(mgr manager.Manager, o Options) *certificates {
	secret := client.ObjectKey{Namespace: o.Namespace, Name: o.WebhookSecret}
	return &certificates{
		secret: secret, configuration: o.WebhookConfiguration, client: mgr.GetClient(), live: mgr.GetAPIReader(),
		source: &servertls.DynamicSource{
			DNSNames: o.WebhookDNSNames, RetryInterval: 100 * time.Millisecond,
			Authority: &authority.DynamicAuthority{
				SecretNamespace: secret.Namespace, SecretName: secret.Name, RESTConfig: mgr.GetConfig(),
				CommonName: "segue-guard", CADuration: o.AuthorityDuration, LeafDuration: o.CertificateDuration,
				SecretLabels: map[string]string{"app.kubernetes.io/name": "segue"},
			},
		},
	}
}

// serve makes a TLS configuration answer with the current certificate.
func (c *certificates) serve(t *tls.Config) { t.GetCertificate = c.source.GetCertificate }

// NeedLeaderElection says that every replica serves.
func (c *certificates) NeedLeaderElection() bool { return false }

// Start runs until ctx ends.
func (c *certificates) Start(ctx context.Context) error {
	rotated := make(chan struct{}, 1)
	c.source.Authority.WatchRotation(rotated)
	defer c.source.Authority.StopWatchingRotation(rotated)
	failed := make(chan error, 1)
	go func() { failed <- c.source.Start(ctx) }()
	tick := time.NewTicker(trustEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case <-rotated:
			c.trust(ctx)
		case <-tick.C:
			c.trust(ctx)
		}
	}
}

func (c *certificates) trust(ctx context.Context) {
	if err := cluster.TrustAuthority(ctx, c.client, c.live, c.secret, c.configuration, time.Now()); err != nil {
		log.FromContext(ctx).Error(err, "the API server may not trust the guard; trying again", "in", trustEvery.String())
		return
	}
	c.trusted.Store(true)
}

// ready is a readiness check.
func (c *certificates) ready(*http.Request) error {
	if !c.source.Healthy() {
		return errors.New("the webhook has no serving certificate yet")
	}
	if !c.trusted.Load() {
		return errors.New("the API server does not trust the webhook's authority yet")
	}
	return nil
}
