package simtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

const (
	// mostSteps bounds the search for an order of one history, by work and not by time,
	// so that the verdict does not depend on the machine. Most good histories take less
	// than 30,000, of 30 with a wrong answer the costliest took 75,000. Of 320 under faults
	// that overlap five took more than a million, and three of these came to no end; all of
	// it takes 200 MB.
	mostSteps = 5_000_000
	// searchHangs is for how long a search may go on whatever it does.
	searchHangs = 10 * time.Minute
)

// linearized says whether a history is one that the model could have given, and after
// how many steps of the search: it is Unknown after mostSteps.
func linearized(model porcupine.Model, ops []porcupine.Operation) (porcupine.CheckResult, int64) {
	var steps atomic.Int64
	bounded := model
	bounded.Step = func(state, input, output any) (bool, any) {
		if steps.Add(1) > mostSteps {
			return false, state // no order is found any more, so the search ends
		}
		return model.Step(state, input, output)
	}
	result := porcupine.CheckOperationsTimeout(bounded, ops, searchHangs)
	if result == porcupine.Illegal && steps.Load() > mostSteps {
		result = porcupine.Unknown
	}
	return result, steps.Load()
}

// settledWrites returns a history of the register that is linearizable exactly if ops
// is, without an operation that is open for ever: the search is exponential in those.
// Each value is written once. A write whose outcome nobody knows and whose value nobody
// read might as well not have been made; one whose value was read took effect before
// the end of that read.
func settledWrites(ops []porcupine.Operation) (settled []porcupine.Operation) {
	read := make(map[string]int64) // when it was first known that a value was written
	for _, op := range ops {
		if out := op.Output.(access); !op.Input.(access).write {
			if first, known := read[out.value]; !known || op.Return < first {
				read[out.value] = op.Return
			}
		}
	}
	for _, op := range ops {
		if in := op.Input.(access); in.write && op.Return == math.MaxInt64 {
			first, known := read[in.value]
			if !known {
				continue
			}
			op.Return = max(op.Call, first)
		}
		settled = append(settled, op)
	}
	return settled
}

// settledLeases returns a history that is linearizable exactly if ops is, with shorter
// operations: the search is exponential in those that overlap. No token of a lease and
// its value ever falls, so
//   - a grant or a write took effect before the end of any answer that shows its token
//     or a higher one;
//   - a release whose outcome nobody knows changes nothing once a higher token of the
//     lease was granted, so it might as well have come right after that.
func settledLeases(ops []porcupine.Operation) []porcupine.Operation {
	type proof struct {
		token fencing.Token
		by    int64 // when the answer came
	}
	proofs := make(map[string][]proof) // by lease, of its token
	values := make(map[string][]proof) // by lease, of its token or its value's
	for _, op := range ops {
		lease := op.Input.(leaseCall).lease
		if token, ofLease := shown(op); ofLease {
			proofs[lease] = append(proofs[lease], proof{token, op.Return})
			values[lease] = append(values[lease], proof{token, op.Return})
		} else if token > 0 {
			values[lease] = append(values[lease], proof{token, op.Return})
		}
	}
	first := func(of []proof, least fencing.Token) int64 {
		by := int64(math.MaxInt64)
		for _, p := range of {
			if p.token >= least {
				by = min(by, p.by)
			}
		}
		return by
	}
	settled := slices.Clone(ops)
	for i, op := range settled {
		in, out := op.Input.(leaseCall), op.Output.(told)
		switch {
		case out.said == saidUnknown:
			settled[i].Return = max(op.Call, first(proofs[in.lease], in.token+1))
		case out.said == saidYes && (in.verb == verbAcquire || in.verb == verbWrite):
			if by := first(values[in.lease], out.token); by >= op.Call { // else no order is right
				settled[i].Return = by
			}
		}
	}
	return settled
}

// shown returns the token that an answer proves, and whether it is that of the lease,
// not that of the value. A token of 0 proves nothing.
func shown(op porcupine.Operation) (token fencing.Token, ofLease bool) {
	in, out := op.Input.(leaseCall), op.Output.(told)
	switch {
	case out.said == saidUnknown, out.said == saidFenced, in.verb == verbRenew && out.said == saidOver,
		in.verb == verbRelease && out.said == saidYes:
		return 0, false // the model asks nothing of a token there
	case in.verb == verbWrite, in.verb == verbRead:
		return out.token, false
	}
	return out.token, out.token > 0
}

// What settledWrites and settledLeases leave is legal exactly if the whole history is:
// both are searched for small histories, of which about half are illegal.
func TestSettledHistoriesAreJudgedTheSame(t *testing.T) {
	const histories = 4000
	for _, c := range []struct {
		name    string
		model   porcupine.Model
		settled func([]porcupine.Operation) []porcupine.Operation
		random  func(*rand.Rand) []porcupine.Operation
	}{
		{"register", register, settledWrites, randomAccesses},
		{"leases", leaseModel, settledLeases, randomCalls},
	} {
		verdicts := make(map[porcupine.CheckResult]int)
		shorter := 0
		for seed := range uint64(histories) {
			ops := c.random(NewRand(seed))
			whole, long := linearized(c.model, ops)
			less, short := linearized(c.model, c.settled(ops))
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
		op := porcupine.Operation{ClientId: n, Input: access{}, Output: access{value: value}, Call: call, Return: end}
		switch {
		case write:
			in := access{write: true, value: strconv.Itoa(n)}
			op.Input, op.Output = in, access{}
			if !lost || rng.IntN(2) == 0 { // a lost one may have had no effect
				value, former = in.value, value
			}
		case rng.IntN(5) == 0:
			op.Output = access{value: former}
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
		in := leaseCall{lease: "db", holder: fmt.Sprintf("client-%d", rng.IntN(3)), called: math.MaxInt64 / 2,
			token: state.token, data: strconv.Itoa(n)}
		in.verb = []verb{verbAcquire, verbAcquire, verbRelease, verbRelease, verbRenew, verbLook, verbWrite,
			verbRead}[rng.IntN(8)]
		if rng.IntN(4) == 0 {
			in.token = fencing.Token(rng.Uint64N(uint64(token) + 1))
		}
		call, end, lost := span(rng, n, in.verb == verbRelease)
		token++
		var right []told
		for _, out := range []told{
			{said: saidYes, holder: in.holder, token: token, returned: 1},
			{said: saidYes, holder: state.holder, token: state.token, data: state.data, returned: 1},
			{said: saidYes, token: state.version, data: state.data, returned: 1},
			{said: saidHeld, holder: state.holder, token: state.token, returned: 1},
			{said: saidOver, token: state.token, returned: 1}, {said: saidFenced, returned: 1}, {said: saidNothing, returned: 1},
		} {
			if ok, _ := state.step(in, out); ok {
				right = append(right, out)
			}
		}
		if lost {
			right = []told{{said: saidUnknown, returned: math.MaxInt64}}
		}
		if len(right) == 0 {
			continue
		}
		out := right[rng.IntN(len(right))]
		if _, next := state.step(in, out); !lost || rng.IntN(2) == 0 {
			state = next
		}
		if rng.IntN(12) == 0 && !lost {
			out.token = max(out.token+fencing.Token(rng.IntN(2))*2, 1) - 1
		}
		ops = append(ops, porcupine.Operation{ClientId: n, Input: in, Call: call, Output: out, Return: end})
	}
	return ops
}
