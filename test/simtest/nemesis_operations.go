package simtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// operationLimit bounds an operation of the nemesis that needs the cluster's help.
const operationLimit = 5 * time.Second

// transfer hands leadership to the next host. Whether that succeeds is no matter.
func (n *nemesis) transfer(p, _ *Peer) (undo func()) {
	core := p.Core()
	if core == nil {
		return nil
	}
	var next *Peer
	for i, q := range n.c.Peers {
		if q == p {
			next = n.c.Peers[(i+1)%len(n.c.Peers)]
		}
	}
	return n.operate(func(ctx context.Context) {
		_ = core.Store.Transfer(ctx, raftstore.Server{ID: next.Name, Address: next.address()})
	})
}

// snapshot has a host write a snapshot and cut its log short.
func (n *nemesis) snapshot(p, _ *Peer) (undo func()) {
	core := p.Core()
	if core == nil {
		return nil
	}
	return n.operate(func(ctx context.Context) { _ = core.Store.Snapshot(ctx) })
}

// operate runs an operation next to the schedule.
func (n *nemesis) operate(do func(context.Context)) (undo func()) {
	n.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
		defer cancel()
		do(ctx)
	})
	return func() {}
}

// operationsLimit bounds how long after the last fault the operations of a schedule
// may still be under way: a rotation of the gossip key waits for peers that are down.
const operationsLimit = 5 * time.Minute

// commit sends a command through any peer until an answer says that it has its effect.
// It may have been carried out before: the nemesis asks for what is idempotent.
func (n *nemesis) commit(cmd fsm.Command, enough ...fsm.Code) {
	var last error
	defer n.under.Delete(&last)
	for end := time.Now().Add(operationsLimit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) { // in a bubble
		core := n.c.someone().Core()
		if core == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
		res, err := core.Session.Do(ctx, "", cmd)
		cancel()
		if last = err; err == nil {
			last = res.Err()
		}
		n.under.Store(&last, fmt.Sprintf("%T: %v", cmd, last))
		if err != nil {
			continue
		}
		if last == nil || slices.Contains(enough, res.Code) {
			return
		}
	}
	n.c.Oracle.broken("operation: %T was not committed within %v: %v", cmd, operationsLimit, last)
}

// join adds a member and takes it out again when the fault is over.
func (n *nemesis) join(_, _ *Peer) (undo func()) {
	if n.extra != nil || n.leaves != nil || n.anyWaits() {
		return nil
	}
	p := n.c.newHost(fmt.Sprintf("x%d", n.joined))
	n.joined++
	n.extra = p
	n.c.must(p.Start())
	leave := make(chan struct{})
	n.running.Go(func() {
		n.commit(membership.PutMember{Member: p.member()})
		<-leave
		p.leaving.Store(true)
		n.handOn(p)
		n.commit(membership.RemoveMember{ID: p.Name}, fsm.NotFound)
		n.gone.Store(p)
	})
	return func() { close(leave) }
}

// handOnPause is after what time an operator asks for a hand-over again. One that fails
// begins a leadership anew, which needs some seconds until it has made voters of non-voters.
const handOnPause = 5 * time.Second

// handOn gives leadership away until the peer does not lead, as leaving does: without a
// successor a leader goes on leading and is refused.
func (n *nemesis) handOn(p *Peer) {
	var last error                                                                                // it is tried again
	for end := time.Now().Add(operationsLimit); time.Now().Before(end); time.Sleep(handOnPause) { // in a bubble
		core := p.Core()
		if core == nil {
			return
		}
		if role, _ := core.Store.Role(); !role.Leader {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
		last = core.HandOn(ctx, raftstore.Server{})
		cancel()
	}
	n.c.Oracle.broken("operation: %s did not give leadership away within %v: %v", p.Name, operationsLimit, last)
}

// left reports whether the extra member was removed and knows it. One that was removed
// before its state named it a member asks the others, which is not simulated here: it
// hears no leader.
func (n *nemesis) left() bool {
	if n.extra == nil || n.gone.Load() != n.extra {
		return false
	}
	if n.extra.told.Load() {
		return true
	}
	core := n.extra.Core()
	if core == nil {
		return false
	}
	_, named := core.Store.View().Member(n.extra.Name)
	return !named
}

// excluded keeps a member from leading, or from voting, unless too few are left.
func excluded(from membership.Exclusion) func(*nemesis, *Peer, *Peer) func() {
	return func(n *nemesis, p, _ *Peer) (undo func()) {
		over := make(chan struct{})
		n.running.Go(func() {
			n.commit(membership.Exclude{Peer: p.Name, From: from, On: true}, fsm.Refused, fsm.NotFound)
			<-over
			if from == membership.FromLeading {
				defer n.lifts(p)()
			}
			n.commit(membership.Exclude{Peer: p.Name, From: from, On: false}, fsm.NotFound)
		})
		return func() { close(over) }
	}
}

// lifts ends a peer's maintenance on that peer, until stop, as 'trivet maintenance off' does
// there: where every voter is in maintenance its end cannot be in the log before.
func (n *nemesis) lifts(p *Peer) (stop func()) {
	done := make(chan struct{})
	n.running.Go(func() {
		for {
			if core := p.Core(); core != nil {
				core.Fitness.Lift()
			}
			select {
			case <-time.After(leader.LiftFor / 4):
			case <-done:
				return
			}
		}
	})
	return func() { close(done) }
}

// rotateKey begins a rotation of the gossip key; one that is under way is refused.
func (n *nemesis) rotateKey(_, _ *Peer) (undo func()) {
	key := bytes.Repeat([]byte{byte(n.struck["gossip-key"] + 1)}, membership.GossipKeySize)
	n.running.Go(func() { n.commit(membership.RotateGossipKey{Key: key}, fsm.Refused, fsm.Conflict) })
	return func() {}
}

// nextNode is the kube node that is struck next.
func (n *nemesis) nextNode() *kubeNode {
	return n.kube.nodes[n.kube.names[(n.struck["node-dies"]+n.struck["node-cut"])%len(n.kube.names)]]
}

// killNode takes the power of a kube node.
func (n *nemesis) killNode(_, _ *Peer) (undo func()) {
	node := n.nextNode()
	n.kube.with(node.darken)
	return func() { n.kube.with(node.wake) }
}

// cutNode cuts a kube node off from everything.
func (n *nemesis) cutNode(_, _ *Peer) (undo func()) {
	node := n.nextNode()
	n.kube.with(func() { node.cut = true })
	return func() { n.kube.with(node.wake) }
}
