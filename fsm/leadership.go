package fsm

import (
	"strconv"

	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var leadershipDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb[*txn, Lead](1, "lead"),
		entry.NewVerb[*txn, Probe](2, "probe"),
	},
	Sections: []entry.Section[*txn]{
		entry.Single('P', "position", func(t *txn) *entry.Position { return &t.Position }).Shown(shownPosition),
		entry.Single('L', "leadership", func(t *txn) *entry.Leadership { return &t.Lead }),
	},
	Checks: entry.Checks[*txn]{checkPosition},
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
	Pass    doors.Door `cbor:"1,keyasint"`
	Address doors.Door `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c Lead) Validate() error { return membership.ValidBoot(c.Peer, c.Boot, c.Version) }

// Apply implements entry.Change.
func (c Lead) Apply(t *txn) Result {
	if t.Token <= t.Position.Floor {
		// Cannot be unless a founding did not raise base: a token must never be
		// granted twice.
		return entry.Refuse(Refused, "token %v was granted before (the floor is %v): the base was not raised", t.Token,
			t.Position.Floor)
	}
	t.Position.Floor = t.Token
	previous := ""
	if t.Lead.Peer != "" {
		previous = t.NameOf(t.Lead.Peer)
	}
	t.Lead = entry.Leadership{Token: t.Token, Peer: c.Peer, Boot: c.Boot, Term: t.Term, Index: t.Position.Index,
		At: t.Now()}
	t.RecordEvent(eventring.Event{Topic: eventring.TopicLeadership, Action: eventring.ActionAcquired,
		Peer: t.NameOf(t.Lead.Peer), Fields: eventring.Fields(
			"previous", previous, "term", strconv.FormatUint(t.Lead.Term, 10), "token", t.Lead.Token.String())})
	membersOf(t).UnhearAll()
	introspection.ForgetOverdueInspected(nodesOf(t))
	introspection.EndOverdue(nodesOf(t))
	return entry.Answer(Led{Pass: t.PassDoor(), Address: t.AddressDoor()})
}

// Probe changes nothing. The leader commits it to see that its disk and a
// majority still take entries (docs/design.md#watchdog).
type Probe struct{}

// Validate implements Command.
func (Probe) Validate() error { return nil }

// Apply implements entry.Change.
func (Probe) Apply(*txn) Result { return entry.Done() }

func checkPosition(d *txn, p *valid.Problems) {
	pos, lead := d.shared.Position, d.Lead
	p.Want(pos.Now >= 0, "cluster time is negative: %v", pos.Now)
	p.Want(pos.Floor <= d.shared.Granted(), "the token floor %v is above the newest entry's token %v", pos.Floor,
		d.shared.Granted())
	p.Want(0 <= lead.At && lead.At <= pos.Now, "leadership %v began at %v, now is %v", lead.Token, lead.At, pos.Now)
	p.Want(lead.Token <= pos.Floor, "leadership %v is above the token floor %v", lead.Token, pos.Floor)
	if !lead.Token.IsZero() {
		p.Want(lead.Token == fencing.At(d.shared.Cluster.Base, lead.Index), "leadership %v is not base plus its index %d",
			lead.Token, lead.Index)
		p.Want(lead.Index <= pos.Index && lead.Term <= pos.Term, "leadership %v comes from later than the last entry",
			lead.Token)
		p.Want(lead.Peer != "", "leadership %v has no peer", lead.Token)
	} else {
		p.Want(lead == entry.Leadership{}, "a leadership without a token: %+v", lead)
	}
	if d.shared.Cluster.ID != "" {
		p.Want(d.shared.Cluster.Incarnation > 0, "a founded cluster has incarnation 0")
		p.Want(len(d.Members()) > 0, "a founded cluster has no member")
	}
}

type dumpedPosition struct {
	Index uint64        `json:"applied_index"`
	Term  uint64        `json:"term"`
	Now   string        `json:"cluster_time"`
	Floor fencing.Token `json:"token_floor"`
}

func shownPosition(t *txn) any {
	p := t.Position
	return dumpedPosition{Index: p.Index, Term: p.Term, Now: p.Now.String(), Floor: p.Floor}
}
