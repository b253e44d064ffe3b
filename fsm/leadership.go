package fsm

import (
	"strconv"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

var leadershipDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb(1, "lead", applyLead),
		entry.NewVerb(2, "probe", func(*txn, Probe) Result { return entry.Done() }),
	},
	Sections: []entry.Section[*txn]{
		entry.Single('P', "position", func(t *txn) *entry.Position { return &t.Position }).Shown(shownPosition),
		entry.Single('L', "leadership", func(d *txn) *Leadership { return &d.lead }),
	},
	Check: checkPosition,
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

// Lead begins a leadership (docs/design.md#leadership). Its token is that of its entry; from
// then on every older token changes nothing. Its Value is a Led.
type Lead struct {
	Peer string `cbor:"1,keyasint"` // server ID
	Boot string `cbor:"2,keyasint"` // new at every start of the peer
	// Version is the peer's log version; zero is not recorded.
	Version int `cbor:"3,keyasint,omitempty"`
}

// Led is what was recorded open when a leadership began. A door that is not shut
// in it must not be opened before its holder's kernel has shut it.
type Led struct {
	Pass    Door `cbor:"1,keyasint"`
	Address Door `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c Lead) Validate() error { return validBoot(c.Peer, c.Boot, c.Version) }

func applyLead(t *txn, c Lead) Result {
	if t.Token <= t.Position.Floor {
		// Cannot be unless a founding did not raise base: a token must never be
		// granted twice.
		return entry.Refuse(Refused, "token %v was granted before (the floor is %v): the base was not raised", t.Token, t.Position.Floor)
	}
	t.Position.Floor = t.Token
	previous := ""
	if t.lead.Peer != "" {
		previous = t.NameOf(t.lead.Peer)
	}
	t.lead = Leadership{Token: t.Token, Peer: c.Peer, Boot: c.Boot, Term: t.Term, Index: t.Position.Index, At: t.Now()}
	t.RecordEvent(eventring.Event{Topic: eventring.TopicLeadership, Action: eventring.ActionAcquired, Peer: t.NameOf(t.lead.Peer), Fields: eventring.Fields(
		"previous", previous, "term", strconv.FormatUint(t.lead.Term, 10), "token", t.lead.Token.String())})
	t.unhearAll()
	return entry.Answer(Led(t.doors))
}

// Probe changes nothing. The leader commits it to see that its disk and a
// majority still take entries (docs/design.md#watchdog).
type Probe struct{}

// Validate implements Command.
func (Probe) Validate() error { return nil }
