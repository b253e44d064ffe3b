package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/pace"
)

// renewCheck is how often a certificate is compared with the clock, which may be
// set at any moment, and how soon a failed renewal is tried again.
const renewCheck = time.Minute

// errNoCA is a peer that has just joined.
var errNoCA = errors.New("the cluster's CA is not known here yet: this peer has not received the log")

// Renewal keeps this peer's certificate fresh. It needs no other peer and no
// quorum: the CA is part of the state. New connections use the new certificate
// at once. A new certificate is good whenever the one before it was.
type Renewal struct {
	current atomic.Pointer[pki.Credentials]
	save    func(*pki.Credentials) error
	wall    func() time.Time
	random  io.Reader
	log     *slog.Logger
	making  sync.Mutex // one renewal at a time
}

// NewRenewal starts from the present credentials; save makes new ones durable.
func NewRenewal(now *pki.Credentials, save func(*pki.Credentials) error, wall func() time.Time, random io.Reader,
	log *slog.Logger) *Renewal {
	r := &Renewal{save: save, wall: wall, random: random, log: log}
	r.current.Store(now)
	return r
}

// Credentials returns the present ones.
func (r *Renewal) Credentials() *pki.Credentials { return r.current.Load() }

// Run renews at two thirds of each certificate's life, and a certificate whose
// beginning or end shows that a clock was wrong, until ctx ends. view returns the state.
func (r *Renewal) Run(ctx context.Context, view func() fsm.View) {
	for {
		if err := r.renewIfDue(view()); err != nil {
			r.log.Warn("renew peer certificate failed, keeping the current one", "not_after", r.Credentials().Leaf.NotAfter,
				"err", err)
		}
		if !pace.Wait(ctx, renewCheck) {
			return
		}
	}
}

func (r *Renewal) renewIfDue(view fsm.View) error {
	now, own := r.wall(), r.Credentials()
	switch {
	case !pki.NeedsRenewal(own.Leaf, now):
		return nil
	case now.Before(own.Leaf.NotBefore):
		r.log.Warn("peer certificate is not valid yet: the clock was ahead when it was made, or is behind now", "not_before",
			own.Leaf.NotBefore)
	case own.Leaf.NotAfter.After(now.Add(pki.MaxTTL)):
		r.log.Warn("peer certificate ends too late: the clock was ahead when it was made, or is behind now", "not_after",
			own.Leaf.NotAfter)
	case !own.Leaf.NotAfter.Before(own.CA.NotAfter):
		return nil // the CA ends, and no certificate outlives it
	}
	return r.Renew(view)
}

// Renew makes a new certificate from the CA in a state at once, however young the present
// one is.
func (r *Renewal) Renew(view fsm.View) error {
	r.making.Lock()
	defer r.making.Unlock()
	fresh, err := r.Make(view)
	if err != nil {
		return err
	}
	if err := r.save(fresh); err != nil {
		return err
	}
	r.current.Store(fresh)
	r.log.Info("peer certificate renewed", "not_after", fresh.Leaf.NotAfter)
	return nil
}

// Make makes the certificate that Renew would, and keeps it nowhere.
func (r *Renewal) Make(view fsm.View) (*pki.Credentials, error) {
	old := r.Credentials()
	// That the state does not name this peer as a member is no reason to refuse:
	// after a start without a quorum it is that of a snapshot, which may be older
	// than this peer's join.
	if _, removed := view.Removed(old.Identity.Peer); removed {
		return nil, fmt.Errorf("%w: %s", ErrRemovedPeer, old.Identity.Peer)
	}
	if len(view.Secrets().CAKey) == 0 {
		return nil, errNoCA
	}
	ca, err := pki.ParseCA(view.Secrets().CACert, view.Secrets().CAKey)
	if err != nil {
		return nil, fmt.Errorf("the cluster's CA: %w", err)
	}
	return issue(ca, old.Identity, old.Leaf, r.wall(), r.random)
}

// Issue makes a key and the first certificate of a peer for it.
func Issue(ca *pki.CA, id pki.Identity, now time.Time, random io.Reader) (*pki.Credentials, error) {
	return issue(ca, id, nil, now, random)
}

func issue(ca *pki.CA, id pki.Identity, replaces *x509.Certificate, now time.Time, random io.Reader) (*pki.Credentials,
	error) {
	key, err := pki.NewKey(random)
	if err != nil {
		return nil, err
	}
	cert, err := ca.Sign(random, now,
		pki.Order{Identity: id, PublicKey: &key.PublicKey, TTL: pki.PeerTTL, Replaces: replaces})
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return pki.NewCredentials(cert, ca.CertPEM(), key)
}
