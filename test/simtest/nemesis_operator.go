package simtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// operator is the part of a nemesis that does what an operator does with a cluster: makes
// and restores backups, recovers, replaces hosts, upgrades, renews, and changes lists.
type operator struct {
	site   *Site      // nil: none
	lists  *PortTable // nil: none
	load   *Load      // nil: nothing is restored
	backup backup
	seats  int                  // new names so far
	leaves *Peer                // that is to be replaced
	leaver atomic.Pointer[Peer] // the same, once its removal is committed
	did    operatorFigures
}

// operatorFigures count what was done to its end.
type operatorFigures struct{ replaced, finalized, renewed atomic.Int64 }

// backup is a copy of the state, and what had been acknowledged before it was made.
type backup struct {
	state []byte
	acked Acknowledged
}

// operatorKinds are faults that only a site has, by name.
var operatorKinds = map[string]faultKind{
	"backup":       {resource: "backup", shared: true, strike: (*nemesis).makeBackup},
	"restore":      {resource: "membership", shared: true, strike: (*nemesis).restore},
	"recover":      {resource: "membership", shared: true, strike: (*nemesis).recover},
	"replace":      {resource: "membership", shared: true, strike: (*nemesis).replace},
	"renew":        {resource: "certificate", strike: (*nemesis).renew},
	"clock-month":  {resource: ofClock, strike: skewed(25 * 24 * time.Hour)},
	"old-binary":   {resource: ofProcess, strike: (*nemesis).oldBinary},
	"finalize":     {resource: "finalize", shared: true, strike: (*nemesis).finalize},
	"rail":         {resource: "rails", shared: true, strike: (*nemesis).rail},
	"pause-off":    {resource: "failover", shared: true, strike: (*nemesis).pauseFailover},
	"list-away":    {resource: "lists", shared: true, strike: (*nemesis).listsAway},
	"list-changed": {resource: "lists", shared: true, strike: (*nemesis).changeLists},
	"ironic-away":  {resource: "ironic", strike: (*nemesis).ironicAway},
	"device-lies":  {resource: "kube nodes", shared: true, strike: (*nemesis).lie},
	"device-away":  {resource: "kube nodes", shared: true, strike: (*nemesis).deviceAway},
}

// makeBackup keeps a linearizable copy of the state.
func (n *nemesis) makeBackup(_, _ *Peer) (undo func()) {
	core := n.c.someone().Core()
	if core == nil || n.load == nil {
		return nil
	}
	acked := n.load.Acknowledged()
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	v, err := core.Store.Read(ctx)
	if err != nil {
		return nil
	}
	var to bytes.Buffer
	if _, err := v.WriteTo(&to); err != nil {
		return nil
	}
	n.backup = backup{to.Bytes(), acked}
	return func() {}
}

// restore founds the cluster again from the newest backup.
func (n *nemesis) restore(_, _ *Peer) (undo func()) {
	if n.backup.state == nil {
		return nil
	}
	return n.refound(func(h *host.History) (*fsm.State, fsm.Refound) {
		state, err := fsm.Read(bytes.NewReader(n.backup.state))
		n.c.must(err)
		n.load.TakeBack(n.backup.acked)
		if n.site != nil {
			n.site.takeBack()
		}
		state.Adopt(h.State.View())
		return state, fsm.Refound{Index: max(state.View().Index(), h.Last)}
	})
}

// recover founds the cluster again from what the host has that has the most.
func (n *nemesis) recover(_, _ *Peer) (undo func()) {
	return n.refound(func(h *host.History) (*fsm.State, fsm.Refound) {
		return h.State, fsm.Refound{Index: h.Last, Uncommitted: h.Last - min(h.Last, h.Committed)}
	})
}

