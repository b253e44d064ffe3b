package leases

import (
	"cmp"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// MaxSteps bounds the steps of one entry.
const MaxSteps = 1000

// Step is what a holder wants of its lease: another ttl, or its end. It is
// Renew or Release without an entry of its own, but that the release of what
// is over is a success also for a grant before the last.
type Step struct {
	Name    string        `cbor:"1,keyasint"`
	Holder  string        `cbor:"2,keyasint"`
	Token   fencing.Token `cbor:"3,keyasint"`
	Release bool          `cbor:"4,keyasint,omitempty"`
}

// Validate reports what no lease can have.
func (s Step) Validate() error { return validLease(s.Name, s.Holder) }

// Steps renews and releases many leases in one entry, since log version 2: what
// holders everywhere ask within a few milliseconds costs one commit. Grants cannot
// share one, since the index of the entry is their token. Each step is decided for
// itself, so the command as a whole succeeds. Its Value is []Stepped, in the
// same order.
type Steps struct {
	Steps []Step `cbor:"1,keyasint"`
}

// Stepped is what became of one step: the lease, and of a refusal how Renew
// or Release alone would have ended.
type Stepped struct {
	Code    entry.Code `cbor:"1,keyasint,omitempty"`
	Message string     `cbor:"2,keyasint,omitempty"`
	Lease   Answer     `cbor:"3,keyasint"`
	// Entry is the index at which it was decided.
	Entry fencing.Token `cbor:"4,keyasint,omitempty"`
}

// Err returns nil for a step that was taken and an *Error otherwise.
func (s Stepped) Err() error { return entry.Result{Code: s.Code, Message: s.Message}.Err() }

// Validate implements Command.
func (c Steps) Validate() error {
	return cmp.Or(valid.Count(len(c.Steps), MaxSteps, "steps of leases"), valid.Each(c.Steps, Step.Validate))
}

// Apply implements entry.Change.
func (c Steps) Apply(t Txn) entry.Result {
	out := make([]Stepped, 0, len(c.Steps))
	for _, s := range c.Steps {
		l, res, ok := t.ownLease(s.Name, s.Holder, s.Token)
		switch {
		case (ok || l.voidOf(s.Holder, s.Token)) && s.Release:
			t.recordLease(eventring.ActionReleased, l)
			l, res = t.freeLease(l), entry.Result{}
		case ok:
			t.extendLease(&l)
		case s.Release && res.Code == entry.Expired:
			res = entry.Result{} // it is over already, also for its former holder
		}
		// nothing remains of a free one
		now := Answer{Holder: l.Holder, Token: l.Token, Remaining: max(0, l.Remaining(t.Now()))}
		out = append(out, Stepped{Code: res.Code, Message: res.Message, Lease: now, Entry: t.Token})
	}
	return entry.Answer(out)
}

// guard is a promise that a write makes: its sender holds this lease, under this
// token. It is compared in the entry that writes, so nothing can come between.
type guard struct {
	lease string
	token fencing.Token
}

// holds returns nil while the lease is held under the token, and else why not. A
// token that was never issued is no better than one that is over.
func (t Txn) holds(g guard) *entry.Result {
	l, known := t.leases.Get([]byte(g.lease))
	var res entry.Result
	switch {
	case !known:
		res = entry.Refuse(entry.Fenced, "lease %s does not exist", g.lease)
	case l.Holder == "" || l.Void:
		res = entry.Refuse(entry.Fenced, "lease %s is over; acquire it again", g.lease)
	case l.Token != g.token:
		res = entry.Refuse(entry.Fenced, "lease %s is held by %s under token %v, not %v", g.lease, l.Holder, l.Token, g.token)
	default:
		return nil
	}
	return &res
}
