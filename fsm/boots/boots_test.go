package boots

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/test/domaintest"
)

const node = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10"

func step(kind Kind, at int64) Step {
	return Step{Kind: kind, Times: Times{at, at, 1}, Peer: "a", MAC: "52:54:00:00:00:01"}
}

// A full track keeps how the boot began and its newest steps, within both bounds, and says
// how many it lost.
func TestTrackIsBounded(t *testing.T) {
	for name, text := range map[string]string{"by steps": "f", "by bytes": strings.Repeat("f", MaxText)} {
		var track Track
		track.Node = node
		const all = 200
		for i := range int64(all) {
			s := step(Fetched, i)
			file := fmt.Sprint(i, text)
			s.File = file[:min(len(file), MaxText)]
			track.Add(s)
		}
		if err := track.validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := track.Dropped + len(track.Steps); got != all {
			t.Errorf("%s: %d steps are kept or counted, want %d", name, got, all)
		}
		for i, s := range track.Steps[:beginning] {
			if s.FirstMillis != int64(i) {
				t.Errorf("%s: step %d is of %d: the beginning is lost", name, i, s.FirstMillis)
			}
		}
		if track.Latest() != all-1 {
			t.Errorf("%s: the newest step is of %d", name, track.Latest())
		}
	}
}

// A kind of a newer version has no name here, and a number.
func TestKindOfANewerVersion(t *testing.T) {
	newer := Kind(len(kindNames))
	if got := newer.String(); got != fmt.Sprint("kind ", len(kindNames)) {
		t.Errorf("it is called %q", got)
	}
}

// A flood of steps of one kind takes no room of the others, also where it differs from them in who
// answered alone.
func TestFloodOfOneKind(t *testing.T) {
	track := Track{Node: node}
	add := func(kind Kind, at int64, server string, foreign bool) {
		s := step(kind, at)
		s.Server, s.Foreign = server, foreign
		track.Add(s)
	}
	for i := range int64(beginning) {
		add(Failed, i, fmt.Sprintf("192.0.2.%d", i), false)
	}
	add(Offered, 10, "192.0.2.2", false)
	add(Fetched, 11, "192.0.2.2", false)
	for i := range int64(500) {
		add(Offered, 20+i, fmt.Sprintf("203.0.%d.%d", i>>8, i&0xff), true)
	}
	kept := make(map[string]int)
	for _, s := range track.Steps {
		kept[fmt.Sprint(s.Kind, s.Foreign)]++
	}
	if kept["offered false"] != 1 || kept["fetched false"] != 1 || kept["failed false"] != beginning ||
		track.Latest() != 519 {
		t.Errorf("kept are %v, the newest is of %d", kept, track.Latest())
	}
	if err := track.validate(); err != nil {
		t.Error(err)
	}
}

// Steps that differ in time alone are one, also where others came between; views that share the
// old steps keep them.
func TestStepsMerge(t *testing.T) {
	var track Track
	for i := range int64(10) {
		track.Add(step(Asked, 2*i))
		track.Add(step(Offered, 2*i+1))
	}
	before := track
	track.Add(step(Asked, 30))
	if len(track.Steps) != 2 || track.Steps[0].Count != 11 || track.Steps[0].FirstMillis != 0 ||
		track.Steps[0].LastMillis != 30 || track.Steps[1].Count != 10 {
		t.Errorf("steps are %+v", track.Steps)
	}
	if before.Steps[0].Count != 10 {
		t.Error("a view's step was changed")
	}
	track.Add(step(Unheard, 31)) // what came before it was another leader's to hear
	track.Add(step(Asked, 32))
	if len(track.Steps) != 4 || track.Steps[0].Count != 11 {
		t.Errorf("steps before and after a gap are %+v", track.Steps)
	}
}

