package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certificateLifetime is longer than any lab runs. Certificates start an hour early, for machines whose clock is behind.
const certificateLifetime = 365 * 24 * time.Hour

// authority is the lab's own certificate authority. It signs every certificate of the lab and is trusted by nothing else.
type authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     *ecdsa.PrivateKey
}

// keyPair is a certificate with its key, both in PEM.
type keyPair struct {
	cert, key []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the lab's certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "segue-lab"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the lab's certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the lab's certificate authority: %w", err)
	}
	return &authority{cert: cert, certPEM: encode("CERTIFICATE", der), key: key}, nil
}

// serving issues the one certificate with which all components serve HTTPS on loopback.
func (a *authority) serving() (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "segue-lab"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// client issues a certificate with which the API server knows its holder as user, a member of groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue certificate for %q: %w", template.Subject.CommonName, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue certificate for %q: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue certificate for %q: %w", template.Subject.CommonName, err)
	}
	return keyPair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

func sign(template, parent *x509.Certificate, public any, signer *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateLifetime)
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encode("EC PRIVATE KEY", der), nil
}

// writePKI writes what the components read as files into dir/pki.
func (a *authority) writePKI(dir string) error {
	serving, err := a.serving()
	if err != nil {
		return err
	}
	proxy, err := a.client("front-proxy-client")
	if err != nil {
		return err
	}
	tokenKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key for service account tokens: %w", err)
	}
	tokenPEM, err := encodeKey(tokenKey)
	if err != nil {
		return fmt.Errorf("make the key for service account tokens: %w", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pki"), 0o700); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	for name, content := range map[string][]byte{
		"ca.crt": a.certPEM, "serving.crt": serving.cert, "serving.key": serving.key,
		"front-proxy.crt": proxy.cert, "front-proxy.key": proxy.key, "service-account.key": tokenPEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, "pki", name), content, 0o600); err != nil {
			return fmt.Errorf("write certificates: %w", err)
		}
	}
	return nil
}

// writeKubeconfig writes a self-contained kubeconfig for user to path.
func (a *authority) writeKubeconfig(path, server, user string, groups ...string) error {
	pair, err := a.client(user, groups...)
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.certPEM}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.cert, ClientKeyData: pair.key}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: user}
	config.CurrentContext = "lab"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig for %q: %w", user, err)
	}
	return nil
}
