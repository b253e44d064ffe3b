package boots

import (
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of the events of boots: what machines send makes them, and machines may lie.
const (
	// TellEvery is how long after an event of a node's boot the next one comes at the earliest.
	TellEvery = 30 * time.Second
	// MaxEvents is how many events of boots there are in shareTime: a tenth of the ring, which
	// reaches back that long at a busy site.
	MaxEvents = eventring.MaxEvents / 10
	shareTime = time.Hour
)

// MaxFindings is how many findings a track has.
const MaxFindings = 3

// Told is the newest event of a track.
type Told struct {
	Code string     `cbor:"1,keyasint,omitempty"` // of the finding, "" of none
	At   entry.Time `cbor:"2,keyasint,omitempty"`
}

// IsZero reports whether there was no event.
func (t Told) IsZero() bool { return t == Told{} }

// Untold reports whether the first finding has no event yet, and for how long it may have none.
func (t Track) Untold(now entry.Time) (untold bool, wait time.Duration) {
	if !t.Told.IsZero() {
		wait = max(0, t.Told.At.Add(TellEvery).Sub(now))
	}
	return t.code() != t.Told.Code, wait
}

func (t Track) code() string {
	if len(t.Findings) == 0 {
		return ""
	}
	return t.Findings[0].Code
}

// share counts the events of boots since a moment of cluster time.
type share struct {
	Began entry.Time `cbor:"1,keyasint"`
	Count int        `cbor:"2,keyasint"`
}

// IsZero reports whether none was counted.
func (s share) IsZero() bool { return s == share{} }

// tell records that what stops a machine is another thing now, or nothing any more. What comes
// too soon, or has no room, is told by a later judgement, unless it has changed back.
func (t Txn) tell(track *Track) {
	if untold, wait := track.Untold(t.Now()); !untold || wait > 0 {
		return
	}
	if t.Now().Sub(t.share.Began) >= shareTime {
		t.share = share{Began: t.Now()}
	}
	if t.share.Count >= MaxEvents {
		return
	}
	t.share.Count++
	e := eventring.Event{Topic: eventring.TopicBoot, Action: eventring.ActionCleared, Node: track.Node,
		Fields: eventring.Fields("finding", track.Told.Code)}
	if len(track.Findings) > 0 {
		e.Action = eventring.ActionFound
		e.Fields = eventring.Fields("finding", track.Findings[0].Code, "found", track.Findings[0].Text)
	}
	t.RecordEvent(e)
	track.Told = Told{Code: track.code(), At: t.Now()}
}

func validFindings(all []entry.Finding) error {
	if len(all) > MaxFindings {
		return fmt.Errorf("%d findings, at most %d are kept", len(all), MaxFindings)
	}
	return valid.Each(all, entry.Finding.Validate)
}
