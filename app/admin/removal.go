package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// refuseLiving refuses to remove a peer that lives: it should leave by itself,
// which hands on what it does. The leader decides by what the peer acknowledged
// within the last second; a session would outlive a dead peer by 10 s.
func (m *Membership) refuseLiving(ctx context.Context, of membership.Member) error {
	v, err := m.Safe(ctx, of.ID)
	if err != nil {
		return fmt.Errorf("ask the leader whether %s lives: %w", of.Name, err)
	}
	if !v.Live {
		return nil
	}
	return livingRefusal(v)
}

// livingRefusal is the refusal, with the arithmetic of the voters.
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

// removeFormer names a former member lost. It refuses while its peer runs in the
// earlier incarnation: that one ends by itself, having been asked, and then counts
// as heard.
func (m *Membership) removeFormer(ctx context.Context, f membership.FormerMember, force bool) error {
	if !force && errors.Is(m.Access.AskFormer(ctx, f), cluster.ErrStillOld) {
		return conflict(fmt.Sprintf("it was asked to stop; look with 'systemctl status trivet' on %s, and repeat this",
			f.Name),
			"%s answers: its peer runs in the earlier incarnation", f)
	}
	return m.commit(ctx, membership.RemoveMember{ID: f.ID})
}
