package fsm

import "maps"

func checkRelays(d *data, p *problems) {
	all := d.relays
	pending, known, used, ended := 0, 0, map[string]relayUse{}, 0
	for key, r := range all.bySequence.all() {
		p.want(string(key) == string(tokenKey(r.Sequence)) && !r.Sequence.IsZero() && r.Sequence <= d.granted(), "relay %v is filed under %x", r.Sequence, key)
		checkRelay(d, p, r)
		if r.State == RelayPending {
			pending++
		}
		if r.Node != "" {
			known++
		}
		blob, _ := d.blobs.get(r.Document[:])
		for _, s := range r.shares() {
			use := used[s.key]
			use.all.add(1, len(blob.Data))
			if r.State == RelayPending {
				use.pending.add(1, len(blob.Data))
			} else {
				p.want(all.ended.has(s.member(r.Sequence)), "relay %v has ended and is missing from %s", r.Sequence, s.name)
				ended++
			}
			used[s.key] = use
		}
	}
	size, total := all.bySequence.size(), used["all"].all
	p.want(!total.exceeds(relaySum{MaxRelays, MaxRelayBytes}), "%d relays of %d bytes", total.documents, total.bytes)
	counted := map[string]relayUse{}
	for key, use := range all.used.all() {
		counted[string(key)] = use
	}
	p.want(maps.Equal(used, counted), "the shares of relays hold %v, counted are %v", used, counted)
	p.want(all.pending.size() == pending, "%d relays are pending, %d in the index", pending, all.pending.size())
	p.want(all.ended.size() == ended, "the relays that have ended are %d times in shares, %d in the index", ended, all.ended.size())
	p.want(all.byDocument.size() == size, "%d relays, %d by their documents", size, all.byDocument.size())
	p.want(all.byNode.size() == known, "%d relays are of nodes, %d in the index", known, all.byNode.size())
}

func checkRelay(d *data, p *problems, r Relay) {
	key, now := tokenKey(r.Sequence), d.position.Now
	p.want(r.State >= RelayPending && r.State <= RelayFailed, "relay %v is in state %v", r.Sequence, r.State)
	p.want(r.Node == "" || validNode(r.Node) == nil && d.relays.byNode.has(nodeKey(r.Node, r.Sequence)), "relay %v is missing from node %q", r.Sequence, r.Node)
	p.want(!r.Document.IsZero() && d.relays.byDocument.has(r.documentKey()), "relay %v is missing from document %v", r.Sequence, r.Document)
	p.want(len(r.Source) <= maxRelaySource, "relay %v has the source %q", r.Sequence, r.Source)
	p.want(r.Tries >= 0 && (!r.Open || r.State == RelayPending), "relay %v is %v after %d attempts, the last one open: %v", r.Sequence, r.State, r.Tries, r.Open)
	p.want(len(r.Reason) <= 2*maxRelayReason && (r.State != RelayFailed || r.Reason != ""), "relay %v is %v because of %q", r.Sequence, r.State, r.Reason)
	p.want(0 <= r.Accepted && r.Accepted <= now && r.Deadline > r.Accepted && 0 <= r.Absent && r.Absent <= max(now, 1),
		"relay %v, accepted %v, is tried until %v, absent since %v, now is %v", r.Sequence, r.Accepted, r.Deadline, r.Absent, now)
	if r.State == RelayPending {
		p.want(d.relays.pending.has(key) && r.Expires == 0 && r.EndedMillis == 0, "relay %v is pending and has ended", r.Sequence)
		return
	}
	p.want(r.EndedMillis != 0 && r.Expires <= now.Add(MaxRelayKeep), "relay %v is %v and kept until %v, now is %v", r.Sequence, r.State, r.Expires, now)
}
