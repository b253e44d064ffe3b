package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// etcdTLS is what members of etcd and their clients show each other: one certificate, as
// a peer has it, of a CA as a cluster has it.
type etcdTLS struct {
	ca, cert, key string // files
	client        *tls.Config
}

// newEtcdTLS makes the certificate below root.
func newEtcdTLS(root string) (t etcdTLS, err error) {
	fail := func(err error) (etcdTLS, error) { return etcdTLS{}, fmt.Errorf("certificate of etcd: %w", err) }
	cluster, now := uuid.NewString(), time.Now()
	ca, err := pki.NewCA(cluster, now, rand.Reader)
	if err != nil {
		return fail(err)
	}
	key, err := pki.NewKey(rand.Reader)
	if err != nil {
		return fail(err)
	}
	cert, err := ca.Sign(rand.Reader, now, pki.Order{Identity: pki.PeerIdentity(cluster, uuid.NewString(), 1),
		PublicKey: &key.PublicKey, TTL: 24 * time.Hour, Names: []string{"127.0.0.1"}})
	if err != nil {
		return fail(err)
	}
	keyText, err := pki.EncodeKey(key)
	if err != nil {
		return fail(err)
	}
	t.ca, t.cert, t.key = filepath.Join(root, "etcd-ca.pem"), filepath.Join(root, "etcd.pem"),
		filepath.Join(root, "etcd.key")
	for path, text := range map[string][]byte{t.ca: ca.CertPEM(), t.cert: cert, t.key: keyText} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fail(err)
		}
	}
	pair, err := tls.X509KeyPair(cert, keyText)
	if err != nil {
		return fail(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca.Certificate())
	t.client = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}}
	return t, nil
}

// flags are those of a member.
func (t etcdTLS) flags() []string {
	return []string{"--tls-min-version", "TLS1.3", "--client-cert-auth", "--trusted-ca-file", t.ca, "--cert-file", t.cert,
		"--key-file", t.key, "--peer-client-cert-auth", "--peer-trusted-ca-file", t.ca, "--peer-cert-file", t.cert,
		"--peer-key-file", t.key}
}
