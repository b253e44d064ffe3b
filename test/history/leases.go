package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// LeaseCall is one thing that a client asked of a lease, or of the value that is written
// under it.
type LeaseCall struct {
	Verb     Verb
	Lease    string
	Holder   string
	Token    fencing.Token // that is shown
	TTL      time.Duration
	Takeover bool
	Data     string // to write, and the ID of the request
	Called   int64  // when the first try was sent, Unix ns
}

// Verb is what a client asks for.
type Verb string

// The verbs of leases; values have Read and Write, too.
const (
	Acquire Verb = "acquire"
	Renew   Verb = "renew"
	Release Verb = "release"
	Write   Verb = "write"
	Look    Verb = "look"  // at the lease
	Read    Verb = "read"  // the value
	Ended   Verb = "ended" // an acquisition was told that its grant is over
)

// Told is the answer.
type Told struct {
	Said     Saying
	Holder   string
	Token    fencing.Token // of the lease, or the value's version
	Data     string
	Returned int64 // when it came, Unix ns; math.MaxInt64: never
}

// Saying is what an answer means.
type Saying string

// The sayings. Refused is that a value has another version than the one that was named.
const (
	Yes     Saying = "yes"
	Held    Saying = "held"
	Over    Saying = "over"
	Fenced  Saying = "fenced"
	Refused Saying = "refused"
	Nothing Saying = "nothing there"
	Unknown Saying = "unknown"
)

// tenure is the state of one lease and its value. That a lease may end by itself is
// no step of its own: it ends when somebody is told so, who must not have been before
// its earliest end. A lease has no latest end: cluster time may stand still.
type tenure struct {
	holder   string
	token    fencing.Token
	over     bool
	earliest int64 // of its end: a ttl after it was asked for, or renewed
	data     string
	version  fencing.Token
}

// ended says whether an answer may have found the lease over.
func (s tenure) ended(by Told) bool {
	return s.over || s.token.IsZero() || by.Returned >= s.earliest
}

func (s tenure) heldAs(said Told) bool {
	return !s.over && !s.token.IsZero() && s.holder == said.Holder && s.token == said.Token
}

func (s tenure) after(over bool) tenure {
	s.over = over
	return s
}

// Leases is what docs/contract.md#leases promises of leases and the values under them.
func Leases() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return tenure{} },
		Step: func(state, input, output any) (bool, any) {
			ok, next := state.(tenure).step(input.(LeaseCall), output.(Told))
			return ok, next
		},
		Partition:         partition(func(in any) string { return in.(LeaseCall).Lease }),
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}
}

// partition divides a history into those of the things that its operations name.
func partition(name func(in any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byName := make(map[string][]porcupine.Operation)
		for _, op := range all {
			byName[name(op.Input)] = append(byName[name(op.Input)], op)
		}
		for _, key := range slices.Sorted(maps.Keys(byName)) {
			parts = append(parts, byName[key])
		}
		return parts
	}
}

func (s tenure) step(in LeaseCall, out Told) (bool, tenure) {
	switch in.Verb {
	case Acquire:
		return s.acquire(in, out)
	case Renew:
		return s.renew(in, out)
	case Release:
		return s.release(in, out)
	case Write:
		return s.write(in, out)
	case Read:
		return out.Data == s.data && out.Token == s.version, s
	case Ended:
		return s.token > out.Token || s.token == out.Token && s.ended(out), s.after(s.over || s.token == out.Token)
	}
	return s.look(out)
}

func (s tenure) acquire(in LeaseCall, out Told) (bool, tenure) {
	if out.Said == Held {
		return s.heldAs(out), s
	}
	mine := in.Takeover && s.holder == in.Holder && !s.over
	next := tenure{holder: in.Holder, token: out.Token, earliest: in.Called + int64(in.TTL), data: s.data,
		version: s.version}
	return (mine || s.ended(out)) && out.Token > s.token && out.Token > s.version, next
}

func (s tenure) renew(in LeaseCall, out Told) (bool, tenure) {
	switch out.Said {
	case Yes:
		ok := s.heldAs(Told{Holder: in.Holder, Token: in.Token}) && out.Token == in.Token
		s.earliest = max(s.earliest, in.Called+int64(in.TTL))
		return ok, s
	case Held:
		return s.heldAs(out) && out.Token != in.Token, s
	}
	return out.Said == Over && in.Token <= s.token && s.ended(out), s.after(true)
}

