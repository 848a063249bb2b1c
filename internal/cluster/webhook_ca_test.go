package cluster

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

func TestMergeAuthorities(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	first, second, expired := certificate(t, 1, now.Add(time.Hour)), certificate(t, 2, now.Add(time.Hour)), certificate(t, 3, now.Add(-time.Minute))
	join := func(list ...[]byte) []byte { return bytes.Join(list, nil) }
	for name, c := range map[string]struct{ current, bundle, want []byte }{
		"nothing trusted yet":          {first, nil, first},
		"already trusted":              {first, first, first},
		"rotated: the old one stays":   {second, first, join(second, first)},
		"rotated: an expired one goes": {second, join(expired, first), join(second, first)},
		"rubbish is dropped":           {first, []byte("rubbish"), first},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mergeAuthorities(c.current, c.bundle, now); !bytes.Equal(got, c.want) {
				t.Errorf("%d certificates, want %d", bytes.Count(got, []byte("BEGIN")), bytes.Count(c.want, []byte("BEGIN")))
			}
		})
	}
}

func certificate(t *testing.T, serial int64, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: until.Add(-24 * time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
