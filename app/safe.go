package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// safeLimit bounds the question what the cluster can lose: a script waits for it.
const safeLimit = time.Second

// Safe implements admin.Safety. Only a leader that has just proved that it leads
// knows; everybody else asks it.
func (p *Peer) Safe(ctx context.Context, peer string) (admin.Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, safeLimit)
	defer cancel()
	m, err := p.member(peer)
	if err != nil {
		return admin.Verdict{}, err
	}
	l, known := p.core.Store.Leader()
	if !known {
		return admin.Verdict{}, fmt.Errorf("nothing is known for sure: %w", raftstore.ErrNoLeader)
	}
	if l.ID == p.id.ID {
		return p.judge(ctx, m)
	}
	to, ok := p.core.Store.View().Member(l.ID)
	if !ok {
		return admin.Verdict{}, fmt.Errorf("the leader is no member here yet: %w", raftstore.ErrNoLeader)
	}
	body, err := p.forward.Ask(ctx, to, admin.PathPeerSafe+"?peer="+url.QueryEscape(m.ID))
	if err != nil {
		return admin.Verdict{}, fmt.Errorf("%w: %w", raftstore.ErrNoLeader, err)
	}
	var v admin.Verdict
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("decode response from %s: %w", to.Name, err)
	}
	return v, nil
}

// judge is the leader's answer.
func (p *Peer) judge(ctx context.Context, m fsm.Member) (admin.Verdict, error) {
	store := p.core.Store
	if _, err := store.ConfirmedIndex(ctx); err != nil {
		return admin.Verdict{}, fmt.Errorf("leadership cannot be proved: %w", err)
	}
	servers, last, err := store.Progress()
	if err != nil {
		return admin.Verdict{}, err
	}
	v := store.View()
	var voters []leader.Voter
	live, votes := false, false
	for _, srv := range servers {
		if srv.ID == m.ID {
			live, votes = leader.Lives(srv.Silent), srv.Voter
		}
		if srv.Voter {
			voters = append(voters, leader.Voter{
				ID: srv.ID, Name: p.nameOf(v, srv.ID), Silent: srv.Silent, Behind: last - min(srv.Matched, last), Refuses: p.unwilling(v, srv.ID),
			})
		}
	}
	safe := leader.Judge(voters, m.ID)
	return admin.Verdict{
		Peer: m.Name, Live: live, Votes: votes, Safe: len(safe.Reasons) == 0, CanLose: safe.CanLose, Voters: len(voters), Able: safe.Able, Need: safe.Need,
		Leader: p.id.Name, Reasons: safe.Reasons, Sentence: safe.Sentence(m.Name),
	}, nil
}

// unwilling returns why a peer would not lead, as far as this one, the leader,
// knows; "" if it would. What was decided of it is in the log before its own word.
func (p *Peer) unwilling(v fsm.View, id string) string {
	flags := v.MemberFlags(id)
	session, lives := v.SessionOf(id)
	switch {
	case flags.Maintenance:
		return "in maintenance"
	case flags.Observer:
		return "an observer"
	case id == p.id.ID:
		return api.ErrorText(p.core.Fitness.Fit())
	case !lives:
		return "no session in the log"
	}
	return session.Refuses
}
