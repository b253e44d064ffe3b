package fsm

import (
	"encoding/binary"
	"iter"
)

// section is one table of the state as it stands in a snapshot and in the
// hash: its records in the order of keys. Indices are not written; load makes
// them anew.
type section struct {
	tag  byte // never changes
	name string
	each func(*data) iter.Seq[any]
	load func(d *data, record []byte) error
}

// sections is all of the state. What is not here is not replicated.
var sections = [...]section{
	single('C', "cluster", func(d *data) *cluster { return &d.cluster }),
	single('P', "position", func(d *data) *position { return &d.position }),
	single('L', "leadership", func(d *data) *Leadership { return &d.lead }),
	many('m', "members", func(d *data) table[Member] { return d.peers.members },
		func(d *data, m Member) { d.peers.putMember(m) }),
	many('s', "sessions", func(d *data) table[Session] { return d.peers.sessions }, loadSession),
	many('j', "join tokens", func(d *data) table[JoinToken] { return d.joins },
		func(d *data, j JoinToken) {
			d.joins.put([]byte(j.ID), j)
			d.arm(j.Expires, dueJoin, []byte(j.ID))
		}),
	many('k', "settings", func(d *data) table[Setting] { return d.settings },
		func(d *data, s Setting) { d.settings.put([]byte(s.Key), s) }),
	many('r', "requests", func(d *data) table[outcome] { return d.requests.byID },
		func(d *data, o outcome) { d.requests.put(o) }),
	many('e', "leases", func(d *data) table[Lease] { return d.leases }, loadLease),
	many('n', "records", func(d *data) table[Record] { return d.nodes.records }, loadRecord),
	many('q', "queue", func(d *data) table[QueuedRequest] { return d.queue.requests }, loadRequest),
	many('c', "claims", func(d *data) table[Claim] { return d.queue.claims }, loadClaim),
	many('b', "documents", func(d *data) table[Blob] { return d.blobs },
		func(d *data, b Blob) { d.blobs.put(b.Hash[:], b) }),
	single('T', "throttle", func(d *data) *throttle { return &d.throttle }),
	many('i', "ports", func(d *data) table[Port] { return d.ports.byID }, loadPort),
	single('I', "pull", func(d *data) *Pull { return &d.ports.pull }),
	single('D', "doors", func(d *data) *doors { return &d.doors }),
	many('y', "inspected", func(d *data) table[Inspected] { return d.nodes.inspected },
		func(d *data, i Inspected) { d.nodes.inspect(i, true, 0) }),
	many('u', "rules", func(d *data) table[Rule] { return d.rules.inOrder }, func(d *data, r Rule) { d.rules.put(r) }),
	many('x', "relays", func(d *data) table[Relay] { return d.relays.bySequence }, func(d *data, r Relay) { d.indexRelay(r) }),
	many('K', "kube nodes", func(d *data) table[KubeNode] { return d.failover.nodes },
		func(d *data, n KubeNode) { d.failover.nodes.put(kubeKey(n.Cluster, n.UID), n) }),
	many('v', "votes", func(d *data) table[KubeBallot] { return d.failover.votes },
		func(d *data, b KubeBallot) { d.failover.putBallot(b) }),
	many('R', "remediations", func(d *data) table[Remediation] { return d.failover.remediations },
		func(d *data, r Remediation) { d.putRemediation(r) }),
	many('p', "pauses", func(d *data) table[FailoverPause] { return d.failover.pauses },
		func(d *data, p FailoverPause) { d.putPause(p) }),
	seldom('G', "gossip keys", func(d *data) *gossip { return &d.gossip }),
	many('O', "operators", func(d *data) table[Operator] { return d.operators },
		func(d *data, o Operator) { d.operators.put([]byte(o.Name), o) }),
	many('h', "holds", func(d *data) table[FailoverHold] { return d.failover.holds },
		func(d *data, h FailoverHold) { d.putHold(h) }),
	many('V', "values", func(d *data) table[Value] { return d.values.byKey }, func(d *data, v Value) { d.values.put(v) }),
	many('g', "groups", func(d *data) table[GroupMember] { return d.groups.members }, func(d *data, m GroupMember) { d.groups.put(m) }),
	many('S', "standings", func(d *data) table[MemberFlags] { return d.peers.flags },
		func(d *data, s MemberFlags) { d.peers.flags.put([]byte(s.Peer), s) }),
	many('M', "marks", func(d *data) table[ConfigMarks] { return d.peers.marks },
		func(d *data, m ConfigMarks) { d.peers.marks.put([]byte(m.Peer), m) }),
	many('X', "removed peers", func(d *data) table[RemovedPeer] { return d.peers.removed },
		func(d *data, r RemovedPeer) { d.peers.removed.put([]byte(r.ID), r) }),
	many('A', "progress", func(d *data) table[Progress] { return d.peers.progress },
		func(d *data, p Progress) { d.peers.progress.put([]byte(p.Peer), p) }),
	many('f', "former members", func(d *data) table[FormerMember] { return d.peers.former },
		func(d *data, f FormerMember) { d.peers.former.put([]byte(f.ID), f) }),
	many('Z', "zones", func(d *data) table[ZoneChoice] { return d.zones },
		func(d *data, c ZoneChoice) { d.zones.put([]byte(c.UID), c) }),
	{tag: 'E', name: "events", each: eachEvent, load: loadEvent},
}

func loadSession(d *data, s Session) {
	d.peers.sessions.put(tokenKey(s.ID), s)
	d.peers.sessionOf.put([]byte(s.Peer), s.ID)
	d.arm(s.Expires, dueSession, tokenKey(s.ID))
}

// single makes the section of one value.
func single[T any](tag byte, name string, at func(*data) *T) section {
	return section{
		tag: tag, name: name,
		each: func(d *data) iter.Seq[any] {
			return func(yield func(any) bool) { yield(*at(d)) }
		},
		load: func(d *data, record []byte) error { return unmarshal(record, at(d)) },
	}
}

// seldom makes the section of one value that is not written while it is zero:
// peers of older log versions do not know it.
func seldom[T interface{ IsZero() bool }](tag byte, name string, at func(*data) *T) section {
	s := single(tag, name, at)
	s.each = func(d *data) iter.Seq[any] {
		return func(yield func(any) bool) {
			if value := *at(d); !value.IsZero() {
				yield(value)
			}
		}
	}
	return s
}

// many makes the section of a table.
func many[T any](tag byte, name string, of func(*data) table[T], put func(*data, T)) section {
	return section{
		tag: tag, name: name,
		each: func(d *data) iter.Seq[any] {
			return func(yield func(any) bool) {
				for _, value := range of(d).all() {
					if !yield(value) {
						return
					}
				}
			}
		},
		load: func(d *data, record []byte) error {
			var value T
			if err := unmarshal(record, &value); err != nil {
				return err
			}
			put(d, value)
			return nil
		},
	}
}

// records iterates over the whole state as it is written: tag, length in four
// bytes, CBOR. What it yields is good until the next step.
func (d *data) records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var buf []byte
		for i := range sections {
			for value := range sections[i].each(d) {
				body := marshal(value)
				buf = append(buf[:0], sections[i].tag)
				buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
				buf = append(buf, body...)
				if !yield(buf) {
					return
				}
			}
		}
	}
}

func sectionOf(tag byte) (section, bool) {
	for i := range sections {
		if sections[i].tag == tag {
			return sections[i], true
		}
	}
	return section{}, false
}
