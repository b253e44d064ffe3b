package history

import (
	"math"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// after has operations follow each other; one whose outcome is unknown has no end.
func after(pairs ...any) (ops []porcupine.Operation) {
	for i := 0; i < len(pairs); i += 2 {
		op := porcupine.Operation{Input: pairs[i], Output: pairs[i+1], Call: int64(10 * i), Return: int64(10*i + 5)}
		if out, ok := pairs[i+1].(NodeTold); ok && out.Said == Unknown {
			op.Return = math.MaxInt64
		}
		ops = append(ops, op)
	}
	return ops
}

// TestIntrospections holds the model against short stories of one node.
func TestIntrospections(t *testing.T) {
	start, abort := NodeCall{Verb: Start}, NodeCall{Verb: Abort}
	status, data := NodeCall{Verb: Read}, NodeCall{Verb: ReadData}
	yes, held := NodeTold{Said: Yes}, NodeTold{Said: Held}
	nothing, unknown := NodeTold{Said: Nothing}, NodeTold{Said: Unknown}
	is := func(state, started string) NodeTold { return NodeTold{Said: Yes, State: state, Started: started} }
	refused := func(state string) NodeTold { return NodeTold{Said: Refused, State: state} }
	for name, c := range map[string]struct {
		ops  []porcupine.Operation
		want porcupine.CheckResult
	}{
		"goes on by itself": {after(start, yes, status, is("starting", "1"), status, is("processing", "1"),
			status, is("finished", "1"), data, yes), porcupine.Ok},
		"a start is lost": {after(start, yes, status, nothing), porcupine.Illegal},
		"goes back": {after(start, yes, status, is("processing", "1"),
			status, is("waiting", "1")), porcupine.Illegal},
		"revives": {after(start, yes, status, is("error", "1"),
			status, is("finished", "1")), porcupine.Illegal},
		"an old one is read again": {after(start, yes, status, is("error", "1"), start, yes,
			status, is("error", "1")), porcupine.Illegal},
		"one before is read": {after(start, yes, status, is("error", "1"), start, yes,
			status, is("waiting", "2"), status, is("error", "1")), porcupine.Illegal},
		"nobody started it": {after(status, is("waiting", "1")), porcupine.Illegal},
		"an unknown start may have happened": {after(start, unknown, status, nothing, status, is("waiting", "1")),
			porcupine.Ok},
		"an unknown start happens once": {after(start, unknown, status, is("error", "1"), status, is("error", "2")),
			porcupine.Illegal},
		"starts twice": {after(start, yes, status, is("processing", "1"), start, refused("processing"),
			status, is("waiting", "2")), porcupine.Illegal},
		"refused for no reason": {after(start, yes, status, is("error", "1"),
			start, refused("starting")), porcupine.Illegal},
		"aborted": {after(start, yes, status, is("waiting", "1"), abort, yes, status, is("aborting", "1"),
			status, is("error", "1")), porcupine.Ok},
		"an abort undone": {after(start, yes, status, is("waiting", "1"), abort, yes,
			status, is("waiting", "1")), porcupine.Illegal},
		"an abort of the ended": {after(start, yes, status, is("finished", "1"), abort, yes,
			status, is("finished", "1")), porcupine.Ok},
		"locked": {after(start, yes, status, is("processing", "1"), abort, held,
			status, is("finished", "1")), porcupine.Ok},
		"data goes with the next start": {after(start, yes, status, is("finished", "1"), data, yes, start, yes,
			data, nothing, status, is("finished", "2")), porcupine.Ok},
		"data is lost":           {after(start, yes, status, is("finished", "1"), data, nothing), porcupine.Illegal},
		"data comes before time": {after(start, yes, data, nothing, status, is("waiting", "1")), porcupine.Ok},
	} {
		if got, _ := Linearized(Introspections(), c.ops); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestStale holds the judgement of stale reads against what they claim.
func TestStale(t *testing.T) {
	const second = int64(1e9)
	write := func(version fencing.Token, data string, call, end int64, said Saying) porcupine.Operation {
		return porcupine.Operation{Input: ValueCall{Verb: Write, Key: "v", Data: data}, Call: call * second,
			Output: ValueTold{Said: said, Version: version}, Return: end * second}
	}
	writes := []porcupine.Operation{write(1, "a", 0, 1, Yes), write(2, "b", 9, 10, Yes), write(0, "c", 11, 12, Refused)}
	read := func(version fencing.Token, data string, at, age int64) StaleRead {
		return StaleRead{Key: "v", Peer: "p", Version: version, Data: data, Called: at * second, Returned: at * second,
			Age: age * second}
	}
	for name, c := range map[string]struct {
		read StaleRead
		want string
	}{
		"the newest":                     {read(2, "b", 30, 0), ""},
		"within the slack":               {read(1, "a", 11, 0), ""},
		"older than it claims":           {read(1, "a", 20, 5), "at most 5000 ms old"},
		"as old as it claims":            {read(1, "a", 20, 9), ""},
		"before all, and says so":        {read(0, "", 20, 20), ""},
		"before all, and claims nothing": {read(0, "", 20, 0), "another was acknowledged 19000 ms before"},
		"what was refused":               {read(3, "c", 20, 0), "which nobody wrote"},
		"what nobody had asked for yet":  {read(2, "b", 8, 0), "which nobody wrote"},
	} {
		got := strings.Join(Stale(writes, []StaleRead{c.read}, second), "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