// The track of another introspection begins anew, what is late of an earlier one adds nothing, and
// the oldest track makes room.
func TestNote(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	txn := Txn{Txn: base, Tables: &tables}
	note := func(node string, begun uint64, kind Kind) {
		t.Helper()
		c := Note{Heard: []Heard{{Node: node, Begun: fencing.Token(begun), Step: step(kind, 1)}}}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		domaintest.Commit(t, Domain, base, txn, c)
	}
	note(node, 2, Asked)
	note(node, 1, Failed)
	note(node, 2, Leased)
	if track, _ := tables.BootTrack(node); len(track.Steps) != 2 || track.Steps[1].Kind != Leased {
		t.Errorf("a late step counts: %+v", track.Steps)
	}
	note(node, 3, Asked)
	if track, _ := tables.BootTrack(node); len(track.Steps) != 1 || track.Begun != 3 {
		t.Errorf("the track of another introspection is %+v", track)
	}
	other := func(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
	for i := range MaxTracks {
		base.Position.Now++
		note(other(i), 1, Asked)
	}
	if _, ok := tables.BootTrack(node); ok || tables.tracks.Size() != MaxTracks {
		t.Errorf("%d tracks, the oldest is kept: %v", tables.tracks.Size(), ok)
	}
	if err := domaintest.Check(Domain, base, txn); err != nil {
		t.Error(err)
	}
}

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables := Tables{}
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables} }
	domaintest.Commit(t, Domain, base, at(base, &tables),
		Note{Heard: []Heard{{Node: node, Begun: 1, Step: step(Asked, 1)}}})
	track, _ := tables.BootTrack(node)
	change := func(f func(*Track)) func(Txn) {
		return func(t Txn) {
			changed := track
			f(&changed)
			t.tracks.Put([]byte(node), changed)
		}
	}
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"track under another key":  func(t Txn) { t.tracks.Put([]byte("x"), track) },
		"track missing by its age": func(t Txn) { t.byAge = table.Of[table.None]{} },
		"track without an end":     func(t Txn) { t.Disarm(track.Expires, dueTrack, []byte(node)) },
		"track without steps":      change(func(t *Track) { t.Steps = nil }),
		"step of no kind":          change(func(t *Track) { t.Steps = []Step{step(0, 1)} }),
		"track of the future":      change(func(t *Track) { t.Begun = 1 << 40 }),
		"track of no node":         change(func(t *Track) { t.Node = "x" }),
		"finding of no code":       change(func(t *Track) { t.Findings = []entry.Finding{{Text: "x"}} }),
		"more events than counted": func(t Txn) { t.share.Count = MaxEvents + 1 },
	})
}

