package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// surveyLimit bounds the question to one host: a lost SYN is sent again after
// one second and after three.
const surveyLimit = 4 * time.Second

// Presence is what a host answered that was asked whether its peer runs.
type Presence int

// The answers. A host that rejects connections with TCP resets or "port
// unreachable" in the name of a peer that runs looks Stopped: only a packet filter
// rule against the peers' port does that.
const (
	// Silent is no answer, or none of a peer: the peer may run, cut off or hung.
	Silent Presence = iota
	// Stopped is a host that is up and on which nothing listens at the peers' port,
	// at each of its addresses.
	Stopped
	// Running is a peer of the cluster, of any incarnation.
	Running
)

// Asked is a peer with what its host answered.
type Asked struct {
	membership.FormerMember
	Presence Presence
	Detail   string // for people: what was seen
}

// Surveyor asks from outside the cluster, while the peer of this host is stopped,
// whether other peers run.
type Surveyor struct {
	// CAs are those of which a peer's certificate is a proof.
	CAs []*x509.Certificate
	// Gossip are the identity, the ring and the port under which gossip is asked
	// too; an empty ring: it is not.
	Gossip GossipOptions

	lookup lookupHost // nil: of the system
}

// Ask asks all at once. It takes at most surveyLimit for a host, and returns an
// error only if it cannot ask.
func (s Surveyor) Ask(ctx context.Context, peers []membership.FormerMember) (asked []Asked, err error) {
	if len(peers) == 0 {
		return nil, nil
	}
	ping := func(context.Context, membership.Member) error { return errors.New("not asked by gossip") }
	if len(s.Gossip.Ring.Keys) > 0 {
		o := s.Gossip
		o.Seeds = func() []string { return nil }
		o.Hosts = func() (hosts []string) {
			for _, p := range peers {
				hosts = append(hosts, p.Gossip)
			}
			return hosts
		}
		o.Newer = func(uint64) {} // a peer that tells it answers the ping as well
		o.Logger = slog.New(slog.DiscardHandler)
		var gossip *Gossip // no := below, which would give the deferred function an err of its own
		if gossip, err = NewGossip(o); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, gossip.Drop()) }()
		ping = gossip.Ping
	}
	if s.lookup == nil {
		s.lookup = net.DefaultResolver.LookupHost
	}
	asked = make([]Asked, len(peers))
	var all sync.WaitGroup
	for i, peer := range peers { // bounded by membership.MaxFormer
		all.Go(func() {
			limited, cancel := context.WithTimeout(ctx, surveyLimit)
			defer cancel()
			asked[i] = s.ask(limited, peer, ping)
		})
	}
	all.Wait()
	return asked, ctx.Err()
}

// ask asks one host over both ways, at all its addresses.
func (s Surveyor) ask(ctx context.Context, peer membership.FormerMember,
	ping func(context.Context, membership.Member) error) Asked {
	out := Asked{FormerMember: peer, Presence: Stopped}
	addresses, err := s.lookup.allOf(ctx, peer.Addresses())
	if err != nil {
		out.Presence, out.Detail = Silent, err.Error()
	}
	// A name that cannot be resolved is not pinged: the peers' port tells of that.
	gossip, _ := s.lookup.all(ctx, peer.Gossip)
	presences, details := make([]Presence, len(addresses)), make([]string, len(addresses))
	heard := make([]error, len(gossip))
	var asking sync.WaitGroup
	for i, address := range gossip { // at most maxAddresses, as below
		// No server ID: each peer with these keys answers.
		asking.Go(func() { heard[i] = ping(ctx, membership.Member{Gossip: address}) })
	}
	for i, address := range addresses {
		asking.Go(func() { presences[i], details[i] = s.dial(ctx, address) })
	}
	asking.Wait()
	for i, presence := range presences {
		if i == 0 || presence == Running || presence == Silent && out.Presence == Stopped {
			out.Presence, out.Detail = presence, details[i]
		}
	}
	if i := slices.Index(heard, nil); i >= 0 && out.Presence != Running {
		out.Presence, out.Detail = Running, "its gossip answers at "+gossip[i]
	}
	return out
}

// dial asks at the peers' port of one address. The certificate that is shown there proves a peer,
// whether it is still valid or not.
func (s Surveyor) dial(ctx context.Context, address string) (Presence, string) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return Stopped, "its host is up, and nothing listens at " + address
	}
	if err != nil {
		return Silent, err.Error()
	}
	var who pki.Identity
	shake := tls.Client(conn, pki.SurveyTLS(s.CAs, protocolHTTP, func(id pki.Identity) { who = id }))
	err = shake.HandshakeContext(ctx)
	if closing := conn.Close(); err == nil && closing != nil {
		err = closing
	}
	if who.Cluster != "" {
		return Running, fmt.Sprintf("%s answers at %s as a peer of incarnation %d", who, address, who.Incarnation)
	}
	return Silent, fmt.Sprintf(
		"a process accepts connections at %s and does not prove to be a peer of this cluster (%v): a peer that hangs, or another program",
		address, err)
}
