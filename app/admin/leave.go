package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Transfer moves leadership to a name or ID, "" for the best voter, and returns who
// leads then. Only the leader can; others say who leads.
func (m *Membership) Transfer(ctx context.Context, to string) (string, error) {
	store := m.Store
	if role, _ := store.Role(); !role.Leader {
		hint := "no leader is known; see 'trivet status'"
		if l, ok := store.Leader(); ok {
			hint = fmt.Sprintf("run it on %s, which leads", m.NameOf(store.View(), l.ID))
		}
		return "", &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: "this peer does not lead",
			Hint: hint}
	}
	// It would close the PXE service first, and open it again when no peer had taken leadership.
	if q := m.Quorum(); q.Live < q.Need {
		return "", conflict("start trivet on the other peers, or see why they do not answer: 'trivet status'",
			"hand leadership on: there is no quorum: %d of %d voters live, %d are needed", q.Live, q.Voters, q.Need)
	}
	var next raftstore.Server // the best one, if none is named
	if to != "" {
		named, err := memberCalled(store.View(), to)
		if err != nil {
			return "", err
		}
		servers := store.Servers()
		i := slices.IndexFunc(servers, func(srv raftstore.Server) bool { return srv.ID == named.ID })
		if i < 0 || !servers[i].Voter || named.ID == m.Self.ID {
			return "", conflict("see 'trivet peers'", "%s is no other voter", named.Name)
		}
		next = servers[i]
	}
	switch err := m.HandOn(ctx, next); {
	case errors.Is(err, logerr.ErrOutcomeUnknown):
		return "", err
	case err != nil:
		return "", conflict("see 'trivet peers'", "%v", err)
	}
	if err := m.awaitLeader(ctx, func(id string) bool { return id != m.Self.ID }); err != nil {
		return "", err
	}
	l, _ := store.Leader()
	return m.NameOf(store.View(), l.ID), nil
}

// awaitLeader waits until a leader of which ok holds is known here.
func (m *Membership) awaitLeader(ctx context.Context, ok func(id string) bool) error {
	const pause = 20 * time.Millisecond
	for {
		if l, known := m.Store.Leader(); known && ok(l.ID) {
			return nil
		}
		if !pace.Wait(ctx, pause) {
			return fmt.Errorf("%w: the new leader is not known yet", logerr.ErrOutcomeUnknown)
		}
	}
}

// Remove takes another peer, by name or ID, out of the cluster.
func (m *Membership) Remove(ctx context.Context, peer string, force bool) error {
	v, err := m.Store.Read(ctx)
	if err != nil {
		return err
	}
	former, err := formerCalled(v, peer)
	switch {
	case err != nil:
		return err
	case former != nil:
		// A former member is named lost, but not while its peer runs in the earlier incarnation: that one ends by
		// itself, having been asked, and then counts as heard.
		if !force && errors.Is(m.Access.AskFormer(ctx, *former), cluster.ErrStillOld) {
			return conflict(fmt.Sprintf("it was asked to stop; look with 'systemctl status trivet' on %s, and repeat this",
				former.Name), "%s answers: its peer runs in the earlier incarnation", former)
		}
		return m.commit(ctx, membership.RemoveMember{ID: former.ID})
	}
	gone, err := memberCalled(v, peer)
	if err != nil {
		return err
	}
	if gone.ID == m.Self.ID {
		return conflict("run 'trivet leave' here, or 'trivet remove' on another peer", "this is the peer you are talking to")
	}
	if !force {
		// A peer that lives should leave by itself, which hands on what it does. The leader decides by what the peer
		// acknowledged within the last second; a session would outlive a dead peer by 10 s.
		switch v, err := m.Safe(ctx, gone.ID); {
		case err != nil:
			return fmt.Errorf("ask the leader whether %s lives: %w", gone.Name, err)
		case v.Live:
			return livingRefusal(v)
		}
		if err := m.strands(ctx, gone.ID); err != nil {
			return err
		}
	}
	if err := m.commit(ctx, membership.RemoveMember{ID: gone.ID, Force: force}); err != nil {
		return err
	}
	is := func(srv raftstore.Server) bool { return srv.ID == gone.ID }
	return m.awaitMembership(ctx, func() bool { return !slices.ContainsFunc(m.Store.Servers(), is) })
}

