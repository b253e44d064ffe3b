package history

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// Access is one operation on the shared register, as a client saw it.
type Access struct {
	Write bool
	Value string // written, or read
}

// Register is the model of a single value: what was read must be what was last written.
func Register() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			if in := input.(Access); in.Write {
				return true, in.Value
			}
			return output.(Access).Value == state, state
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
	}
}

// SettledWrites returns a history of the register that is linearizable exactly if ops
// is, without an operation that is open for ever: the search is exponential in those.
// Each value is written once. A write whose outcome nobody knows and whose value nobody
// read might as well not have been made; one whose value was read took effect before
// the end of that read.
func SettledWrites(ops []porcupine.Operation) (settled []porcupine.Operation) {
	read := make(map[string]int64) // when it was first known that a value was written
	for _, op := range ops {
		if out := op.Output.(Access); !op.Input.(Access).Write {
			if first, known := read[out.Value]; !known || op.Return < first {
				read[out.Value] = op.Return
			}
		}
	}
	for _, op := range ops {
		if in := op.Input.(Access); in.Write && op.Return == math.MaxInt64 {
			first, known := read[in.Value]
			if !known {
				continue
			}
			op.Return = max(op.Call, first)
		}
		settled = append(settled, op)
	}
	return settled
}
