// Package boots holds what was heard of machines that boot to be introspected
// (docs/pxe.md#recorder). It decides nothing: any machine on the network could have sent it.
//
// The command: [Note], of the leader.
package boots

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Domain is all that the log, snapshots, Check and deadlines know of boot tracks.
var Domain = entry.Domain[Txn]{
	Verbs: []entry.Verb[Txn]{entry.NewVerb[Txn, Note](87, "note boots").ByLeader().From(3)},
	Sections: []entry.Section[Txn]{
		entry.Many('H', "boots", func(t Txn) table.Of[Track] { return t.tracks }, Txn.index),
		entry.Seldom('Q', "boot events", func(t Txn) *share { return &t.share }),
	},
	Checks: entry.Checks[Txn]{check},
	Ends: []entry.Ending[Txn]{
		entry.Expiring(dueTrack, func(t Txn) table.Of[Track] { return t.tracks },
			func(track Track) (entry.Time, bool) { return track.Expires, true }, Txn.drop),
	},
}

// dueTrack is the class of the deadlines that end the time that a track is kept.
const dueTrack entry.Class = 'b'

// keepFor is how long a track stays after its newest step or finding.
const keepFor = 24 * time.Hour

// MaxHeard and MaxJudged are how many steps, and findings of how many nodes, one entry may bring.
const (
	MaxHeard  = 512
	MaxJudged = 128
)

// Tables hold the boot tracks.
type Tables struct {
	tracks table.Of[Track]      // by node
	byAge  table.Of[table.None] // Expires, node
	share  share
}

// Txn is one entry at work on them.
type Txn struct {
	*entry.Txn
	*Tables
}

// Heard is a step of a node's boot.
type Heard struct {
	Node  string        `cbor:"1,keyasint"`
	Begun fencing.Token `cbor:"2,keyasint,omitempty"` // as Track has it
	Step  Step          `cbor:"3,keyasint"`
}

// Judged is what the leader finds of a node's boot.
type Judged struct {
	Node     string          `cbor:"1,keyasint"`
	Begun    fencing.Token   `cbor:"2,keyasint,omitempty"` // as Track has it
	Findings []entry.Finding `cbor:"3,keyasint,omitempty"` // as Track has them
}

// Note adds to the tracks what was heard since the entry before, in its order, and then puts
// what was found of them in the place of what was found before.
type Note struct {
	Heard  []Heard  `cbor:"1,keyasint"`
	Judged []Judged `cbor:"2,keyasint,omitempty"`
}

// Validate implements Command.
func (c Note) Validate() error {
	if heard, judged := len(c.Heard), len(c.Judged); heard+judged == 0 || heard > MaxHeard || judged > MaxJudged {
		return fmt.Errorf("%d steps and %d findings, allowed are 1 to %d and %d", heard, judged, MaxHeard, MaxJudged)
	}
	for _, j := range c.Judged {
		if err := errors.Join(valid.Node(j.Node), validFindings(j.Findings)); err != nil {
			return fmt.Errorf("findings of node %s: %w", j.Node, err)
		}
	}
	for _, h := range c.Heard {
		if err := valid.Node(h.Node); err != nil {
			return err
		}
		if err := h.Step.validate(); err != nil {
			return fmt.Errorf("node %s: %w", h.Node, err)
		}
	}
	return nil
}

// Apply implements entry.Change.
func (c Note) Apply(t Txn) entry.Result {
	for _, h := range c.Heard {
		if res := t.change(h.Node, h.Begun, func(track *Track) { track.Add(h.Step) }); res.Code != entry.OK {
			return res
		}
	}
	for _, j := range c.Judged {
		res := t.change(j.Node, j.Begun, func(track *Track) {
			track.Findings = j.Findings
			track.trim()
			t.tell(track)
		})
		if res.Code != entry.OK {
			return res
		}
	}
	return entry.Done()
}

// change changes the track of a node's introspection, and keeps it for another day. That of an
// introspection that another has followed stays as it is; one that is empty is not kept.
func (t Txn) change(node string, begun fencing.Token, do func(*Track)) entry.Result {
	track, ok := t.tracks.Get([]byte(node))
	switch {
	case begun > t.Granted():
		return entry.Refuse(entry.Invalid, "the introspection of node %s, of %v, is to come", node, begun)
	case ok && begun < track.Begun:
		return entry.Done()
	case !ok || begun > track.Begun:
		track = Track{Node: node, Begun: begun}
	}
	do(&track)
	t.drop([]byte(node))
	if len(track.Steps)+len(track.Findings) > 0 {
		t.makeRoom()
		track.Expires = t.Now().Add(keepFor)
		t.index(track)
	}
	return entry.Done()
}

// makeRoom drops the oldest track where one more would not fit.
func (t Txn) makeRoom() {
	if t.tracks.Size() < MaxTracks {
		return
	}
	if key, _, ok := t.byAge.First(); ok {
		t.drop(key[8:])
	}
}

func (t Txn) index(track Track) {
	t.tracks.Put([]byte(track.Node), track)
	t.byAge.Put(table.LongKey(uint64(track.Expires), track.Node), table.None{})
	t.Arm(track.Expires, dueTrack, []byte(track.Node))
}

func (t Txn) drop(node []byte) {
	track, ok := t.tracks.Get(node)
	if !ok {
		return
	}
	t.tracks.Drop(node)
	t.byAge.Drop(table.LongKey(uint64(track.Expires), track.Node))
	t.Disarm(track.Expires, dueTrack, node)
}

// BootTrack is what was heard of a node's newest boot; ok is false if nothing was.
func (s *Tables) BootTrack(node string) (track Track, ok bool) { return s.tracks.Get([]byte(node)) }

// FindingOf is what stops a node's machine first, in an introspection; zero if nothing was found.
func (s *Tables) FindingOf(node string, begun fencing.Token) entry.Finding {
	if track, _ := s.BootTrack(node); track.Begun == begun && len(track.Findings) > 0 {
		return track.Findings[0]
	}
	return entry.Finding{}
}

// BootTracks are all tracks, by node. Their steps are shared.
func (s *Tables) BootTracks() iter.Seq[Track] { return table.Values(s.tracks.All()) }

func check(t Txn, p *valid.Problems) {
	p.Want(t.tracks.Size() <= MaxTracks && t.byAge.Size() == t.tracks.Size(), "%d boot tracks, %d by their age",
		t.tracks.Size(), t.byAge.Size())
	p.Want(t.share.Count >= 0 && t.share.Count <= MaxEvents && t.share.Began <= t.Position.Now,
		"%d boot events are counted since %v, now is %v", t.share.Count, t.share.Began, t.Position.Now)
	for key, track := range t.tracks.All() {
		p.Want(string(key) == track.Node && t.byAge.Has(table.LongKey(uint64(track.Expires), track.Node)),
			"the boot track of node %q is filed under %q, or missing by its age", track.Node, key)
		p.Invalid(track.validate(), "boot track of node %s: ", track.Node)
		p.Want(track.Expires <= t.Position.Now.Add(keepFor) && track.Begun <= t.Granted(),
			"the boot track of node %s is of %v and kept until %v, now is %v", track.Node, track.Begun, track.Expires,
			t.Position.Now)
	}
}
