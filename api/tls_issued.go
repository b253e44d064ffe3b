package api

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
)

// Issued is a certificate that the cluster's CA signs for this peer's API. The
// CA is part of the state, so any peer signs its own, with no leader and no
// quorum. Certificate and key are kept in memory alone: clients trust the CA,
// and the next process has new ones. It may be used concurrently.
type Issued struct {
	Peer   string // server ID
	Names  []string
	View   func() fsm.View
	Wall   func() time.Time
	Random io.Reader
	Logger *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	ca     []byte // PEM, that signed it
	failed bool   // and that was logged
}

// errNoCA is a peer that has just joined and has not got the log yet.
var errNoCA = errors.New("the cluster's CA is not known here yet: this peer has yet to get the log")

// Get is the present certificate. It is renewed by the first handshake after
// two thirds of its life, or after the CA became another one; while that fails
// the old one serves.
func (i *Issued) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	view := i.View()
	secrets := view.Secrets()
	if i.pair != nil && bytes.Equal(i.ca, secrets.CACert) && !pki.NeedsRenewal(i.pair.Leaf, i.Wall()) {
		return i.pair, nil
	}
	pair, err := i.issue(view.ClusterID(), secrets)
	if err == nil {
		i.pair, i.ca, i.failed = pair, bytes.Clone(secrets.CACert), false
		i.Logger.Info("API certificate issued", "not_after", pair.Leaf.NotAfter, "names", i.Names)
		return pair, nil
	}
	if !i.failed {
		i.Logger.Error("issue API certificate failed, keeping the current one", "err", err)
		i.failed = true
	}
	if i.pair == nil {
		return nil, err
	}
	return i.pair, nil
}

func (i *Issued) issue(cluster string, secrets fsm.Secrets) (*tls.Certificate, error) {
	if len(secrets.CACert) == 0 {
		return nil, errNoCA
	}
	ca, err := pki.ParseCA(secrets.CACert, secrets.CAKey)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	key, err := pki.NewKey(i.Random)
	if err != nil {
		return nil, err
	}
	text, err := ca.Sign(i.Random, i.Wall(), pki.Order{
		Identity: pki.APIIdentity(cluster, i.Peer), PublicKey: &key.PublicKey, TTL: pki.PeerTTL, Names: i.Names,
	})
	if err != nil {
		return nil, err
	}
	leaf, err := pki.ParseCertificate(text)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.Certificate().Raw}, PrivateKey: key, Leaf: leaf}, nil
}
