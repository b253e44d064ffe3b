package entry

import (
	"encoding/binary"
	"iter"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
)

// Position says up to where the log is applied.
type Position struct {
	Index uint64        `cbor:"1,keyasint,omitempty"` // of the last applied entry
	Term  uint64        `cbor:"2,keyasint,omitempty"` // of the same
	Now   Time          `cbor:"3,keyasint,omitempty"` // cluster time
	Floor fencing.Token `cbor:"4,keyasint,omitempty"` // the greatest token a Lead was ever granted
}

// Cluster is what the cluster is. CAKey and GossipKey are secrets: they are
// replicated, and left out of every dump.
type Cluster struct {
	ID        string `cbor:"1,keyasint,omitempty"` // UUID
	CACert    []byte `cbor:"2,keyasint,omitempty"` // PEM
	CAKey     []byte `cbor:"3,keyasint,omitempty"` // PEM
	GossipKey []byte `cbor:"4,keyasint,omitempty"`
	// Incarnation is raised by recovery; peers of a lower one are refused.
	Incarnation uint64 `cbor:"5,keyasint,omitempty"`
	Base        uint64 `cbor:"6,keyasint,omitempty"` // of tokens (docs/design.md#founding)
}

// Leadership is the present leadership as the log knows it. The zero value
// means that none was committed since the cluster was founded or refounded.
type Leadership struct {
	Token fencing.Token `cbor:"1,keyasint,omitempty"`
	Peer  string        `cbor:"2,keyasint,omitempty"` // server ID
	Boot  string        `cbor:"3,keyasint,omitempty"`
	Term  uint64        `cbor:"4,keyasint,omitempty"`
	Index uint64        `cbor:"5,keyasint,omitempty"`
	At    Time          `cbor:"6,keyasint,omitempty"` // when it was committed
}

// State is what all domains of the state share.
type State struct {
	Position Position
	Cluster  Cluster
	Lead     Leadership
	Version  int // the log version that every member knows: the least of all; derived from them
	Events   eventring.Ring
	due      table.Of[table.None] // what ends by itself, in the order of time
}

// Granted is the greatest token that any entry up to now was given.
func (s *State) Granted() fencing.Token { return fencing.At(s.Cluster.Base, s.Position.Index) }

// Now is cluster time.
func (s *State) Now() Time { return s.Position.Now }

// Version2 reports whether every member knows log version 2: the tables and rules
// that came with it. A member that does not would not read them.
func (s *State) Version2() bool { return s.Version >= 2 }

// Class says what ends at a deadline; it is the order within one instant.
type Class byte

// Arm notes that something ends at a time; Disarm takes it back. The record
// itself holds the same time, so that it can be found again. Every entry looks
// at the first deadline only: what does not end costs nothing.
func (s *State) Arm(at Time, c Class, id []byte) { s.due.Put(dueKey(at, c, id), table.None{}) }

// Disarm takes back what Arm noted.
func (s *State) Disarm(at Time, c Class, id []byte) { s.due.Drop(dueKey(at, c, id)) }

// Armed reports whether something is noted to end at a time.
func (s *State) Armed(at Time, c Class, id []byte) bool { return s.due.Has(dueKey(at, c, id)) }

// Deadlines returns how many things are noted to end.
func (s *State) Deadlines() int { return s.due.Size() }

// Over yields what ends up to now, the first first, and takes it out of the deadlines
// before; what follows may note more.
func (s *State) Over() iter.Seq2[Class, []byte] {
	return func(yield func(Class, []byte) bool) {
		for {
			key, _, ok := s.due.First()
			if !ok || Time(binary.BigEndian.Uint64(key)) > s.Position.Now {
				return
			}
			s.due.Drop(key)
			if !yield(Class(key[8]), key[9:]) {
				return
			}
		}
	}
}

func dueKey(at Time, c Class, id []byte) []byte {
	return table.LongKey(uint64(at), append([]byte{byte(c)}, id...))
}

// Txn is one entry at work on the copy of the state that it will become. A domain adds
// its tables to it.
type Txn struct {
	*State
	Header Header
	Token  fencing.Token // of this entry: what it grants, it grants under this
	Term   uint64
	Peers  Peers
}

// Wall is the leader's wall clock, never the 0 that stands for unfinished.
func (t *Txn) Wall() int64 { return max(t.Header.WallMillis, 1) }

// RecordEvent appends an event to the ring. Nothing is recorded in a cluster that has an
// older member, nor where no entry is applied: when a founding begins a new
// history.
func (t *Txn) RecordEvent(e eventring.Event) {
	if !t.Version2() || t.Token.IsZero() {
		return
	}
	e.ID = eventring.ID{Incarnation: t.Cluster.Incarnation, Index: t.Position.Index}
	if last := t.Events.Last(); last.Incarnation == e.ID.Incarnation && last.Index == e.ID.Index {
		e.ID.Seq = last.Seq + 1
	}
	if e.Millis == 0 {
		e.Millis = t.Header.WallMillis
	}
	t.Events.Add(e)
}

// Peers is what domains ask about the peers of the cluster.
type Peers interface {
	// PeerOf returns the server ID of a session's peer; live is false if the session is
	// over. That of a removed peer lives on while it holds claims.
	PeerOf(session fencing.Token) (server string, live bool)
	// MemberName returns the host name of a member, by its server ID.
	MemberName(server string) (name string, member bool)
	// AwaitedFormers names the former members that were not heard under the present
	// leadership, "" if there are none: while there are, no door opens.
	AwaitedFormers() string
}

// NameOf returns the host name of a peer, by its server ID: who reads the event may
// find no member of that ID any more.
func (t *Txn) NameOf(server string) string {
	if name, member := t.Peers.MemberName(server); member {
		return name
	}
	return server
}

// Proposer returns the name of the peer whose session the entry carries, "" if it
// carries none.
func (t *Txn) Proposer() string {
	if server, live := t.Peers.PeerOf(t.Header.Session); live {
		return t.NameOf(server)
	}
	return ""
}

// MemberSession reports whether a session lives and is of a member.
func (t *Txn) MemberSession(session fencing.Token) bool {
	server, live := t.Peers.PeerOf(session)
	if !live {
		return false
	}
	_, member := t.Peers.MemberName(server)
	return member
}
