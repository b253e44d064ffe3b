package admin

import (
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

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