// Leave takes this peer out of the cluster for good: hand leadership on, be removed, and
// stop once raft counts without it. The log refuses, with the arithmetic, if the rest could
// not go on. Where the leader says meanwhile, or has said before, that this peer is no member,
// it has left: the answer does not wait for a log that no longer answers this peer.
func (m *Membership) Leave(ctx context.Context, force bool) error {
	if isDry(ctx) {
		return m.leave(ctx, force)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-m.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	err := m.leave(ctx, force)
	if err != nil && m.isGone() {
		m.Proposed(true)
		err = nil
	}
	if err == nil {
		m.End(ErrLeft)
	}
	return err
}

func (m *Membership) leave(ctx context.Context, force bool) error {
	if !force {
		if err := m.strands(ctx, m.Self.ID); err != nil {
			return err
		}
	}
	if m.onlyMember(ctx) {
		if !force {
			return conflict(
				"'trivet leave --force' does it: the state of the cluster is wiped with this peer, and this host may join another one",
				"%s is the only member: without it cluster %s ends", m.Self.Name, m.Self.Cluster)
		}
		if isDry(ctx) {
			return &plannedError{Planned{Before: "the only member: " + m.Self.Name + "\n"}}
		}
		m.Proposed(true)
		m.Removed() // no other member remains that could say so
		return nil
	}
	if isDry(ctx) { // it would hand leadership on, and let its workers end
		return m.commit(ctx, membership.RemoveMember{ID: m.Self.ID, Force: force})
	}
	if role, _ := m.Store.Role(); role.Leader {
		if err := m.HandOn(ctx, raftstore.Server{}); err != nil {
			return conflict(
				"let another voter come back or join first ('trivet peers' shows them); one that is dead for ever: 'trivet remove NAME'",
				"this peer leads and cannot hand leadership on: %v", err)
		}
		if err := m.awaitLeader(ctx, func(id string) bool { return id != m.Self.ID }); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	resume, err := m.Rest(limited)
	switch {
	case err != nil && !force:
		return conflict("try again when they have ended, or use --force: what they are processing then ends in error",
			"this peer cannot leave yet: %v", err)
	case err != nil:
		resume = func() {}
	}
	m.Proposed(true)
	if err := m.commit(ctx, membership.RemoveMember{ID: m.Self.ID, Force: force}); err != nil {
		resume()
		m.Proposed(errors.Is(err, logerr.ErrOutcomeUnknown))
		return err
	}
	return m.awaitOut(ctx)
}

// outLimit is how long a peer that leaves waits until it is out of raft's configuration.
const outLimit = 5 * time.Second

// awaitOut lets this peer follow until raft's configuration does not name it. Of two voters the
// other one needs its vote until then, and would never get it from a peer whose log is wiped. The
// leader sends nothing to a peer that it does not count, so the others are asked as well. A
// leader that does not follow in time is waited for by the peer, though not by the caller: the
// peer stops when another says that it is no member; see Ending.
func (m *Membership) awaitOut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, outLimit)
	defer cancel()
	self := func(srv raftstore.Server) bool { return srv.ID == m.Self.ID }
	for slices.ContainsFunc(m.Store.Servers(), self) {
		if m.Disowned(ctx) {
			m.Removed()
			return nil
		}
		if !pace.Wait(ctx, followEvery) {
			return fmt.Errorf(
				"%w: this peer is no member any more, and runs on, since raft still counts its vote; it stops by itself once raft has followed; see 'trivet peers' on another peer",
				logerr.ErrOutcomeUnknown)
		}
	}
	return nil
}

// restLimit is how long a peer that leaves waits for its workers: the others
// would have to fail what these are processing.
const restLimit = 15 * time.Second

// livingRefusal refuses to remove a peer that lives, with the arithmetic of the voters.
func livingRefusal(v Verdict) *api.Error {
	rest := "it has no vote, so the majority stays as it is"
	if v.Votes && v.Voters > 1 {
		left, need := v.Voters-1, (v.Voters-1)/2+1
		rest = fmt.Sprintf("without it %d of %d would live and %d be needed: %d more may be lost instead of %d",
			v.Able-1, left, need, max(v.Able-1-need, 0), max(v.Able-v.Need, 0))
	}
	return conflict(fmt.Sprintf(
		"to take a living peer out run 'trivet leave' on %s; 'trivet remove --force' removes it all the same, and it stops when it finds out",
		v.Peer),
		"%s lives: it answered the leader, %s, within the last second; %d of %d voters live, %d are needed; %s", v.Peer,
		v.Leader, v.Able, v.Voters, v.Need, rest)
}

// formerCalled returns the former member with this ID or name, nil if there is none.
// Where a member has the name, too, only the ID tells them apart.
func formerCalled(v fsm.View, peer string) (*membership.FormerMember, error) {
	var found *membership.FormerMember
	for _, f := range v.FormerMembers() {
		if f.Became != "" || f.ID != peer && f.Name != peer {
			continue
		}
		named := func(of membership.Member) bool { return of.Name == peer }
		if f.ID != peer && (found != nil || slices.ContainsFunc(v.Members(), named)) {
			return nil, conflict("name it by its ID; members have theirs in 'trivet members -o wide'",
				"several hosts are called %s: one of them is former member %s at %s", peer, f.ID, f.Address)
		}
		found = &f
	}
	return found, nil
}
