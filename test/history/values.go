package history

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// ValueCall is one thing that a client asked of a value: to Read it, or to Write it if it
// has a version.
type ValueCall struct {
	Verb    Verb
	Key     string
	Version fencing.Token // that the value is to have; 0: there is none
	Data    string        // to write: not empty, and each is written once
}

// ValueTold is the answer: Yes, Refused, Nothing (to a read) or Unknown.
type ValueTold struct {
	Said    Saying
	Version fencing.Token
	Data    string
}

// kept is the state of a value. Nobody was told its version yet if unsure, but that it is
// greater than version.
type kept struct {
	data    string // "": there is none
	version fencing.Token
	unsure  bool
}

// Values is what docs/contract.md#leases promises of values that are compared and set.
func Values() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return kept{} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := state.(kept).step(input.(ValueCall), output.(ValueTold))
			return ok, next
		},
		Partition:         partition(func(in any) string { return in.(ValueCall).Key }),
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
}

// has reports whether the value may have the version.
func (s kept) has(version fencing.Token) bool {
	if s.unsure {
		return version > s.version
	}
	return version == s.version
}

func (s kept) step(in ValueCall, out ValueTold) (bool, kept) {
	switch {
	case in.Verb == Read && out.Said == Nothing:
		return s.data == "", s
	case in.Verb == Read:
		return s.data != "" && out.Data == s.data && s.has(out.Version), kept{data: s.data, version: out.Version}
	case out.Said == Refused:
		return s.unsure || in.Version != s.version, s
	case out.Said == Yes:
		return !s.unsure && in.Version == s.version && out.Version > s.version,
			kept{data: in.Data, version: out.Version}
	case !s.unsure && in.Version == s.version: // nobody knows
		return true, kept{data: in.Data, version: s.version, unsure: true}
	}
	return true, s
}

// SettledValues returns a history that is linearizable exactly if ops is, with fewer
// operations that are open for ever: a version is replaced once. So a write whose
// outcome nobody knows was in vain if another is known to have replaced the version that
// it names, and it took effect before the end of any read of its data.
func SettledValues(ops []porcupine.Operation) (settled []porcupine.Operation) {
	type version struct {
		key    string
		number fencing.Token
	}
	replaced := make(map[version]bool)
	read := make(map[string]int64) // by data, when it was first known to be written
	for _, op := range ops {
		in, out := op.Input.(ValueCall), op.Output.(ValueTold)
		switch {
		case in.Verb == Write && out.Said == Yes:
			replaced[version{in.Key, in.Version}] = true
		case in.Verb == Read && out.Said == Yes:
			if first, known := read[out.Data]; !known || op.Return < first {
				read[out.Data] = op.Return
			}
		}
	}
	for _, op := range slices.Clone(ops) {
		in, out := op.Input.(ValueCall), op.Output.(ValueTold)
		first, wasRead := read[in.Data]
		switch {
		case out.Said != Unknown:
		case wasRead:
			op.Return = max(op.Call, first)
		case replaced[version{in.Key, in.Version}]:
			continue
		}
		settled = append(settled, op)
	}
	return settled
}

// StaleRead is an answer of one peer from its own state.
type StaleRead struct {
	Key, Peer        string
	Version          fencing.Token // 0: there is no such value
	Data             string
	Called, Returned int64 // Unix ns
	Age              int64 // ns: how old the peer says that the answer may be
}

// Stale returns what is wrong with stale reads of values, given all writes of them. What
// was replaced, and whose replacement was acknowledged, more than Age and slack before the
// question is older than the answer claims. What was refused, and what nobody had asked
// for yet, is no value at all.
func Stale(writes []porcupine.Operation, reads []StaleRead, slack int64) (broken []string) {
	acknowledged := make(map[string][]porcupine.Operation)
	asked := make(map[string]porcupine.Operation)
	for _, op := range writes {
		in, out := op.Input.(ValueCall), op.Output.(ValueTold)
		if in.Verb != Write {
			continue
		}
		asked[in.Data] = op
		if out.Said == Yes {
			acknowledged[in.Key] = append(acknowledged[in.Key], op)
		}
	}
	for _, r := range reads {
		write, known := asked[r.Data]
		if r.Version > 0 && (!known || write.Call > r.Returned || write.Output.(ValueTold).Said == Refused) {
			broken = append(broken, fmt.Sprintf("%s answered %s of %s, which nobody wrote", r.Peer, r.Data, r.Key))
		}
		oldest := int64(math.MaxInt64) // when it was known at the earliest that the answer is out of date
		for _, op := range acknowledged[r.Key] {
			if op.Output.(ValueTold).Version > r.Version {
				oldest = min(oldest, op.Return)
			}
		}
		if late := r.Called - r.Age - slack - oldest; oldest < math.MaxInt64 && late > 0 {
			broken = append(broken, fmt.Sprintf("%s answered version %v of %s, which it says is at most %d ms old; "+
				"another was acknowledged %d ms before the question", r.Peer, r.Version, r.Key, r.Age/1e6, (r.Called-oldest)/1e6))
		}
	}
	return broken
}