// release ends what is held under the token also when nobody knows its outcome: then
// it may come last.
func (s tenure) release(in LeaseCall, out Told) (bool, tenure) {
	switch out.Said {
	case Yes: // what is over is released
		return s.token == in.Token || s.token > in.Token && s.ended(out), s.after(true)
	case Held:
		return s.heldAs(out) && out.Token > in.Token, s
	}
	return out.Said == Unknown, s.after(s.over || s.token == in.Token)
}

func (s tenure) write(in LeaseCall, out Told) (bool, tenure) {
	mine := s.token == in.Token
	if out.Said == Fenced {
		return in.Token < s.token || mine && s.ended(out), s.after(s.over || mine)
	}
	ok := mine && !s.over && out.Token > s.version && out.Token > s.token
	s.data, s.version = in.Data, out.Token
	return ok, s
}

func (s tenure) look(out Told) (bool, tenure) {
	switch out.Said {
	case Yes:
		return s.heldAs(out), s
	case Over:
		return s.token == out.Token && s.ended(out), s.after(true)
	}
	return out.Said == Nothing && s.token.IsZero(), s
}

// SettledLeases returns a history that is linearizable exactly if ops is, with shorter
// operations: the search is exponential in those that overlap. No token of a lease and
// its value ever falls, so
//   - a grant or a write took effect before the end of any answer that shows its token
//     or a higher one;
//   - a release whose outcome nobody knows changes nothing once a higher token of the
//     lease was granted, so it might as well have come right after that.
func SettledLeases(ops []porcupine.Operation) []porcupine.Operation {
	type proof struct {
		token fencing.Token
		by    int64 // when the answer came
	}
	proofs := make(map[string][]proof) // by lease, of its token
	values := make(map[string][]proof) // by lease, of its token or its value's
	for _, op := range ops {
		lease := op.Input.(LeaseCall).Lease
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
		in, out := op.Input.(LeaseCall), op.Output.(Told)
		switch {
		case out.Said == Unknown:
			settled[i].Return = max(op.Call, first(proofs[in.Lease], in.Token+1))
		case out.Said == Yes && (in.Verb == Acquire || in.Verb == Write):
			if by := first(values[in.Lease], out.Token); by >= op.Call { // else no order is right
				settled[i].Return = by
			}
		}
	}
	return settled
}

// shown returns the token that an answer proves, and whether it is that of the lease,
// not that of the value. A token of 0 proves nothing.
func shown(op porcupine.Operation) (token fencing.Token, ofLease bool) {
	in, out := op.Input.(LeaseCall), op.Output.(Told)
	switch {
	case out.Said == Unknown, out.Said == Fenced, in.Verb == Renew && out.Said == Over,
		in.Verb == Release && out.Said == Yes:
		return 0, false // the model asks nothing of a token there
	case in.Verb == Write, in.Verb == Read:
		return out.Token, false
	}
	return out.Token, out.Token > 0
}

// Tokens checks what no model of one lease can see: over all leases and values no token
// comes twice, and of two grants, one of which was answered before the other was asked
// for, the later has the greater one. It returns what is broken.
func Tokens(all []porcupine.Operation) (broken []string) {
	var granted []porcupine.Operation
	for _, op := range all {
		verb, said := op.Input.(LeaseCall).Verb, op.Output.(Told).Said
		if said == Yes && (verb == Acquire || verb == Write) {
			granted = append(granted, op)
		}
	}
	token := func(op porcupine.Operation) fencing.Token { return op.Output.(Told).Token }
	slices.SortFunc(granted, func(a, b porcupine.Operation) int { return cmp.Compare(token(a), token(b)) })
	latest := int64(math.MinInt64) // that a lower token was asked for
	for n, op := range granted {
		if n > 0 && token(granted[n-1]) == token(op) {
			broken = append(broken, fmt.Sprintf("token %v was granted twice: %+v and %+v", token(op), granted[n-1].Input,
				op.Input))
		}
		if op.Return < latest {
			broken = append(broken, fmt.Sprintf("%+v got token %v before one with a lower token was asked for", op.Input,
				token(op)))
		}
		latest = max(latest, op.Call)
	}
	return broken
}