// What a peer may not propose.
func TestNoteIsValidated(t *testing.T) {
	for name, change := range map[string]func(*Heard){
		"no node":        func(h *Heard) { h.Node = "x" },
		"no peer":        func(h *Heard) { h.Step.Peer = "" },
		"a long file":    func(h *Heard) { h.Step.File = strings.Repeat("x", MaxText+1) },
		"a text of NULs": func(h *Heard) { h.Step.Text = "\x00" },
		"never":          func(h *Heard) { h.Step.Count = 0 },
		"backwards":      func(h *Heard) { h.Step.FirstMillis = 2 },
		"no address":     func(h *Heard) { h.Step.Server = "name.example" },
		"no MAC":         func(h *Heard) { h.Step.MAC = "52-54" },
		"no client":      func(h *Heard) { h.Step.Client = 9 },
	} {
		h := Heard{Node: node, Step: step(Asked, 1)}
		if err := (Note{Heard: []Heard{h}}).Validate(); err != nil {
			t.Fatal(err)
		}
		change(&h)
		if (Note{Heard: []Heard{h}}).Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if (Note{Heard: make([]Heard, MaxHeard+1)}).Validate() == nil || (Note{}).Validate() == nil {
		t.Error("no step, or too many, are accepted")
	}
}

func finding(code string) []entry.Finding {
	return []entry.Finding{{Code: code, Text: "because of " + code}}
}

// notes is a cluster of one domain that is told of findings.
type notes struct {
	t      *testing.T
	tables Tables
	base   *entry.Txn
	txn    Txn
}

func newNotes(t *testing.T) *notes {
	n := &notes{t: t, tables: Tables{}, base: domaintest.NewTxn()}
	n.base.Position.Now = entry.Time(3 * time.Hour)
	n.txn = Txn{Txn: n.base, Tables: &n.tables}
	return n
}

// judge puts findings in the place of those before.
func (n *notes) judge(node string, begun uint64, findings []entry.Finding) {
	n.t.Helper()
	c := Note{Judged: []Judged{{Node: node, Begun: fencing.Token(begun), Findings: findings}}}
	if err := c.Validate(); err != nil {
		n.t.Fatal(err)
	}
	domaintest.Commit(n.t, Domain, n.base, n.txn, c)
	if err := domaintest.Check(Domain, n.base, n.txn); err != nil {
		n.t.Error(err)
	}
}

func (n *notes) hear(begun uint64, kind Kind) {
	n.t.Helper()
	domaintest.Commit(n.t, Domain, n.base, n.txn,
		Note{Heard: []Heard{{Node: node, Begun: fencing.Token(begun), Step: step(kind, 1)}}})
}

func (n *notes) pass(d time.Duration) { n.base.Position.Now = n.base.Position.Now.Add(d) }

// told are the events, oldest first.
func (n *notes) told() string {
	var all []string
	for e := range n.base.Events.After(eventring.ID{}) {
		if d := e.Decode(); d.Topic == eventring.TopicBoot {
			all = append(all, d.Action+" "+d.Fields["finding"])
		}
	}
	return strings.Join(all, ", ")
}

// A finding stands with the track of its introspection, also without a step, and is told by an
// event when it changes, but not more often than every 30 s.
func TestFindingsAreTold(t *testing.T) {
	n := newNotes(t)
	n.judge(node, 2, finding("silent"))
	if got := n.tables.FindingOf(node, 2); got.Code != "silent" {
		t.Errorf("found is %+v", got)
	}
	if got := n.tables.FindingOf(node, 3); !got.IsZero() {
		t.Errorf("found of another introspection is %+v", got)
	}
	n.judge(node, 1, finding("denied"))
	n.hear(2, Asked)
	n.judge(node, 2, finding("no-offer"))
	n.judge(node, 2, nil)
	n.judge(node, 2, finding("no-offer"))
	if got := n.told(); got != "found silent" {
		t.Errorf("events are: %s: more than one in %v", got, TellEvery)
	}
	n.pass(TellEvery)
	track, _ := n.tables.BootTrack(node)
	if untold, wait := track.Untold(n.base.Now()); !untold || wait > 0 {
		t.Errorf("untold: %v, for %v more", untold, wait)
	}
	n.judge(node, 2, finding("no-offer"))
	n.judge(node, 2, finding("no-offer"))
	n.pass(TellEvery)
	n.judge(node, 2, nil)
	if got := n.told(); got != "found silent, found no-offer, cleared no-offer" {
		t.Errorf("events are: %s", got)
	}
	if track, _ := n.tables.BootTrack(node); len(track.Steps) != 1 || len(track.Findings) != 0 {
		t.Errorf("the track is %+v", track)
	}
	n.hear(3, Asked)
	if track, _ := n.tables.BootTrack(node); track.Begun != 3 || !track.Told.IsZero() {
		t.Errorf("the track of another introspection is %+v", track)
	}
}

// Machines that lie in turn take no more than their share of the ring, which is theirs again after
// an hour.
func TestBootEventsHaveAShare(t *testing.T) {
	n := newNotes(t)
	for i := range MaxEvents + 500 {
		other := fmt.Sprintf("00000000-0000-4000-8000-%012d", i%5000)
		domaintest.Commit(t, Domain, n.base, n.txn,
			Note{Judged: []Judged{{Node: other, Begun: 1, Findings: finding([]string{"silent", "denied"}[i/5000%2])}}})
		if i%5000 == 0 {
			n.pass(TellEvery)
		}
	}
	if count, _ := n.base.Events.Size(); count != MaxEvents {
		t.Errorf("%d events of boots in an hour, want %d", count, MaxEvents)
	}
	n.pass(shareTime)
	n.judge(node, 1, finding("loop"))
	if got := n.told(); !strings.HasSuffix(got, "found loop") {
		t.Error("an hour later nothing is told")
	}
}

// A track with findings keeps its bound.
func TestFindingsCount(t *testing.T) {
	n := newNotes(t)
	for i := range int64(60) {
		s := step(Fetched, i)
		s.File = fmt.Sprintf("%03d", i) + strings.Repeat("f", MaxText-3)
		domaintest.Commit(t, Domain, n.base, n.txn, Note{Heard: []Heard{{Node: node, Begun: 1, Step: s}}})
	}
	var all []entry.Finding
	for _, code := range []string{"a", "b", "c"} {
		all = append(all, entry.Finding{Code: code, Text: strings.Repeat("t", entry.MaxFindingText)})
	}
	n.judge(node, 1, all)
	track, _ := n.tables.BootTrack(node)
	if err := track.validate(); err != nil || len(track.Findings) != MaxFindings {
		t.Errorf("%v, %d findings", err, len(track.Findings))
	}
}

func TestFindingsAreValidated(t *testing.T) {
	for name, findings := range map[string][]entry.Finding{
		"too many":     {{Code: "a", Text: "x"}, {Code: "b", Text: "x"}, {Code: "c", Text: "x"}, {Code: "d", Text: "x"}},
		"no code":      {{Text: "x"}},
		"no text":      {{Code: "a"}},
		"a long text":  {{Code: "a", Text: strings.Repeat("x", entry.MaxFindingText+1)}},
		"another code": {{Code: "No Code", Text: "x"}},
	} {
		if (Note{Judged: []Judged{{Node: node, Findings: findings}}}).Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if (Note{Judged: []Judged{{Node: "x"}}}).Validate() == nil ||
		(Note{Judged: make([]Judged, MaxJudged+1)}).Validate() == nil {
		t.Error("no node, or too many, are accepted")
	}
	if res := (Note{Judged: []Judged{{Node: node, Begun: 1 << 40}}}).Apply(newNotes(t).txn); res.Code == entry.OK {
		t.Error("findings of an introspection that is to come are accepted")
	}
}
