package fsm

import (
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// State is the replicated state. It belongs to one goroutine; what others
// read are its views.
type State struct{ now *data }

// data is one version of everything. A published data never changes: Apply
// works on a copy, whose tables share what did not change.
type data struct {
	cluster  cluster
	position position
	lead     Leadership
	settings table[Setting] // by key
	requests requests
	blobs    table[Blob] // by hash
	events   eventRing
	due      table[none] // what ends by itself, in the order of time; see expiry.go
	memberTables
	leaseTables
	nodeTables
	pxeTables
	kubeTables
}

// position says up to where the log is applied.
type position struct {
	Index uint64        `cbor:"1,keyasint,omitempty"` // of the last applied entry
	Term  uint64        `cbor:"2,keyasint,omitempty"` // of the same
	Now   Time          `cbor:"3,keyasint,omitempty"` // cluster time
	Floor fencing.Token `cbor:"4,keyasint,omitempty"` // the greatest token a Lead was ever granted
}

// New returns the state before the first entry.
func New() *State {
	return &State{&data{
		settings:     newTable[Setting](),
		requests:     newRequests(),
		blobs:        newTable[Blob](),
		due:          newTable[none](),
		memberTables: memberTables{peers: newPeers(), joins: newTable[JoinToken](), operators: newTable[Operator]()},
		leaseTables:  leaseTables{leases: newTable[Lease](), values: newValueStore(), groups: newGroups()},
		nodeTables:   nodeTables{nodes: newNodes(), queue: newQueue(), rules: newRules(), relays: newRelays()},
		pxeTables:    pxeTables{ports: newPorts()},
		kubeTables:   kubeTables{failover: newFailover(), zones: newTable[ZoneChoice]()},
	}}
}

// View returns the present state. It costs nothing and never changes.
func (s *State) View() View { return View{s.now} }

// Apply takes one committed entry, in the order of the log. It is total: a
// refusal is a Result as well, and changes nothing but the index, the clock
// and what ends with it. Code UnknownEntry changes nothing at all and tells
// the caller to stop the peer (promise 8).
func (s *State) Apply(e Entry) Result {
	next := *s.now
	res := next.apply(e)
	if res.Code != UnknownEntry {
		s.now = &next
	}
	return res
}

// txn is one entry at work on the copy it will become.
type txn struct {
	*data
	header Header
	token  fencing.Token // of this entry: what it grants, it grants under this
	term   uint64
}

func (d *data) apply(e Entry) Result {
	if e.Index <= d.position.Index {
		return refuse(UnknownEntry, "entry %d follows entry %d: the log and the state do not belong together", e.Index, d.position.Index)
	}
	h, c, err := Decode(e.Data)
	if err != nil && !skippable(e.Data, &h) {
		return refuse(UnknownEntry, "%v", err)
	}
	t := &txn{data: d, header: h, token: fencing.At(d.cluster.Base, e.Index), term: e.Term}
	d.position.Index, d.position.Term = e.Index, e.Term
	d.position.Now = max(d.position.Now, h.Time)
	t.expire()
	if c == nil {
		return Result{Token: t.token}
	}
	return t.admit(c)
}

// skippable reports whether data holds an unknown kind that may be skipped,
// and reads its header: time passes all the same.
func skippable(data []byte, h *Header) bool {
	header, kind, _, err := open(data)
	if err != nil || !kind.Ignorable() {
		return false
	}
	if _, known := lookup(kind); known {
		return false // known but unreadable
	}
	*h = header
	return true
}

// admit executes a command unless its duty, its session or its request ID
// forbids it.
func (t *txn) admit(c Command) Result {
	if tok := t.header.Token; !tok.IsZero() && tok != t.lead.Token {
		return refuse(StaleToken, "token %v is not of the present leadership, whose token is %v", tok, t.lead.Token)
	}
	row, _ := rowOf(c)
	if !t.header.Session.IsZero() {
		if res, over := t.join(row.kind); over {
			return res
		}
	}
	before := *t.data
	res := row.apply(t, c)
	if res.Code != OK {
		*t.data = before // a refusal changes nothing
	}
	if res.Token.IsZero() {
		res.Token = t.token
	}
	t.remember(row.kind, res)
	return res
}

// now is the cluster time of this entry.
func (t *txn) now() Time { return t.position.Now }
