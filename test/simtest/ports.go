package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/lease/leaderrpc"
	"github.com/trivet-ha/trivet/raftstore/host"
	"github.com/trivet-ha/trivet/test/simnet"
)

const clusterID = "5f0c1f3e-0000-4000-8000-000000000001"

// ports give each peer of a cluster the peers' port of the product: TLS with an identity
// of its own, raft and HTTP/2 on one port, the forwarder, probes, and gossip, over
// test/simnet. A nil *ports gives none: what peers say to each other goes through
// Transport and Call.
type ports struct {
	c   *Cluster
	net *simnet.Net
	ca  *pki.CA

	mu    sync.Mutex
	hosts int
}

// links are the rules of a Network for simnet.
type links struct{ *Network }

// Delay implements simnet.Links.
func (l links) Delay(from, to string) time.Duration {
	if from == to {
		return 0
	}
	q := l.quality(from, to)
	return l.between(q.MinDelay, q.MaxDelay)
}

// Passes implements simnet.Links.
func (l links) Passes(from, to string) bool { return from == to || l.blocked(from, to) == nil }

// Lost implements simnet.Links.
func (l links) Lost(from, to string) bool { return from != to && l.happens(l.quality(from, to).Drop) }

// join makes the ports those of a cluster.
func (o *ports) join(c *Cluster) {
	if o == nil {
		return
	}
	ca, err := pki.NewCA(clusterID, time.Now(), source{c.rng})
	c.must(err)
	o.c, o.ca, o.net = c, ca, simnet.New(links{c.Net})
	c.Net.settle = o.net.Settle
	c.Probes = true
}

// authority is the certificate and the key of the cluster's CA.
func (o *ports) authority() (cert, key []byte) {
	if o == nil {
		return []byte("-----BEGIN CERTIFICATE-----"), []byte("-----BEGIN PRIVATE KEY-----")
	}
	key, err := o.ca.KeyPEM()
	o.c.must(err)
	return o.ca.CertPEM(), key
}

// settle gives a host its address and its peer a certificate.
func (o *ports) settle(p *Peer) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.hosts++
	at := netip.AddrFrom4([4]byte{10, 57, byte(o.hosts >> 8), byte(o.hosts)})
	o.mu.Unlock()
	p.host, p.gossip = at.String(), netip.AddrPortFrom(at, 7450).String()
	if v, known := o.c.newest(); known {
		o.certify(p, v.Incarnation())
		o.key(p, v)
		o.c.Oracle.foundLike(o.c.Peers[0].Name, p.Name)
		return
	}
	o.certify(p, 1)
}

// key gives a peer the gossip keys of a state, as the answer to a join and a founding do.
func (o *ports) key(p *Peer, v fsm.View) {
	if o != nil {
		p.ring = cluster.RingOf(v)
	}
}

// certify gives a peer a certificate of an incarnation, on its disk.
func (o *ports) certify(p *Peer, incarnation uint64) {
	if o == nil {
		return
	}
	made, err := cluster.Issue(o.ca, pki.PeerIdentity(clusterID, p.Name, incarnation), p.wall(), source{o.c.rng})
	o.c.must(err)
	p.credentials = made
}

// openPort is the peers' port of one process, and what works over it. Its methods do
// nothing where it is nil.
type openPort struct {
	process *simnet.Process
	renewal *cluster.Renewal
	access  *cluster.Access
	port    *cluster.Port
	forward *cluster.Forwarder
	line    *cluster.Line
	gossip  *cluster.Gossip
	log     *slog.Logger

	stop func()
	work sync.WaitGroup
}

// open binds the port of a process and puts it into the options of its core.
func (o *ports) open(p *Peer, proc *process, options *app.CoreOptions) error {
	if o == nil {
		return nil
	}
	at := netip.MustParseAddr(p.host)
	// Not gated: memberlist logs under a lock.
	open := &openPort{process: o.net.Start(p.Name, at, proc.gate), log: o.c.plainLogger(p), stop: func() {}}
	proc.open = open
	random := source{o.c.rng}
	open.renewal = cluster.NewRenewal(p.credentials, func(fresh *pki.Credentials) error {
		proc.gate.Wait(proc.port.ctx.Done())
		if proc.gate.Killed() {
			return ErrCrashed
		}
		p.credentials = fresh
		return nil
	}, p.wall, random, open.log)
	end := pki.Endpoint{Credentials: open.renewal.Credentials, Now: p.wall, Tolerance: pki.PeerTolerance,
		Refused: func(err error) { p.refused(err) }}
	open.access = cluster.NewAccess(end, cluster.Known{Members: o.others(p)}, open.log)
	open.access.Over(open.process)
	var err error
	if open.port, err = cluster.NewPort(proc.port.ctx, p.hostport(), open.access); err != nil {
		return err
	}
	open.forward, open.line = cluster.NewForwarder(open.access), cluster.NewLine(open.access)
	options.Raft.Transport = host.NewTransport(open.port, p.address(), open.log)
	options.Raft.Forward, options.Leader, options.Former = open.forward, open.forward, open.access
	options.Upgrade.Hosts = open.forward
	options.Contact.Prober, options.Contact.Returned = open.line, open.port.Redial
	return nil
}