// refound kills every process, founds the cluster again on one host, and has the others
// join under new names while the schedule goes on.
func (n *nemesis) refound(from func(*host.History) (*fsm.State, fsm.Refound)) func() {
	if n.extra != nil || n.leaves != nil || len(n.ending) > 0 || n.anyWaits() {
		return nil
	}
	for _, p := range n.c.Peers {
		p.Disk.Thaw()
		n.c.must(p.Kill())
	}
	on, history := n.most()
	state, how := from(history)
	how.UnixMillis, how.NewIncarnation, how.Survivor, how.Self = on.wall().UnixMilli(), true, on.Name, on.member()
	if _, known := state.View().Member(on.Name); known {
		how.Self = membership.Member{}
	}
	n.c.must(state.Refound(how))
	on.Disk = NewDisk(n.c.rng)
	st := on.storage()
	n.c.must(host.Seed(st, state, raftstore.Server{ID: on.Name, Address: on.address(), Voter: true}))
	incarnation := state.View().Incarnation()
	n.c.adopt(on.Name, incarnation)
	n.c.ports.certify(on, incarnation)
	n.c.ports.key(on, state.View())
	n.started[on] = time.Time{}
	for _, old := range n.c.Others(on) {
		n.seatAnew(old, state.View())
	}
	n.c.foundings.Add(1)
	return func() {}
}

// most is the host whose log holds the most, with what it holds.
func (n *nemesis) most() (on *Peer, best *host.History) {
	var newest uint64
	for _, p := range n.c.Peers {
		history, err := host.Replay(p.storage())
		n.c.must(err)
		term, err := p.lastTerm()
		n.c.must(err)
		if best == nil || term > newest || term == newest && history.Last > best.Last {
			on, best, newest = p, history, term
		}
	}
	return on, best
}

// lastTerm is the term of the newest entry on the host's disk, or of its snapshot.
func (p *Peer) lastTerm() (uint64, error) {
	st := p.storage()
	last, err := st.Log.LastIndex()
	if err != nil {
		return 0, err
	}
	if last > 0 {
		var e raft.Log
		err := st.Log.GetLog(last, &e)
		return e.Term, err
	}
	kept, err := st.Snapshots.List()
	if err != nil || len(kept) == 0 {
		return 0, err
	}
	return kept[0].Term, nil
}

// seatAnew puts a new peer on the host of another, which joins by a token the cluster whose
// state is v.
func (n *nemesis) seatAnew(old *Peer, v fsm.View) {
	old.leaving.Store(true)
	n.seats++
	home := old.hostName()
	p := &Peer{Name: fmt.Sprintf("%s-%d", home, n.seats), home: home, Disk: NewDisk(n.c.rng), Kernel: old.Kernel, c: n.c,
		Knows: old.Knows, port: old.port, host: old.host, gossip: old.gossip}
	p.skew.Store(old.skew.Load())
	p.waits.Store(true)
	n.c.reseat(old, p)
	n.c.adopt(p.Name, v.Incarnation())
	n.c.ports.certify(p, v.Incarnation())
	n.c.ports.key(p, v)
	if n.down[old] {
		delete(n.down, old)
	}
	token := sha256.Sum256([]byte(p.Name))
	n.running.Go(func() {
		n.commit(membership.AddJoinToken{ID: p.Name, Hash: token, TTL: time.Hour}, fsm.Conflict)
		m := p.member()
		m.Name, m.Version = home, cmp.Or(p.Knows, fsm.Version)
		n.commit(membership.UseJoinToken{Hash: token, Member: m}, fsm.Conflict, fsm.NotFound)
		p.waits.Store(false)
	})
}

func (n *nemesis) anyWaits() bool {
	for _, p := range n.c.Peers {
		if p.waits.Load() {
			return true
		}
	}
	return false
}

// replace takes a host out of the cluster; another one comes in its place.
func (n *nemesis) replace(p, _ *Peer) (undo func()) {
	core := p.Core()
	if n.extra != nil || n.leaves != nil || n.anyWaits() || core == nil {
		return nil
	}
	voters := 0
	for _, server := range core.Store.Servers() {
		if server.Voter {
			voters++
		}
	}
	if voters < len(n.c.Peers) { // an operator looks at the status first
		return nil
	}
	n.leaves = p
	p.leaving.Store(true)
	n.running.Go(func() {
		n.handOn(p)
		n.commit(membership.RemoveMember{ID: p.Name}, fsm.NotFound)
		n.leaver.Store(p)
	})
	return func() {}
}

// replaceLeft puts another peer in the place of one that has left.
func (n *nemesis) replaceLeft() {
	old := n.leaver.Load()
	if old == nil {
		return
	}
	v, known := n.c.newest()
	lead := n.leader()
	if !known || lead == nil || lead == old {
		return
	}
	for _, server := range lead.Core().Store.Servers() {
		if server.ID == old.Name { // its vote may be needed
			return
		}
	}
	n.c.must(old.Kill())
	n.leaver.Store(nil)
	n.leaves = nil
	n.seatAnew(old, v)
	n.did.replaced.Add(1)
}

