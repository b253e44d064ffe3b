package fsm

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// What the test assumes and demands of the tokens of foundings. The numbers are
// those that docs/recovery.md promises; none is taken from the code.
const (
	promisedLie    = 24 * time.Hour  // of a host's clock
	promisedRate   = 10_000          // entries a second, sustained
	promisedUnseen = 268_000_000     // entries that a founder's log lacks
	promisedApart  = 5 * time.Minute // for each founding in an earlier history
)

// history is one line of tokens. Several go on at once where hosts that know
// nothing of each other believe in the same cluster.
type history struct {
	state   *State
	past    []View        // as backups and logs that lag behind hold it
	founded time.Duration // true time
	worst   time.Duration // how far ahead a clock of its foundings was at most
	depth   int           // foundings
}

// foundings is a model of true time and of all histories of one cluster.
type foundings struct {
	now       time.Duration // since 2026
	histories []*history
}

var year2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// pass lets time go by, in which all histories grant tokens.
func (f *foundings) pass(t *rapid.T) {
	scale := rapid.SampledFrom(
		[]time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour, 100 * 24 * time.Hour}).Draw(t, "scale")
	took := time.Duration(rapid.Int64Range(1, 10).Draw(t, "times")) * scale
	f.now += took
	for _, h := range f.histories {
		entries := rapid.Uint64Range(0, uint64(took/time.Second)*promisedRate).Draw(t, "entries")
		h.past = append(h.past, h.state.View())
		h.state = grown(h.state.View(), entries)
	}
}

// grown returns the state after some entries more that change nothing.
func grown(v View, entries uint64) *State {
	next := *v.data
	next.shared.Position.Index += entries
	return &State{&next}
}

// any draws a history and a state of it, the present one or an earlier one.
func (f *foundings) any(t *rapid.T, label string) (*history, View) {
	h := rapid.SampledFrom(f.histories).Draw(t, label)
	return h, rapid.SampledFrom(append([]View{h.state.View()}, h.past...)).Draw(t, label+" state")
}

// found founds the cluster again: from a log (recover), or from a file, on a host
// that has a log or on one that has none.
func (f *foundings) found(t *rapid.T) {
	parent, file := f.any(t, "file")
	next := &history{founded: f.now, worst: parent.worst, depth: parent.depth + 1, state: &State{file.data}}
	known := []*history{parent}
	views := []View{file}
	index := file.Index()
	if rapid.Bool().Draw(t, "has a log") {
		other, local := f.any(t, "log")
		next.state.Adopt(local)
		next.worst, next.depth = max(next.worst, other.worst), max(next.depth, other.depth+1)
		index = max(index, local.Index())
		known, views = append(known, other), append(views, local)
	}
	lie := time.Duration(rapid.Int64Range(-int64(promisedLie/time.Second), int64(promisedLie/time.Second)).Draw(t,
		"clock")) * time.Second
	next.worst = max(next.worst, lie)
	if err := next.state.Refound(
		Refound{Index: index, UnixMillis: year2026.Add(f.now + lie).UnixMilli(), NewIncarnation: true}); err != nil {
		t.Fatalf("tokens-rise-through-foundings: no token is left for a founding at %v: %v", f.now, err)
	}
	first := next.state.now.shared.Granted() + 1
	f.aboveKnown(t, first, known, views)
	for _, h := range f.histories {
		wanted := h.worst - lie + time.Duration(h.depth)*promisedApart
		if apart := f.now - h.founded; apart-apart/50 > wanted && first <= h.state.now.shared.Granted() {
			t.Fatalf("tokens-rise-through-foundings: the first token is %d, a history founded %v earlier has granted %v", first,
				apart, h.state.now.shared.Granted())
		}
	}
	if first > 1<<53 {
		t.Fatalf("the first token is %d", first)
	}
	f.histories = append(f.histories, next)
}

// aboveKnown demands what holds whatever the clocks say.
func (f *foundings) aboveKnown(t *rapid.T, first fencing.Token, known []*history, views []View) {
	for i, v := range views {
		if first <= v.data.shared.Granted() {
			t.Fatalf("tokens-rise-through-foundings: the first token is %d, the founder knew of %v", first,
				v.data.shared.Granted())
		}
		latest := known[i].state.now.shared.Granted()
		if latest-v.data.shared.Granted() <= promisedUnseen && first <= latest {
			t.Fatalf("tokens-rise-through-foundings: the first token is %d, %v was granted after what the founder knew", first,
				latest)
		}
	}
}

func TestTokensRiseThroughFoundings(t *testing.T) {
	start := newRig(t).view()
	rapid.Check(t, func(t *rapid.T) {
		f := &foundings{histories: []*history{{state: &State{start.data}}}}
		f.pass(t)
		t.Repeat(map[string]func(*rapid.T){"pass": f.pass, "found": f.found})
	})
}

// A year-old cluster was recovered, and an hour later an older backup restored on
// new hosts, which know nothing of the recovery: their tokens are above all
// others: the clock counts, and not the length of the log.
func TestAnOlderBackupIsAboveARecovery(t *testing.T) {
	founded := newRig(t).state
	recovered := grown(founded.View(), 5_000_000_000)
	backup := grown(founded.View(), 1_000)
	at := year2026.AddDate(1, 0, 0)
	if err := recovered.Refound(
		Refound{Index: recovered.View().Index(), UnixMillis: at.UnixMilli(), NewIncarnation: true}); err != nil {
		t.Fatal(err)
	}
	if err := backup.Refound(
		Refound{Index: backup.View().Index(), UnixMillis: at.Add(time.Hour).UnixMilli(), NewIncarnation: true}); err != nil {
		t.Fatal(err)
	}
	if first, last := backup.now.shared.Granted()+
		1, grown(recovered.View(), 3600*promisedRate).now.shared.Granted(); first <= last {
		t.Errorf("tokens-rise-through-foundings: the restored cluster begins with %d, the recovered one has granted %d",
			first, last)
	}
}
