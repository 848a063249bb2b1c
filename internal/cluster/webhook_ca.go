package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostTrusted bounds how many certificate authorities the webhook configuration trusts: the current one and those before it
// that have not expired, because another replica may serve with them for a moment after a rotation.
const mostTrusted = 3

// TrustAuthority makes the webhook configuration trust the certificate authority that is in the secret's ca.crt. Earlier
// authorities stay trusted until they expire. It writes nothing when nothing changes.
func TrustAuthority(ctx context.Context, c client.Client, live client.Reader, secret client.ObjectKey, configuration string, now time.Time) error {
	s := &corev1.Secret{}
	if err := live.Get(ctx, secret, s); err != nil {
		return fmt.Errorf("read the webhook's authority from secret %s: %w", secret, err)
	}
	current := s.Data["ca.crt"]
	if len(current) == 0 {
		return fmt.Errorf("secret %s has no ca.crt yet", secret)
	}
	vwc := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := live.Get(ctx, client.ObjectKey{Name: configuration}, vwc); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", configuration, err)
	}
	var ops []map[string]any
	for i, w := range vwc.Webhooks {
		if bundle := mergeAuthorities(current, w.ClientConfig.CABundle, now); !bytes.Equal(bundle, w.ClientConfig.CABundle) {
			ops = append(ops, map[string]any{"op": "add", "path": fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), "value": bundle})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	ops = append([]map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": vwc.ResourceVersion}}, ops...)
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, vwc, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("trust the new authority in ValidatingWebhookConfiguration %s: %w", configuration, err)
	}
	return nil
}

// mergeAuthorities returns current followed by the certificates of bundle that are still valid, without duplicates.
func mergeAuthorities(current, bundle []byte, now time.Time) []byte {
	var out []byte
	var seen [][]byte
	for _, rest := range [][]byte{current, bundle} {
		for len(seen) < mostTrusted {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil || now.After(cert.NotAfter) || contains(seen, block.Bytes) {
				continue
			}
			seen = append(seen, block.Bytes)
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
		}
	}
	return out
}

func contains(list [][]byte, b []byte) bool {
	for _, x := range list {
		if bytes.Equal(x, b) {
			return true
		}
	}
	return false
}
