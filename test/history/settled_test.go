package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// What SettledWrites and SettledLeases leave is legal exactly if the whole history is:
// both are searched for small histories, of which about half are illegal.
func TestSettledHistoriesAreJudgedTheSame(t *testing.T) {
	const histories = 4000
	for _, c := range []struct {
		name    string
		model   porcupine.Model
		settled func([]porcupine.Operation) []porcupine.Operation
		random  func(*rand.Rand) []porcupine.Operation
	}{
		{"register", Register(), SettledWrites, randomAccesses},
		{"leases", Leases(), SettledLeases, randomCalls},
		{"values", Values(), SettledValues, randomSwaps},
	} {
		verdicts := make(map[porcupine.CheckResult]int)
		shorter := 0
		for seed := range uint64(histories) {
			ops := c.random(rand.New(rand.NewPCG(seed, 1)))
			whole, long := Linearized(c.model, ops)
			less, short := Linearized(c.model, c.settled(ops))
			if whole != less || whole == porcupine.Unknown {
				t.Fatalf("%s: seed %d: the whole history is %v, the settled one %v:\n%+v", c.name, seed, whole, less, ops)
			}
			verdicts[whole]++
			if short < long {
				shorter++
			}
		}
		t.Logf("%s: %v, the settled one was cheaper in %d", c.name, verdicts, shorter)
		if verdicts[porcupine.Ok] < histories/5 || verdicts[porcupine.Illegal] < histories/5 || shorter < histories/20 {
			t.Errorf("%s: %v, cheaper in %d: this is no test", c.name, verdicts, shorter)
		}
	}
}

// span gives operations of an order times that overlap those of their neighbours; one
// in eight whose end may be unknown has none.
func span(rng *rand.Rand, place int, mayBeLost bool) (call, end int64, lost bool) {
	call = int64(10*place) - rng.Int64N(25)
	if end = int64(10*place) + rng.Int64N(25) + 1; rng.IntN(6) == 0 {
		end += rng.Int64N(150)
	}
	if mayBeLost && rng.IntN(3) == 0 {
		return call, math.MaxInt64, true
	}
	return call, end, false
}

// randomAccesses is a history of the register in which an answer may be wrong.
func randomAccesses(rng *rand.Rand) (ops []porcupine.Operation) {
	value, former := "", ""
	for n := range 14 {
		write := rng.IntN(2) == 0
		call, end, lost := span(rng, n, write)
		op := porcupine.Operation{ClientId: n, Input: Access{}, Output: Access{Value: value}, Call: call, Return: end}
		switch {
		case write:
			in := Access{Write: true, Value: strconv.Itoa(n)}
			op.Input, op.Output = in, Access{}
			if !lost || rng.IntN(2) == 0 { // a lost one may have had no effect
				value, former = in.Value, value
			}
		case rng.IntN(5) == 0:
			op.Output = Access{Value: former}
		}
		ops = append(ops, op)
	}
	return ops
}

// randomCalls is a history of one lease in which an answer may be wrong. No lease ends
// by itself.
func randomCalls(rng *rand.Rand) (ops []porcupine.Operation) {
	state, token := tenure{}, fencing.Token(1)
	for n := range 14 {
		in := LeaseCall{Lease: "db", Holder: fmt.Sprintf("client-%d", rng.IntN(3)), Called: math.MaxInt64 / 2,
			Token: state.token, Data: strconv.Itoa(n)}
		in.Verb = []Verb{Acquire, Acquire, Release, Release, Renew, Look, Write,
			Read}[rng.IntN(8)]
		if rng.IntN(4) == 0 {
			in.Token = fencing.Token(rng.Uint64N(uint64(token) + 1))
		}
		call, end, lost := span(rng, n, in.Verb == Release)
		token++
		var right []Told
		for _, out := range []Told{
			{Said: Yes, Holder: in.Holder, Token: token, Returned: 1},
			{Said: Yes, Holder: state.holder, Token: state.token, Data: state.data, Returned: 1},
			{Said: Yes, Token: state.version, Data: state.data, Returned: 1},
			{Said: Held, Holder: state.holder, Token: state.token, Returned: 1},
			{Said: Over, Token: state.token, Returned: 1}, {Said: Fenced, Returned: 1}, {Said: Nothing, Returned: 1},
		} {
			if ok, _ := state.step(in, out); ok {
				right = append(right, out)
			}
		}
		if lost {
			right = []Told{{Said: Unknown, Returned: math.MaxInt64}}
		}
		if len(right) == 0 {
			continue
		}
		out := right[rng.IntN(len(right))]
		if _, next := state.step(in, out); !lost || rng.IntN(2) == 0 {
			state = next
		}
		if rng.IntN(12) == 0 && !lost {
			out.Token = max(out.Token+fencing.Token(rng.IntN(2))*2, 1) - 1
		}
		ops = append(ops, porcupine.Operation{ClientId: n, Input: in, Call: call, Output: out, Return: end})
	}
	return ops
}

// randomSwaps is a history of a value in which an answer may be wrong.
func randomSwaps(rng *rand.Rand) (ops []porcupine.Operation) {
	state, known := kept{}, []fencing.Token{0}
	for n := range 14 {
		in := ValueCall{Verb: Read, Key: "v"}
		out := ValueTold{Said: Yes, Version: state.version, Data: state.data}
		if state.data == "" {
			out.Said = Nothing
		}
		if rng.IntN(2) == 0 {
			in.Verb, in.Data, in.Version = Write, strconv.Itoa(n), known[max(0, len(known)-1-rng.IntN(2))]
			out = ValueTold{Said: Refused}
		}
		call, end, lost := span(rng, n, in.Verb == Write)
		matches := in.Verb == Write && in.Version == state.version
		if matches && (!lost || rng.IntN(2) == 0) {
			out = ValueTold{Said: Yes, Version: fencing.Token(n + 1)}
			state = kept{data: in.Data, version: out.Version}
			known = append(known, out.Version)
		}
		switch {
		case lost:
			out = ValueTold{Said: Unknown}
		case rng.IntN(20) == 0:
			out.Version++
		case rng.IntN(20) == 0 && in.Verb == Write:
			out = ValueTold{Said: Refused}
		}
		ops = append(ops, porcupine.Operation{ClientId: n, Input: in, Call: call, Output: out, Return: end})
	}
	return ops
}
