package fsm

import (
	"cmp"
	"slices"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// notesMember are the kinds that NoteMember looks at.
var notesMember = []Kind{KindOf(membership.PutMember{}), KindOf(membership.UseJoinToken{}), KindOf(membership.Rejoin{}),
	KindOf(membership.MoveMember{})}

// NoteMember adds to members, by server ID, what an entry of the log says of a member
// if it is not refused. It is for what people are shown, and told of hosts, before the
// entry is applied. One that cannot be read says nothing here; it stops the peer when it
// is applied.
func NoteMember(members map[string]membership.Member, data []byte) {
	if len(data) < envelope || !slices.Contains(notesMember, Kind(data[1])) {
		return // most entries; to decode them all would take long
	}
	_, c, err := Decode(data)
	if err != nil {
		return
	}
	switch c := c.(type) {
	case membership.PutMember:
		members[c.Member.ID] = c.Member
	case membership.UseJoinToken:
		members[c.Member.ID] = c.Member
	case membership.Rejoin:
		members[c.Member.ID] = c.Member
	case membership.MoveMember:
		if m, known := members[c.Peer]; known {
			m.Address, m.Gossip, m.API = c.Address, cmp.Or(c.Gossip, m.Gossip), cmp.Or(c.API, m.API)
			members[c.Peer] = m
		}
	}
}
