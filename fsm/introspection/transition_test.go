package introspection

import (
	"slices"
	"strings"
	"testing"
)

// The expectation is written down here a second time, in another shape, from
// the wire contract (column api) and the HA specification (column queue). "-"
// refuses, "D" defers, "I" ignores, "L" is locked, anything else is the next
// state by its first two letters.
const wantAPI = `
              start wait process finish error abort abort_end timeout reapply enroll adopt give_up delete
absent        st    -    -       -      -     -     -         -       -       en     wa    -       -
starting      -     -    D       -      -     L     -         D       L       -      -     -       D
waiting       st    -    D       -      -     ab    -         D       I       -      -     -       D
processing    -     -    D       -      -     L     -         D       L       -      -     -       D
finished      st    -    -       -      -     I     -         -       re      -      -     -       D
error         st    -    -       -      -     I     -         -       re      -      -     -       D
reapplying    -     -    -       -      -     L     -         D       re      -      -     -       D
enrolling     -     -    D       -      -     L     -         D       L       -      -     -       D
aborting      -     -    -       -      -     L     -         D       L       -      -     -       D`

const wantQueue = `
              start wait process finish error abort abort_end timeout reapply enroll adopt give_up delete
absent        -     -    -       -      -     -     -         -       -       -      -     -       -
starting      st    wa   -       -      er    -     -         er      -       -      -     er      none
waiting       -     wa   pr      -      er    er    -         er      -       -      -     er      none
processing    -     -    er      fi     er    -     -         er      -       -      -     er      none
finished      st    -    -       fi     -     er    -         -       -       -      -     -       none
error         st    -    -       -      er    er    -         -       -       -      -     -       none
reapplying    -     -    -       fi     er    -     -         er      re      -      -     er      none
enrolling     -     -    pr      -      er    -     -         er      -       -      -     er      none
aborting      -     -    -       -      -     ab    er        er      -       -      -     er      none`

func TestTransitionTablePairByPair(t *testing.T) {
	pairs := 0
	for origin, grid := range map[Origin]string{FromAPI: wantAPI, FromQueue: wantQueue} {
		lines := strings.Split(strings.TrimSpace(grid), "\n")
		events := strings.Fields(lines[0])
		for s, line := range lines[1:] {
			cells := strings.Fields(line)
			state := NodeState(s)
			if cells[0] != state.String() || len(cells) != len(events)+1 {
				t.Fatalf("line %q is not of %v", line, state)
			}
			for e, cell := range cells[1:] {
				event := Event(e + 1)
				if events[e] != event.String() {
					t.Fatalf("column %s is not of %v", events[e], event)
				}
				pairs++
				if got := cellOf(Transition(state, event, origin)); got != cell {
					t.Errorf("origin %d: %v + %v gives %q, want %q", origin, state, event, got, cell)
				}
			}
		}
	}
	if want := len(stateNames) * (len(eventNames) - 1) * 2; pairs != want {
		t.Errorf("%d pairs were tested of %d", pairs, want)
	}
}

func cellOf(o Outcome) string {
	switch o.Verdict {
	case Move:
		if o.Next == NodeAbsent {
			return "none"
		}
		return o.Next.String()[:2]
	case Defer:
		return "D"
	case Ignore:
		return "I"
	case Locked:
		return "L"
	}
	return "-"
}

// What is not in the table, and what no binary of today writes, is refused.
func TestTransitionIsTotal(t *testing.T) {
	for state := range 256 {
		for event := range 256 {
			if state < len(stateNames) && event > 0 && event < len(eventNames) {
				continue
			}
			for _, origin := range []Origin{FromAPI, FromQueue} {
				if got := Transition(NodeState(state), Event(event), origin); got != (Outcome{}) {
					t.Errorf("%v + %v gives %+v", NodeState(state), Event(event), got)
				}
			}
		}
	}
}

func TestTransitionsAreListedOnce(t *testing.T) {
	seen := map[[2]uint8]bool{}
	for _, row := range transitions {
		pair := [2]uint8{uint8(row.state), uint8(row.event)}
		if seen[pair] {
			t.Errorf("%v + %v is listed twice", row.state, row.event)
		}
		seen[pair] = true
		if row.api == no && row.queue == no {
			t.Errorf("%v + %v is listed and refused twice", row.state, row.event)
		}
	}
}

// Promise 4: an active state has a way to its end by time alone, and by giving
// up alone.
func TestEveryActiveStateCanEnd(t *testing.T) {
	for s := range len(stateNames) {
		state := NodeState(s)
		for _, event := range []Event{EventTimeout, EventGiveUp} {
			out := Transition(state, event, FromQueue)
			if ends := out == to(NodeError); ends != state.Active() {
				t.Errorf("%v (active %v) + %v gives %+v", state, state.Active(), event, out)
			}
		}
	}
}

func TestNodeStateNames(t *testing.T) {
	for s := 1; s < len(stateNames); s++ {
		if got, ok := ParseNodeState(NodeState(s).String()); !ok || got != NodeState(s) {
			t.Errorf("%v reads back as %v, %v", NodeState(s), got, ok)
		}
	}
	for _, bad := range []string{"", "absent", "bogus", "Waiting"} {
		if got, ok := ParseNodeState(bad); ok {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	if !slices.Equal(stateNames[1:6], []string{"starting", "waiting", "processing", "finished", "error"}) {
		t.Errorf("names of the API changed: %v", stateNames)
	}
}
