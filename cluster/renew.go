package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/pki"
)

// renewCheck is how often a certificate's age is looked at.
const renewCheck = time.Hour

// renewRetry is how soon a failed renewal is tried again.
const renewRetry = time.Minute

// Renewal keeps this peer's certificate fresh. It needs no other peer and no
// quorum: the CA is part of the state. New connections use the new certificate
// at once.
type Renewal struct {
	current atomic.Pointer[pki.Credentials]
	view    func() fsm.View
	save    func(*pki.Credentials) error
	wall    func() time.Time
	random  io.Reader
	log     *slog.Logger
	making  sync.Mutex // one renewal at a time
}

// NewRenewal starts from the present credentials; save makes new ones durable.
func NewRenewal(now *pki.Credentials, view func() fsm.View, save func(*pki.Credentials) error, wall func() time.Time, random io.Reader, log *slog.Logger) *Renewal {
	r := &Renewal{view: view, save: save, wall: wall, random: random, log: log}
	r.current.Store(now)
	return r
}

// Credentials returns the present ones.
func (r *Renewal) Credentials() *pki.Credentials { return r.current.Load() }

// Run renews at two thirds of each certificate's life, until ctx ends.
func (r *Renewal) Run(ctx context.Context) {
	for {
		wait := renewCheck
		if err := r.step(); err != nil {
			r.log.Warn("renew peer certificate failed, retrying", "not_after", r.Credentials().Leaf.NotAfter, "err", err)
			wait = renewRetry
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (r *Renewal) step() error {
	if r.wall().Before(pki.RenewAt(r.Credentials().Leaf)) {
		return nil
	}
	return r.Renew()
}

// Renew makes a new certificate at once, however young the present one is.
func (r *Renewal) Renew() error {
	r.making.Lock()
	defer r.making.Unlock()
	old := r.Credentials()
	view := r.view()
	if _, member := view.Member(old.Identity.Peer); !member {
		return fmt.Errorf("%w, as far as this peer's log goes", ErrNotMember)
	}
	ca, err := pki.ParseCA(view.Secrets().CACert, view.Secrets().CAKey)
	if err != nil {
		return fmt.Errorf("the cluster's CA: %w", err)
	}
	fresh, err := Issue(ca, old.Identity, r.wall(), r.random)
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

// Issue makes a key and a peer certificate for it.
func Issue(ca *pki.CA, id pki.Identity, now time.Time, random io.Reader) (*pki.Credentials, error) {
	key, err := pki.NewKey(random)
	if err != nil {
		return nil, err
	}
	cert, err := ca.Sign(random, now, pki.Order{Identity: id, PublicKey: &key.PublicKey, TTL: pki.PeerTTL})
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return pki.NewCredentials(cert, ca.CertPEM(), key)
}
