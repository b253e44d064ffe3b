package lease

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"sort"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/leases"
)

// Group is who is there of a component, as of an index of the log.
type Group struct {
	Members []leases.GroupMember // in the order of their IDs
	Index   uint64
	tag     string // "" if it is not known yet
}

// Join makes an instance one of its component, for as long as its lease is held.
func (s *Service) Join(ctx context.Context, m leases.GroupMember) error {
	return s.do(ctx, leases.JoinGroup(m))
}

// Leave takes an instance out of its component.
func (s *Service) Leave(ctx context.Context, m leases.GroupMember) error {
	return s.do(ctx, leases.LeaveGroup{Component: m.Component, ID: m.ID, Lease: m.Lease, Token: m.Token})
}

// Group returns the live members of a component; an empty group is no error.
func (s *Service) Group(ctx context.Context, component string, r Reading) (Group, error) {
	v, err := s.view(ctx, r)
	if err != nil {
		return Group{}, err
	}
	return groupIn(v, component), nil
}

func groupIn(v fsm.View, component string) Group {
	return Group{Members: v.Group(component), Index: v.Index()}
}

// WatchGroup returns a component's members as soon as their Tag is another than the
// caller knows, or when the wait is over. Who came and went again meanwhile may go
// unseen.
func (s *Service) WatchGroup(ctx context.Context, component, tag string, wait time.Duration) (Group, error) {
	if wait < 0 || wait > MaxWait {
		return Group{}, invalid("wait: a watch waits 0 to %v, not %v", MaxWait, wait)
	}
	watched := s.groups.watch(component)
	defer s.groups.leave(watched)
	changed := func(v fsm.View) bool { now, _ := watched.tagAt(v); return now != tag }
	if err := s.waitForView(ctx, wait, changed); err != nil {
		return Group{}, err
	}
	v, err := s.view(ctx, Linearizable)
	if err != nil {
		return Group{}, err
	}
	g := groupIn(v, component)
	if now, exact := watched.tagAt(v); exact {
		g.tag = now
	}
	return g, nil
}

// After returns the members whose IDs come after another ID.
func (g Group) After(id string) []leases.GroupMember {
	at := sort.Search(len(g.Members), func(n int) bool { return g.Members[n].ID > id })
	return g.Members[at:]
}

// Tag stands for who is there: two groups with equal tags have the same members
// under the same leases, who say the same of themselves.
func (g Group) Tag() string {
	if g.tag != "" {
		return g.tag
	}
	return tagOf(g.Members)
}

func tagOf(members []leases.GroupMember) string {
	sum := sha256.New()
	for _, m := range members {
		writePart(sum, m.ID)
		writePart(sum, m.Lease)
		writePart(sum, m.Metadata)
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(m.Token)))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Owner returns the member that a key belongs to: the one whose weight for the key
// is the greatest (rendezvous hashing, Thaler and Ravishankar 1998). When a member
// comes or goes, only keys of its own move.
func (g Group) Owner(key string) (leases.GroupMember, bool) {
	var owner leases.GroupMember
	var most uint64
	for _, m := range g.Members {
		if w := weight(m.ID, key); w >= most {
			owner, most = m, w
		}
	}
	return owner, len(g.Members) > 0
}

// weight must be the same in every release: two peers of different releases answer
// about one group.
func weight(id, key string) uint64 {
	sum := sha256.New()
	writePart(sum, id)
	writePart(sum, key)
	return binary.BigEndian.Uint64(sum.Sum(nil))
}

// writePart writes a text so that its end cannot be mistaken.
func writePart(w io.Writer, text string) {
	part := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	_, _ = w.Write(part) // a hash takes everything
}
