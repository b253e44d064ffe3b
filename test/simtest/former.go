package simtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// errOtherIncarnation is a connection between peers of two incarnations, which
// neither accepts.
var errOtherIncarnation = errors.New("the other end is of another incarnation")

// meet refuses what passes between hosts of different incarnations. Whichever has
// the lower one learns so, as in a handshake, if its process runs and the answer
// finds its way back.
func (n *Network) meet(from, to string) error {
	n.mu.Lock()
	ours, theirs := n.incarnations[from], n.incarnations[to]
	n.mu.Unlock()
	if ours == theirs {
		return nil
	}
	older, newer := from, to
	if ours > theirs {
		older, newer = to, from
	}
	listening, process := n.host(to), n.host(older)
	if listening == nil || listening.ctx.Err() != nil || process.ctx.Err() != nil {
		return ErrRefused
	}
	if n.blocked(to, from) == nil && !process.gate.Paused() && !n.host(newer).gate.Paused() {
		n.superseded(older)
	}
	return errOtherIncarnation
}

// found puts a host into an incarnation; the first call says what is done with
// processes that learn that they are superseded.
func (n *Network) found(id string, incarnation uint64, superseded func(string)) {
	n.rule(func() {
		if n.incarnations == nil {
			n.incarnations = make(map[string]uint64)
		}
		n.incarnations[id], n.superseded = incarnation, superseded
	})
}

// Found makes a dead peer the only member of its cluster, in a higher incarnation.
// Of the other peers those named are lost; the rest are former members.
func (c *Cluster) Found(p *Peer, lost ...string) {
	c.T.Helper()
	disk := p.Disk.Mount(nil)
	history, err := host.Replay(raftstore.Storage{Log: disk, Stable: disk, Snapshots: disk.Snapshots()})
	c.must(err)
	former := slices.DeleteFunc(history.State.View().MayRun(p.Name),
		func(f membership.FormerMember) bool { return slices.Contains(lost, f.ID) })
	c.must(history.State.Refound(fsm.Refound{
		Index: history.Last, UnixMillis: p.wall().UnixMilli(), NewIncarnation: true, Survivor: p.Name, Former: former,
	}))
	p.Disk = NewDisk(c.rng)
	fresh := p.Disk.Mount(nil)
	c.must(host.Seed(raftstore.Storage{Log: fresh, Stable: fresh, Snapshots: fresh.Snapshots()}, history.State,
		raftstore.Server{ID: p.Name, Address: p.address(), Voter: true}))
	c.adopt(p.Name, history.State.View().Incarnation())
	for _, other := range c.Others(p) {
		other.leaving.Store(true)
	}
}

// storage is the disk of a host whose peer is stopped.
func (p *Peer) storage() raftstore.Storage {
	disk := p.Disk.Mount(nil)
	return raftstore.Storage{Log: disk, Stable: disk, Snapshots: disk.Snapshots()}
}

// adopt puts a host into an incarnation.
func (c *Cluster) adopt(name string, incarnation uint64) {
	c.Net.found(name, incarnation, func(old string) { c.Peer(old).superseded() })
	c.Oracle.found(name, incarnation)
}

// found notes that elections of a peer are of another history from now on.
func (o *Oracle) found(peer string, incarnation uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.histories == nil {
		o.histories = make(map[string]uint64)
	}
	o.histories[peer] = incarnation
}

// foundLike notes that elections of a peer are of the history of another's.
func (o *Oracle) foundLike(like, peer string) {
	o.mu.Lock()
	history, known := o.histories[like]
	o.mu.Unlock()
	if known {
		o.found(peer, history)
	}
}

// superseded ends the process in order, as the daemon does that learns that its
// cluster was founded again.
func (p *Peer) superseded() {
	proc := p.run.Swap(nil)
	if proc == nil {
		return
	}
	p.c.ends.Go(func() {
		if err := proc.stop(); err != nil {
			p.c.Oracle.broken("superseded: %s did not stop: %v", p.Name, err)
		}
		proc.port.sever()
		p.Disk.Crash()
	})
}

// formerAsker asks former members over the simulated network.
type formerAsker struct{ from *Peer }

// AskFormer implements cluster.FormerAsker.
func (a formerAsker) AskFormer(ctx context.Context, f membership.FormerMember) error {
	n := a.from.c.Net
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout/4)
	defer cancel()
	err := n.carry(ctx, a.from.Name, f.ID)
	if errors.Is(err, errOtherIncarnation) {
		if process := n.host(f.ID); process.gate.Paused() {
			<-ctx.Done() // its kernel accepts the connection, and nobody speaks
			return ctx.Err()
		}
		err = errors.Join(cluster.ErrStillOld, err)
	}
	if back := n.carry(ctx, f.ID, a.from.Name); back != nil && !errors.Is(back, errOtherIncarnation) &&
		!errors.Is(back, ErrRefused) {
		return back // the answer, whatever it was, got lost
	}
	if errors.Is(err, ErrRefused) {
		return nil
	}
	return err
}

// JoinAnew makes the host of a former member a peer again, under a new name, by a join
// token; its process must have ended, and its disk is replaced before it asks. The new
// peer is started, and takes the old one's place among the cluster's peers.
func (c *Cluster) JoinAnew(old *Peer, name string, through *Peer) {
	c.T.Helper()
	token := sha256.Sum256([]byte(name))
	c.must(through.commit(membership.AddJoinToken{ID: name, Hash: token, TTL: time.Hour}))
	c.must(through.commit(membership.UseJoinToken{Hash: token,
		Member: membership.Member{ID: name, Name: old.Name, Address: old.hostport(), Version: fsm.Version}}))
	p := &Peer{Name: name, Disk: NewDisk(c.rng), Kernel: old.Kernel, c: c, port: old.port, host: old.Name}
	c.reseat(old, p)
	c.adopt(name, through.Core().Store.View().Incarnation())
	c.must(p.Start())
}

// readmit asks the cluster to admit the host of a former member under a new name, as a
// peer of v0.2.0 does without a token, and changes nothing on that host.
func (c *Cluster) readmit(old *Peer, name string, through *Peer) error {
	return through.commit(membership.Rejoin{Former: old.Name, Member: membership.Member{
		ID: name, Name: old.Name, Address: old.hostport(), Version: fsm.Version,
	}, Key: sha256.Sum256([]byte(name))})
}

// commit sends a command through the peer's session.
func (p *Peer) commit(c fsm.Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), successionLimit)
	defer cancel()
	res, err := p.Core().Session.Do(ctx, "", c)
	if err == nil {
		err = res.Err()
	}
	return err
}
