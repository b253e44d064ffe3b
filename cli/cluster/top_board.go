package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// keptEvents bounds the events that the board keeps; the cluster keeps more.
const keptEvents = 2000

// maxFilter bounds what is typed after /, in characters.
const maxFilter = 60

// skewSeen is from when on the peers' clock counts, and not that of this host: they tell whole seconds.
const skewSeen = 1500 * time.Millisecond

// board is what 'trivet top' knows, and what of it is looked at. It belongs to one goroutine.
type board struct {
	status   api.Status
	answered time.Time     // when it came; zero: none did yet
	skew     time.Duration // by which the peers' clock is ahead of ours
	events   []client.Event
	contact
	look
}

// contact is how it stands with the peers that are asked.
type contact struct {
	silent  time.Time // none answers since then; zero: one does
	trouble string    // why
	before  string    // the peer that answered before another did; "" if there was none
	moved   time.Time // when the other one answered first
}

// look is what of it is shown.
type look struct {
	filter string // events are shown that hold it
	typing bool   // it is being typed
	scroll int    // events that are newer than the last one that is shown
	page   int    // events that were shown last
	help   bool
}

// now is the time by the peers' clock.
func (b *board) now(wall time.Time) time.Time { return wall.Add(b.skew) }

// learn takes over what a peer says of the cluster at a moment of ours, and of the time of day.
func (b *board) learn(s api.Status, date, wall time.Time) {
	if b.status.Name != "" && b.status.Name != s.Name {
		b.before, b.moved = b.status.Name, wall
	}
	b.status, b.answered = s, wall
	b.silent, b.trouble = time.Time{}, ""
	if ahead := date.Sub(wall); (ahead - b.skew).Abs() > skewSeen {
		b.skew = 0
		if ahead.Abs() > skewSeen {
			b.skew = ahead
		}
	}
}

// miss notes that no peer answers.
func (b *board) miss(why string, wall time.Time) {
	if b.silent.IsZero() {
		b.silent = wall
	}
	b.trouble = why
}

// happen adds events, in the order of the log and each once.
func (b *board) happen(fresh []client.Event) {
	known := make(map[string]bool, len(b.events))
	for _, e := range b.events {
		known[e.ID] = true
	}
	for _, e := range fresh {
		if known[e.ID] {
			continue
		}
		known[e.ID] = true
		b.events = append(b.events, e)
		if b.scroll > 0 && b.matches(e) {
			b.scroll++ // what is looked at stays where it is
		}
	}
	slices.SortStableFunc(b.events, func(a, b client.Event) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Seq, b.Seq))
	})
	if more := len(b.events) - keptEvents; more > 0 {
		b.events = slices.Clone(b.events[more:])
	}
}

// forget drops the events: they are not those of the history that goes on.
func (b *board) forget() { b.events, b.scroll = nil, 0 }

// matches reports whether an event is shown.
func (b *board) matches(e client.Event) bool {
	if b.filter == "" {
		return true
	}
	text := strings.ToLower(strings.Join([]string{e.Kind, e.Action, e.Peer, e.Node, e.Text}, "\n"))
	return strings.Contains(text, strings.ToLower(b.filter))
}

// shown are the events that match, the newest first.
func (b *board) shown() []client.Event {
	out := make([]client.Event, 0, len(b.events))
	for _, e := range slices.Backward(b.events) {
		if b.matches(e) {
			out = append(out, e)
		}
	}
	return out
}

// press does what a key says, and returns whether the command ends.
func (b *board) press(key string) (ends bool) {
	if key == term.KeyInterrupt {
		return true
	}
	if b.typing {
		b.typed(key)
		return false
	}
	switch key {
	case "q":
		return true
	case "?":
		b.help = !b.help
	case "/":
		b.typing, b.filter, b.scroll, b.help = true, "", 0, false
	case term.KeyEscape:
		b.filter, b.scroll, b.help = "", 0, false
	case term.KeyDown:
		b.scroll++
	case term.KeyUp:
		b.scroll--
	case term.KeyPageDown:
		b.scroll += max(b.page, 1)
	case term.KeyPageUp:
		b.scroll -= max(b.page, 1)
	case term.KeyHome:
		b.scroll = 0
	case term.KeyEnd:
		b.scroll = len(b.events)
	}
	b.scroll = max(b.scroll, 0)
	return false
}

// typed takes a key for the filter.
func (b *board) typed(key string) {
	letters := []rune(b.filter)
	switch {
	case key == term.KeyEnter:
		b.typing = false
	case key == term.KeyEscape:
		b.typing, b.filter = false, ""
	case key == term.KeyRubOut && len(letters) > 0:
		b.filter = string(letters[:len(letters)-1])
	case len([]rune(key)) == 1 && len(letters) < maxFilter:
		b.filter += key
	}
	b.scroll = 0
}
