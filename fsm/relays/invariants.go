package relays

import (
	"maps"

	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

func checkRelays(t Txn, p *valid.Problems) {
	all := t.Tables
	pending, known, used, ended, failed := 0, 0, map[string]relayUse{}, 0, 0
	for key, r := range all.bySequence.All() {
		p.Want(string(key) == string(table.TokenKey(r.Sequence)) && !r.Sequence.IsZero() && r.Sequence <= t.Granted(),
			"relay %v is filed under %x", r.Sequence, key)
		checkRelay(t, p, r)
		if r.State == Pending {
			pending++
		}
		if r.Node != "" {
			known++
		}
		blob, _ := t.Blobs.Get(r.Document)
		for _, s := range r.shares() {
			use := used[s.key]
			use.all.add(1, len(blob.Data))
			if r.State == Pending {
				use.pending.add(1, len(blob.Data))
			} else {
				p.Want(all.ended.Has(s.member(r.Sequence)), "relay %v has ended and is missing from %s", r.Sequence, s.name)
				ended++
			}
			if r.State == Failed {
				p.Want(all.failed.Has(s.member(r.Sequence)), "relay %v has failed and is missing from %s", r.Sequence, s.name)
				failed++
			}
			used[s.key] = use
		}
	}
	size, total := all.bySequence.Size(), used["all"].all
	p.Want(!total.exceeds(relaySum{MaxRelays, MaxBytes}), "%d relays of %d bytes", total.documents, total.bytes)
	counted := map[string]relayUse{}
	for key, use := range all.used.All() {
		counted[string(key)] = use
	}
	p.Want(maps.Equal(used, counted), "the shares of relays hold %v, counted are %v", used, counted)
	p.Want(all.pending.Size() == pending, "%d relays are pending, %d in the index", pending, all.pending.Size())
	p.Want(all.ended.Size() == ended, "the relays that have ended are %d times in shares, %d in the index", ended,
		all.ended.Size())
	p.Want(all.failed.Size() == failed, "the relays that have failed are %d times in shares, %d in the index", failed,
		all.failed.Size())
	p.Want(all.byDocument.Size() == size, "%d relays, %d by their documents", size, all.byDocument.Size())
	p.Want(all.byNode.Size() == known, "%d relays are of nodes, %d in the index", known, all.byNode.Size())
}

func checkRelay(t Txn, p *valid.Problems, r Relay) {
	key, now := table.TokenKey(r.Sequence), t.Position.Now
	p.Want(r.State >= Pending && r.State <= Failed, "relay %v is in state %v", r.Sequence, r.State)
	p.Want(r.Node == "" || valid.Node(r.Node) == nil && t.byNode.Has(table.NameKey(r.Node, r.Sequence)),
		"relay %v is missing from node %q", r.Sequence, r.Node)
	p.Want(!r.Document.IsZero() && t.byDocument.Has(r.documentKey()), "relay %v is missing from document %v", r.Sequence,
		r.Document)
	p.Want(r.After < r.Sequence, "relay %v comes after %v", r.Sequence, r.After)
	p.Want(len(r.Source) <= maxRelaySource, "relay %v has the source %q", r.Sequence, r.Source)
	p.Want(r.Tries >= 0 && (!r.Open || r.State == Pending), "relay %v is %v after %d attempts, the last one open: %v",
		r.Sequence, r.State, r.Tries, r.Open)
	p.Want(len(r.Reason) <= 2*maxRelayReason && (r.State != Failed || r.Reason != ""), "relay %v is %v because of %q",
		r.Sequence, r.State, r.Reason)
	p.Want(0 <= r.Accepted && r.Accepted <= now && r.Deadline > r.Accepted && 0 <= r.Absent && r.Absent <= max(now, 1),
		"relay %v, accepted %v, is tried until %v, absent since %v, now is %v", r.Sequence, r.Accepted, r.Deadline, r.Absent,
		now)
	if r.State == Pending {
		p.Want(t.pending.Has(key) && r.Expires == 0 && r.EndedMillis == 0, "relay %v is pending and has ended", r.Sequence)
		return
	}
	p.Want(r.EndedMillis != 0 && r.Expires <= now.Add(MaxKeep), "relay %v is %v and kept until %v, now is %v", r.Sequence,
		r.State, r.Expires, now)
}
