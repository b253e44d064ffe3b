package admin

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// safeLimit bounds the question what the cluster can lose: a script waits for it.
const safeLimit = time.Second

// Safe asks the leader whether a peer may be stopped now: only a leader that has just
// proved that it leads knows.
func (m *Membership) Safe(ctx context.Context, peer string) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, safeLimit)
	defer cancel()
	of, err := m.member(peer)
	if err != nil {
		return Verdict{}, err
	}
	l, known := m.Store.Leader()
	if !known {
		return Verdict{}, fmt.Errorf("nothing is known for sure: %w", logerr.ErrNoLeader)
	}
	if l.ID == m.Self.ID {
		return m.judgeLeaving(ctx, of)
	}
	to, ok := m.Store.View().Member(l.ID)
	if !ok {
		return Verdict{}, fmt.Errorf("the leader is no member here yet: %w", logerr.ErrNoLeader)
	}
	body, err := m.Forward.Ask(ctx, to, PathPeerSafe+"?peer="+url.QueryEscape(of.ID))
	if err != nil {
		return Verdict{}, fmt.Errorf("%w: %w", logerr.ErrNoLeader, err)
	}
	var v Verdict
	said := Answer{Name: to.Name, Body: body}
	said.decode(&v)
	return v, said.Err
}

// judgeLeaving is the leader's answer.
func (m *Membership) judgeLeaving(ctx context.Context, of membership.Member) (Verdict, error) {
	store := m.Store
	if _, err := store.ConfirmedIndex(ctx); err != nil {
		return Verdict{}, fmt.Errorf("leadership cannot be proved: %w", err)
	}
	servers, last, err := store.Progress()
	if err != nil {
		return Verdict{}, err
	}
	v := store.View()
	var voters []leader.Voter
	live, votes := false, false
	for _, srv := range servers {
		if srv.ID == of.ID {
			live, votes = leader.Lives(srv.Silent), srv.Voter
		}
		if srv.Voter {
			voters = append(voters, leader.Voter{
				ID: srv.ID, Name: m.NameOf(v, srv.ID), Silent: srv.Silent, Behind: last - min(srv.Matched, last),
				Refuses: m.unwilling(v, srv.ID),
			})
		}
	}
	safe := leader.Judge(voters, of.ID)
	return Verdict{
		Peer: of.Name, Live: live, Votes: votes, Safe: len(safe.Reasons) == 0, CanLose: safe.CanLose, Voters: len(voters),
		Able: safe.Able, Need: safe.Need,
		Leader: m.Self.Name, Reasons: safe.Reasons, Sentence: safe.Sentence(of.Name),
	}, nil
}

// unwilling returns why a peer would not lead, as far as this one, the leader,
// knows; "" if it would. What was decided of it is in the log before its own word.
func (m *Membership) unwilling(v fsm.View, id string) string {
	flags := v.MemberFlags(id)
	session, lives := v.SessionOf(id)
	switch {
	case flags.Maintenance:
		return "in maintenance"
	case flags.Observer:
		return "an observer"
	case id == m.Self.ID:
		return api.ErrorText(m.Fit())
	case !lives:
		return "no session in the log"
	}
	return session.Refuses
}