// linger waits until the goroutines of memberlist have ended: a shutdown does not wait for
// its probes, which have time-outs of seconds, and the clock stands still after the bubble's
// own goroutine.
func (o *ports) linger() {
	if o != nil {
		time.Sleep(time.Minute) // in a bubble
	}
}

// others are the addresses that a peer was told at its join.
func (o *ports) others(p *Peer) (all []string) {
	for _, other := range o.c.Peers {
		if other != p {
			all = append(all, other.address())
		}
	}
	return all
}

// refused ends a process that meets a newer incarnation.
func (p *Peer) refused(err error) {
	var other *pki.IncarnationError
	if errors.As(err, &other) && other.Superseded() {
		p.superseded()
	}
}

// serve answers on the port, and gossips.
func (o *openPort) serve(p *Peer, proc *process) error {
	if o == nil {
		return nil
	}
	core := proc.core
	o.access.Follow(core.Store, o.forward.Ask,
		cluster.Own{Stored: core.Stored, RolledBack: func(err error) { p.c.RolledBack(p, err) }})
	by := admission.NewController()
	if err := o.port.Serve(peerRoutes(o, core, by), by, o.log); err != nil {
		return err
	}
	datagrams, err := o.process.Datagrams(p.gossip)
	if err != nil {
		return err
	}
	ring := p.ring
	identity := p.credentials.Identity
	o.gossip, err = cluster.NewGossip(cluster.GossipOptions{
		ID: p.Name, Cluster: identity.Cluster, Incarnation: identity.Incarnation, Binary: "sim", Listen: p.gossip,
		Advertise: p.gossip, Ring: ring, Transport: datagrams,
		Seeds: func() []string { return gossipSeeds(core.Store.View(), p.Name) },
		Hosts: func() []string { return append(gossipSeeds(core.Store.View(), ""), o.access.JoinedAddresses()...) },
		Newer: func(uint64) { p.superseded() }, Proven: o.access.PeerAt, Logger: o.log,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(proc.port.ctx)
	o.stop = stop
	follower := cluster.NewRingFollower(cluster.RingOptions{
		Peer: p.Name, Now: ring, View: core.Store.View, Do: core.Session, Logger: o.log,
		Put: []func(cluster.Ring) error{func(r cluster.Ring) error { p.ring = r; return nil }, o.gossip.SetRing},
	})
	o.work.Go(func() { o.renewal.Run(ctx, core.Store.View) })
	o.work.Go(func() { o.access.Run(ctx) })
	o.work.Go(func() { o.gossip.Run(ctx) })
	o.work.Go(func() { follower.Run(ctx) })
	return nil
}

// gossipSeeds are where the members gossip, but for one.
func gossipSeeds(v fsm.View, but string) (all []string) {
	for _, m := range v.Members() {
		if m.ID != but && m.Gossip != "" {
			all = append(all, m.Gossip)
		}
	}
	return all
}

// peerRoutes are what app answers on the peers' port and the simulation has a use for.
func peerRoutes(o *openPort, core *app.Core, by *admission.Controller) *cluster.Routes {
	routes := cluster.NewRoutes(core.Store, by)
	lending := cluster.AnswerHandler(core.AnswerLending)
	for pattern, h := range map[string]http.Handler{
		"GET " + cluster.PathContact: cluster.ContactHandler(core.Contacts, func() json.RawMessage { return nil }),
		"GET " + cluster.PathAge:     cluster.AgeHandler(core.Store),
		"GET " + cluster.PathRights:  o.access.RightsHandler(core.Store),
		"POST " + cluster.PathMove:   cluster.MoveHandler(core.Session),
		"POST " + leaderrpc.PathStep: lending,
		"GET " + cluster.PathUpgrade: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(cluster.LogVersion{Version: core.Finalizer.Knows()}) // the caller asks again
		}),
		"POST " + cluster.PathUpgrade: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			version, err := strconv.Atoi(r.URL.Query().Get("version"))
			if err == nil {
				err = core.Session.Announce(r.Context(), core.Store, version)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		}),
	} {
		routes.Members(admission.Request, pattern, h)
	}
	routes.Members(admission.Stream, "POST "+leaderrpc.PathAwaitEnd, lending)
	return routes
}

// kill ends the process as far as the network can tell.
func (o *openPort) kill() {
	if o != nil {
		o.process.Kill()
	}
}

// hangUp ends the calls to other peers that are under way.
func (o *openPort) hangUp() {
	if o != nil {
		o.forward.Close()
	}
}

// shut ends everything that has been opened, after the core.
func (o *openPort) shut() (err error) {
	if o == nil {
		return nil
	}
	o.stop()
	if o.gossip != nil {
		err = o.gossip.Drop()
	}
	o.work.Wait()
	if o.line != nil {
		o.line.Close()
		err = errors.Join(err, o.port.Close())
	}
	o.process.Kill()
	if err != nil {
		return fmt.Errorf("close the peers' port: %w", err)
	}
	return nil
}
