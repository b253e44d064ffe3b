package simtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/lease"
	"github.com/trivet-ha/trivet/test/history"
)

const (
	// leaseLoss is how many of the messages between clients and peers are lost.
	leaseLoss = 0.04
	// leaseTry is how long a client waits for an answer.
	leaseTry = 1500 * time.Millisecond
)

// newBorrower returns a client of leases somewhere on the network.
func newBorrower(c *Cluster, h *history.History, id int) *history.Borrower {
	b := &history.Borrower{ID: id, Name: fmt.Sprintf("client-%d", id), TTL: leaseTTL, Leases: []string{"db", "disk"},
		History: h, Rand: c.rng, Rest: rest, Broken: c.Oracle.broken}
	b.Try = func(in history.LeaseCall) (history.Told, error) { return c.askLease(b.Name, in) }
	for _, p := range c.Peers {
		q := Quality{MinDelay: time.Millisecond, MaxDelay: 20 * time.Millisecond, Drop: leaseLoss}
		c.Net.SetLink(b.Name, p.Name, q)
		c.Net.SetLink(p.Name, b.Name, q)
	}
	return b
}

// askLease asks a peer once. An error says that there is no answer.
func (c *Cluster) askLease(client string, in history.LeaseCall) (history.Told, error) {
	p := c.Peers[c.rng.IntN(len(c.Peers))]
	ctx, cancel := context.WithTimeout(context.Background(), leaseTry)
	defer cancel()
	out, err := Call(ctx, c.Net, client, p.Name, func(ctx context.Context) (history.Told, error) {
		core := p.Core()
		if core == nil {
			return history.Told{}, ErrRefused
		}
		return asked(ctx, core.Lending, in)
	})
	out.Returned = time.Now().UnixNano()
	return out, err
}

// valueUnder is the key of the value that is written under a lease.
func valueUnder(lease string) string { return "under." + lease }

// asked is what the API does with a request.
func asked(ctx context.Context, s *lease.Service, in history.LeaseCall) (out history.Told, err error) {
	switch in.Verb {
	case history.Acquire:
		g, _, err := s.Acquire(ctx,
			lease.Acquisition{Name: in.Lease, Holder: in.Holder, TTL: in.TTL, Takeover: in.Takeover, Request: in.Data})
		return answered(history.Told{Holder: g.Holder, Token: g.Token}, err)
	case history.Renew:
		g, err := s.Renew(ctx, in.Lease, in.Holder, in.Token)
		return answered(history.Told{Holder: g.Holder, Token: g.Token}, err)
	case history.Release:
		_, err := s.Release(ctx, in.Lease, in.Holder, in.Token)
		return answered(history.Told{}, err)
	case history.Write:
		v, err := s.Put(ctx, valueUnder(in.Lease), []byte(in.Data), leases.Condition{Lease: in.Lease, Token: in.Token},
			in.Data)
		return answered(history.Told{Token: v}, err)
	case history.Read:
		v, err := s.Value(ctx, valueUnder(in.Lease), lease.Linearizable)
		return answered(history.Told{Token: v.Version, Data: string(v.Data)}, err)
	}
	g, err := s.Get(ctx, in.Lease, lease.Linearizable)
	out, err = answered(history.Told{Holder: g.Holder, Token: g.Token}, err)
	if out.Said == history.Yes && g.Holder == "" {
		out.Said = history.Over
	}
	return out, err
}

// answered sorts what a peer said. An error is left where it said nothing.
func answered(out history.Told, err error) (history.Told, error) {
	var held *lease.Held
	var said *fsm.Error
	switch {
	case err == nil:
		out.Said = history.Yes
	case errors.As(err, &held):
		out.Said, out.Holder, out.Token = history.Held, held.Holder, held.Token
	case !errors.As(err, &said):
		return out, err
	case said.Code == fsm.Expired:
		out.Said = history.Over
		_, rest, _ := strings.Cut(said.Message, "under token ")
		number, _, _ := strings.Cut(rest, ",")
		out.Token, _ = fencing.ParseToken(number) // of an acquisition; others do not say
	case said.Code == fsm.Fenced:
		out.Said = history.Fenced
	case said.Code == fsm.NotFound:
		out.Said = history.Nothing
	default:
		return out, err
	}
	return out, nil
}
