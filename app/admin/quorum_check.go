package admin

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// answerLimit is how long a peer may take to prove that it lives.
const answerLimit = time.Second

// strands refuses, with the arithmetic, if the voters other than id do not
// answer in a majority at this moment; an observer has no vote. The log refuses
// likewise when it applies the removal, but it learns of a death only when the session
// ends, up to 10 s later: long enough for one host to die and another to leave.
func (m *Membership) strands(ctx context.Context, id string) error {
	v := m.Store.View()
	if v.MemberFlags(id).Observer {
		return nil
	}
	var rest []membership.Member
	for _, other := range v.Voters() {
		if other.ID != id {
			rest = append(rest, other)
		}
	}
	silent := m.silent(ctx, rest)
	if need := len(rest)/2 + 1; len(rest) > 0 && len(rest)-len(silent) < need {
		return conflict("",
			"without it %d members remain, of which %d answer (not %s), and a majority of them is %d: they could not go on",
			len(rest), len(rest)-len(silent), strings.Join(silent, ", "), need)
	}
	return nil
}

// onlyMember reports whether the cluster ends with this peer. It leads then: what a peer
// knows that does not lead may be of before others joined.
func (m *Membership) onlyMember(ctx context.Context) bool {
	if role, _ := m.Store.Role(); !role.Leader {
		return false
	}
	v, err := m.Store.Read(ctx)
	if err != nil {
		return false
	}
	members, servers := v.Members(), m.Store.Servers()
	return len(members) == 1 && members[0].ID == m.Self.ID && len(servers) == 1 && servers[0].ID == m.Self.ID
}

// silent returns the names of the members that do not answer, as themselves, on
// their peers' port.
func (m *Membership) silent(ctx context.Context, members []membership.Member) []string {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	lives := make([]bool, len(members))
	var asking sync.WaitGroup
	for i, other := range members {
		asking.Go(func() {
			if other.ID == m.Self.ID {
				lives[i] = true
				return
			}
			if conn, err := m.Port.DialPeer(ctx, other.ID, other.Address); err == nil {
				lives[i] = conn.Close() == nil
			}
		})
	}
	asking.Wait()
	var out []string
	for i, other := range members {
		if !lives[i] {
			out = append(out, other.Name)
		}
	}
	return out
}
