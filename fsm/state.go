package fsm

import (
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// State is the replicated state. It belongs to one goroutine; what others
// read are its views.
type State struct{ now *data }

// New returns the state before the first entry.
func New() *State {
	return &State{&data{}}
}

// Founded returns the state of a new cluster as if Found were the entry at
// index 1: what `trivet init` writes as the first snapshot. wall is for display.
func Founded(c Found, wall time.Time) (*State, error) {
	data, err := Encode(Header{WallMillis: wall.UnixMilli()}, c)
	if err != nil {
		return nil, fmt.Errorf("found cluster: %w", err)
	}
	s := New()
	if err := s.Apply(Entry{Index: 1, Term: 1, Data: data}).Err(); err != nil {
		return nil, fmt.Errorf("found cluster: %w", err)
	}
	return s, nil
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

func (d *data) apply(e Entry) Result {
	if e.Index <= d.shared.Position.Index {
		return entry.Refuse(UnknownEntry, "entry %d follows entry %d: the log and the state do not belong together", e.Index,
			d.shared.Position.Index)
	}
	h, c, err := Decode(e.Data)
	if err != nil && !skippable(e.Data, &h) {
		return entry.Refuse(UnknownEntry, "%v", err)
	}
	t := d.txn()
	t.Header, t.Token, t.Term = h, fencing.At(d.shared.Cluster.Base, e.Index), e.Term
	d.shared.Position.Index, d.shared.Position.Term = e.Index, e.Term
	d.shared.Position.Now = max(d.shared.Position.Now, h.Time)
	t.expire()
	if c == nil {
		return Result{Token: t.Token}
	}
	return t.admit(c)
}

// expire ends everything whose deadline is not after cluster time.
func (t *txn) expire() {
	for class, id := range t.Over() {
		for i := range endings {
			if endings[i].Class == class {
				endings[i].End(t, id)
			}
		}
	}
	t.forget()
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
	if tok := t.Header.Token; !tok.IsZero() && tok != t.Lead.Token {
		return entry.Refuse(StaleToken, "token %v is not of the present leadership, whose token is %v", tok, t.Lead.Token)
	}
	verb, _ := verbOf(c)
	if !t.Header.Session.IsZero() {
		if res, over := t.join(Kind(verb.Kind)); over {
			return res
		}
	}
	before := *t.data
	res := t.execute(verb, c)
	if res.Code != OK {
		*t.data = before // a refusal changes nothing
	}
	if res.Token.IsZero() {
		res.Token = t.Token
	}
	t.remember(Kind(verb.Kind), res)
	return res
}

// execute carries out a command. A duty's token that got here is the present leadership's:
// admit has compared it.
func (t *txn) execute(verb entry.Verb[*txn], c Command) Result {
	if verb.Leaders && t.Header.Token.IsZero() {
		return entry.Refuse(Refused, "'%s' is for the leader's duties alone and must carry its token", verb.Name)
	}
	return verb.Apply(t, c)
}
