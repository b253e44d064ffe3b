package app

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
)

// caWarning is how long before the end of the cluster's CA it is said: time to
// plan a cluster that is founded again. Nothing renews a CA.
const caWarning = 365 * 24 * time.Hour

// renewalLate is how long after its time a renewal is waited for in silence.
const renewalLate = 24 * time.Hour

// newRing makes the follower of the gossip keys. They are on the disk before
// they are used.
func (p *Peer) newRing(now cluster.Ring) *cluster.RingFollower {
	return cluster.NewRingFollower(cluster.RingOptions{
		Peer: p.id.ID, Now: now, View: p.core.Store.View, Do: p.core.Session,
		Put: []func(cluster.Ring) error{p.opts.Dir.SaveRing, p.gossip.SetRing}, Logger: p.opts.Logger,
	})
}

// RotateGossip implements admin.Trust.
func (p *Peer) RotateGossip(ctx context.Context) error {
	key := make([]byte, fsm.GossipKeySize)
	if _, err := io.ReadFull(p.opts.Random, key); err != nil {
		return fmt.Errorf("make a gossip key: %w", err)
	}
	res, err := p.do(ctx, fsm.RotateGossipKey{Key: key})
	if err == nil {
		err = res.Err()
	}
	return err
}

// Certificates implements admin.Trust: what the peers show at this moment.
func (p *Peer) Certificates(ctx context.Context) []admin.Certificate {
	v := p.core.Store.View()
	members := v.Members()
	out := make([]admin.Certificate, len(members))
	var asked sync.WaitGroup
	for i, m := range members { // at most fsm.MaxMembers
		asked.Go(func() {
			out[i] = admin.Certificate{Role: "peer", Name: m.Name}
			leaf, err := p.renewal.Credentials().Leaf, error(nil)
			if m.ID != p.id.ID {
				leaf, err = p.forward.Certificate(ctx, cluster.ServerAddress(m.ID, m.Address))
			}
			if err != nil {
				out[i].Problem = err.Error()
				return
			}
			p.describe(&out[i], leaf)
		})
	}
	asked.Wait()
	ca := admin.Certificate{Role: "ca", Name: p.id.Cluster}
	p.describe(&ca, p.renewal.Credentials().CA)
	out = append(out, ca)
	for _, o := range v.Operators() {
		out = append(out, operatorRow(o))
	}
	return out
}

func (p *Peer) describe(row *admin.Certificate, c *x509.Certificate) {
	row.NotBefore, row.NotAfter = c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339)
	switch now := p.opts.Wall(); {
	case now.After(c.NotAfter):
		row.Problem = "it has ended"
	case now.Before(c.NotBefore):
		row.Problem = "it is not valid yet"
	case !c.IsCA && now.After(pki.RenewAt(c).Add(renewalLate)):
		row.Problem = "its renewal is overdue"
	case c.IsCA && now.After(c.NotAfter.Add(-caWarning)):
		row.Problem = "it ends within a year, and nothing renews it"
	}
}

// operatorRow shows all certificates of an operator as one.
func operatorRow(o fsm.Operator) admin.Certificate {
	row := admin.Certificate{Role: "operator", Name: o.Name, NotAfter: unixTime(o.Ends)}
	if o.Issued > 0 {
		row.NotBefore = unixTime(o.Issued)
	}
	if o.Revoked > 0 {
		row.RevokedUpTo = unixTime(o.Revoked)
	}
	return row
}

func unixTime(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }

// Renew implements admin.Trust.
func (p *Peer) Renew() (admin.Certificate, error) {
	row := admin.Certificate{Role: "peer", Name: p.id.Name}
	if err := p.renewal.Renew(); err != nil {
		return row, err
	}
	p.describe(&row, p.renewal.Credentials().Leaf)
	return row, nil
}

// RevokeOperator implements admin.Keys.
func (p *Peer) RevokeOperator(ctx context.Context, name string) error {
	if err := pki.OperatorIdentity(p.id.Cluster, name).Validate(); err != nil {
		return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error()}
	}
	now := p.opts.Wall()
	res, err := p.do(ctx, fsm.RevokeOperator{Name: name, UpTo: now.Unix(), Ends: now.Add(pki.MaxTTL).Unix()})
	if err == nil {
		err = res.Err()
	}
	return err
}

// noteOperator tells the log of a certificate before its owner has it. Peers
// that know no such note keep nobody from being issued one.
func (p *Peer) noteOperator(ctx context.Context, v fsm.View, name string, cert []byte) error {
	if v.Admits(fsm.NoteOperator{}) != nil {
		return nil
	}
	leaf, err := pki.ParseCertificate(cert)
	if err != nil {
		return err
	}
	res, err := p.do(ctx, fsm.NoteOperator{Name: name, Issued: pki.IssuedAt(leaf).Unix(), Ends: leaf.NotAfter.Unix()})
	if err == nil {
		err = res.Err()
	}
	return err
}

// keyWarnings are what an operator must know of certificates and keys.
func (p *Peer) keyWarnings(v fsm.View) (out []api.Warning) {
	now, own := p.opts.Wall(), p.renewal.Credentials()
	switch {
	case now.Before(own.Leaf.NotBefore):
		out = append(out, api.Warning{Code: "certificate_not_yet_valid", Text: fmt.Sprintf("this peer's certificate is valid from %s only: the clock was ahead when it was made, or is behind now", own.Leaf.NotBefore.UTC().Format(time.DateOnly)),
			Remedy: "compare 'date' on all hosts; 'trivet cert renew' says why it was not renewed"})
	case now.After(own.Leaf.NotAfter):
		out = append(out, api.Warning{Code: "certificate_expired", Text: "this peer's certificate has expired",
			Remedy: "'trivet cert renew' says why it was not renewed"})
	case now.After(pki.RenewAt(own.Leaf).Add(renewalLate)):
		out = append(out, api.Warning{Code: "certificate_old", Text: fmt.Sprintf("this peer's certificate should have been renewed; it ends on %s", own.Leaf.NotAfter.UTC().Format(time.DateOnly)),
			Remedy: "'trivet cert renew' says why it was not"})
	}
	if now.After(own.CA.NotAfter.Add(-caWarning)) {
		out = append(out, api.Warning{Code: "ca_ends", Text: fmt.Sprintf("the cluster's CA ends on %s, and no certificate outlives it", own.CA.NotAfter.UTC().Format(time.DateOnly)),
			Remedy: "found the cluster anew in time: docs/security.md, 'Another CA'"})
	}
	if r := v.GossipRotation(); r.Stage != fsm.GossipSettled && v.Now() > r.Since.Add(2*fsm.GossipStepTimeout) {
		out = append(out, api.Warning{Code: "gossip_rotation", Text: fmt.Sprintf("the rotation of the gossip key stands at '%v' since %v", r.Stage, v.Now().Sub(r.Since).Round(time.Second)),
			Remedy: "it goes on by itself under a leader; see 'trivet gossip status'"})
	}
	return out
}
