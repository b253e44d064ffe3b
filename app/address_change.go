package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
)

// Values of telling the others of a new address.
const (
	announceEvery = time.Second
	announceWait  = 3 * time.Second // for a leader, before a peer that knows nothing yet tells
	announceLimit = 3 * time.Second // one peer that is told
	announceSay   = time.Minute     // between two warnings that no peer accepted it
)

// moved returns the identity with the addresses that the configuration and this
// host have now, and keeps it: a host may have another address, or a port, than
// when it joined. What cannot be found out stays as it was.
func (o Options) moved(id datadir.Identity) (datadir.Identity, error) {
	was := id
	id.Address = o.present("cluster", o.Config.Cluster, id.Address)
	id.Gossip = o.present("gossip", o.Config.Gossip, id.Gossip)
	if id.Address == was.Address && id.Gossip == was.Gossip {
		return id, nil
	}
	o.Logger.Info("address of this peer has changed", "from", was.Address, "to", id.Address, "gossip", id.Gossip)
	return id, o.Dir.SaveIdentity(id)
}

// present returns where the others dial a service now. Where the configuration
// names no address, the one that was is kept while this host has it: a host may
// have several, and that one was found from the cluster's side. One that is absent
// need not have moved: see [datadir.Host.AddressNow].
func (o Options) present(key string, a config.Address, was string) string {
	host, _, err := net.SplitHostPort(was)
	if err != nil {
		return was
	}
	now, err := datadir.Advertised(key, a, func() (string, error) {
		at, err := datadir.Host{Config: o.Config}.AddressNow(host)
		if err != nil {
			o.Logger.Warn("find own address failed, keeping the current one; if this host has moved, write "+key+".advertise",
				"address", host, "err", err)
			return host, nil
		}
		return at, nil
	})
	if _, port, _ := net.SplitHostPort(now); err == nil && port == "0" {
		return was // any free port: it was noted when it was known
	}
	if err != nil {
		return was // the configuration was checked before
	}
	return now
}

// announcer makes a new address of this peer known.
type announcer struct {
	id      datadir.Identity
	core    *Core
	forward *cluster.Forwarder
	log     *slog.Logger
}

// announceAddress tells the others where this peer is dialled until its own state says
// the same: while it does not, the leader dials elsewhere, and this peer hears
// of no leader that it could ask.
func (a announcer) announceAddress(ctx context.Context) {
	var said time.Time
	began := time.Now()
	for {
		m, known := a.core.Store.View().Member(a.id.ID)
		if known && m.Address == a.id.Address && m.Gossip == a.id.Gossip {
			return
		}
		// A peer whose log has not caught up cannot know its recorded address; a
		// wrong one may be why no leader reaches it.
		if _, led := a.core.Store.Leader(); known || !led && time.Since(began) > announceWait {
			err := a.advertise(ctx)
			if err != nil && known && time.Since(said) > announceSay {
				said = time.Now()
				a.log.Warn("advertise new address pending, retrying", "from", m.Address, "to", a.id.Address, "err", err)
			}
		}
		if !pace.Wait(ctx, announceEvery) {
			return
		}
	}
}

var errNotAdvertised = errors.New("no other member took it")

// advertise writes the new address to the log, if this peer reaches a leader, or hands it
// to the first other member that takes it. The members are those of raft's
// configuration: a peer that has restarted and hears of no leader has the state of its
// snapshot, which may list no member.
func (a announcer) advertise(ctx context.Context) error {
	errs := []error{errNotAdvertised}
	try := func(do func(context.Context) error) bool {
		limited, cancel := context.WithTimeout(ctx, announceLimit)
		defer cancel()
		err := do(limited)
		errs = append(errs, err)
		return err == nil
	}
	move := membership.MoveMember{Peer: a.id.ID, Address: a.id.Address, Gossip: a.id.Gossip}
	if !a.core.Session.ID().IsZero() && try(func(ctx context.Context) error {
		res, err := a.core.Session.Do(ctx, "", move)
		return errors.Join(err, res.Err())
	}) {
		return nil
	}
	words, err := json.Marshal(cluster.Moved{Address: move.Address, Gossip: move.Gossip})
	if err != nil {
		return err
	}
	for _, srv := range a.core.Store.Servers() {
		_, address, ok := strings.Cut(srv.Address, "@")
		m := membership.Member{ID: srv.ID, Name: srv.ID, Address: address}
		if ok && srv.ID != a.id.ID &&
			try(func(ctx context.Context) error { return a.forward.Tell(ctx, m, cluster.PathMove, words) }) {
			return nil
		}
	}
	return errors.Join(errs...)
}
