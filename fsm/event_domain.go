package fsm

import (
	"cmp"
	"iter"
	"math"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var eventDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb[*txn, ReportEvents](125, "report events").From(2),
	},
	Sections: []entry.Section[*txn]{{
		Tag: 'E', Name: "events",
		Each: func(d *txn) iter.Seq[any] { return d.shared.Events.Written() },
		Load: func(d *txn, record []byte) error { return d.shared.Events.Load(record) },
		Show: shownEvents,
	}},
	Checks: entry.Checks[*txn]{func(d *txn, p *valid.Problems) {
		d.shared.Events.Check(p, eventring.ID{Incarnation: d.shared.Cluster.Incarnation, Index: d.shared.Position.Index,
			Seq: math.MaxUint32})
	}},
}

// MaxEventReports is how many events one entry may report.
const MaxEventReports = 64

// ReportEvents records events that no command causes: what a peer sees on its host
// and what its API was asked. It needs a session; the events are of its peer. The
// proposer bounds how many there are: see package events.
type ReportEvents struct {
	Reports []eventring.Report `cbor:"1,keyasint"` // 1 to MaxEventReports
}

// Validate implements Command.
func (c ReportEvents) Validate() error {
	return cmp.Or(valid.Count(len(c.Reports), MaxEventReports, "events are reported"),
		valid.Each(c.Reports, eventring.Report.Validate))
}

// Apply implements entry.Change.
func (c ReportEvents) Apply(t *txn) Result {
	peer, live := t.PeerOf(t.Header.Session)
	if !live {
		return entry.Refuse(SessionEnded, "a report needs a live session, %v is none", t.Header.Session)
	}
	for _, r := range c.Reports {
		t.RecordEvent(eventring.Event{
			Topic: r.Topic, Action: r.Action, Millis: r.Millis, Peer: t.NameOf(peer), Node: r.Node, Text: r.Text,
			Fields: r.Fields,
		})
	}
	return entry.Done()
}

// dumpedEvents shows of the ring how much it holds, and its newest events.
type dumpedEvents struct {
	Count     int               `json:"count"`
	Bytes     int               `json:"bytes"`
	Forgotten string            `json:"newest_dropped,omitempty"`
	Newest    []eventring.Event `json:"newest"` // newest first, at most dumpedNewest
}

const dumpedNewest = 100

func shownEvents(t *txn) any {
	var out dumpedEvents
	out.Count, out.Bytes = t.Events.Size()
	if id := t.Events.Forgotten(); !id.IsZero() {
		out.Forgotten = id.String()
	}
	for e := range t.Events.Newest() {
		if len(out.Newest) == dumpedNewest {
			break
		}
		out.Newest = append(out.Newest, e.Decode())
	}
	return out
}