// renew gives a peer a new certificate, as 'trivet cert renew' does.
func (n *nemesis) renew(p, _ *Peer) (undo func()) {
	proc := p.run.Load()
	if proc == nil || proc.open == nil {
		return nil
	}
	n.running.Go(func() {
		if proc.open.renewal.Renew(proc.core.Store.View()) == nil { // a peer that joins does not know the CA yet
			n.did.renewed.Add(1)
		}
	})
	return func() {}
}

// oldBinary starts a host with the binary of the release before, and upgrades it again.
// It does so only before the upgrade is finalized.
func (n *nemesis) oldBinary(p, _ *Peer) (undo func()) {
	if v, _ := n.c.newest(); p.Core() == nil || v.ClusterVersion() >= fsm.Version {
		return nil
	}
	n.c.must(p.Kill())
	p.Knows = fsm.Version - 1
	return func() {
		p.Disk.Thaw()
		n.c.must(p.Kill())
		p.Knows = fsm.Version
		n.started[p] = time.Time{}
	}
}

// finalize ends the upgrade, asked of a peer. It may be refused.
func (n *nemesis) finalize(p, _ *Peer) (undo func()) {
	core := p.Core()
	if core == nil {
		return nil
	}
	return n.operate(func(ctx context.Context) {
		plan, err := core.Finalizer.Plan(ctx)
		if err == nil && len(plan.Missing()) == 0 && core.Finalizer.Finalize(ctx, plan) == nil {
			n.did.finalized.Add(1)
		}
	})
}

// rail lets something forbid to take a machine's power.
func (n *nemesis) rail(_, _ *Peer) (undo func()) {
	if n.kube == nil {
		return nil
	}
	kinds := []railKind{railOptOut, railCordon, railMaintain, railHost, railBudget}
	kind := kinds[n.c.rng.IntN(len(kinds))]
	node := n.kube.names[n.c.rng.IntN(len(n.kube.names))]
	n.kube.setRail(kind, node, true)
	return func() { n.kube.setRail(kind, node, false) }
}

// pauseFailover pauses failover, as 'trivet failover pause' does.
func (n *nemesis) pauseFailover(_, _ *Peer) (undo func()) {
	over := make(chan struct{})
	n.running.Go(func() {
		n.commit(kubestate.PauseFailover{Cluster: kubeCluster, Paused: true, By: "operator"})
		<-over
		n.commit(kubestate.PauseFailover{Cluster: kubeCluster, By: "operator"})
	})
	return func() { close(over) }
}

// listsAway keeps Ironic from listing its ports.
func (n *nemesis) listsAway(_, _ *Peer) (undo func()) {
	if n.lists == nil {
		return nil
	}
	n.lists.Away(true)
	return func() { n.lists.Away(false) }
}

// changeLists takes a part of the ports off Ironic's list, and puts them back.
func (n *nemesis) changeLists(_, _ *Peer) (undo func()) {
	if n.lists == nil {
		return nil
	}
	all := n.lists.all()
	n.lists.Set(all[:len(all)*9/10]...)
	return func() { n.lists.Set(all...) }
}

// ironicAway cuts a host off from Ironic.
func (n *nemesis) ironicAway(p, _ *Peer) (undo func()) {
	if n.site == nil {
		return nil
	}
	n.site.Cut(p.Name, true)
	return func() { n.site.Cut(p.Name, false) }
}

// lie has the device of a machine that runs switch another one, and the machine vanish.
func (n *nemesis) lie(_, _ *Peer) (undo func()) {
	if n.kube == nil {
		return nil
	}
	node := n.nextNode()
	n.kube.with(func() { node.lies, node.cut = true, true })
	return func() { n.kube.with(node.startByHand) }
}

// deviceAway takes the power of a machine whose device does not answer for a while.
func (n *nemesis) deviceAway(_, _ *Peer) (undo func()) {
	if n.kube == nil {
		return nil
	}
	node := n.nextNode()
	n.kube.setRail(railDevice, node.Name, true)
	n.kube.with(node.darken)
	return func() {
		n.kube.setRail(railDevice, node.Name, false)
		n.kube.with(node.wake)
	}
}
