package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

// MaxLeaseSteps bounds the steps of one entry.
const MaxLeaseSteps = 1000

// LeaseStep is what a holder wants of its lease: another ttl, or its end. It is
// RenewLease or ReleaseLease without an entry of its own, but that the release of what
// is over is a success also for a grant before the last.
type LeaseStep struct {
	Name    string        `cbor:"1,keyasint"`
	Holder  string        `cbor:"2,keyasint"`
	Token   fencing.Token `cbor:"3,keyasint"`
	Release bool          `cbor:"4,keyasint,omitempty"`
}

// Validate reports what no lease can have.
func (s LeaseStep) Validate() error { return validLease(s.Name, s.Holder) }

// StepLeases renews and releases many leases in one entry, since log version 2: what
// holders everywhere ask within a few milliseconds costs one commit. Grants cannot
// share one, since the index of the entry is their token. Each step is decided for
// itself, so the command as a whole succeeds. Its Value is []LeaseStepped, in the
// same order.
type StepLeases struct {
	Steps []LeaseStep `cbor:"1,keyasint"`
}

// LeaseStepped is what became of one step: the lease, and of a refusal how RenewLease
// or ReleaseLease alone would have ended.
type LeaseStepped struct {
	Code    Code        `cbor:"1,keyasint,omitempty"`
	Message string      `cbor:"2,keyasint,omitempty"`
	Lease   LeaseAnswer `cbor:"3,keyasint"`
	// Entry is the index at which it was decided.
	Entry fencing.Token `cbor:"4,keyasint,omitempty"`
}

// Err returns nil for a step that was taken and an *Error otherwise.
func (s LeaseStepped) Err() error { return Result{Code: s.Code, Message: s.Message}.Err() }

// Validate implements Command.
func (c StepLeases) Validate() error {
	if len(c.Steps) == 0 || len(c.Steps) > MaxLeaseSteps {
		return invalid("%d steps of leases, allowed are 1 to %d", len(c.Steps), MaxLeaseSteps)
	}
	for _, s := range c.Steps {
		if err := s.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func applyStepLeases(t *txn, c StepLeases) Result {
	out := make([]LeaseStepped, 0, len(c.Steps))
	for _, s := range c.Steps {
		out = append(out, t.stepLease(s))
	}
	return answer(out)
}

func (t *txn) stepLease(s LeaseStep) LeaseStepped {
	l, res, ok := t.ownLease(s.Name, s.Holder, s.Token)
	switch {
	case (ok || l.voidOf(s.Holder, s.Token)) && s.Release:
		t.recordLease(ActionReleased, l)
		l, res = t.freeLease(l), Result{}
	case ok:
		t.extendLease(&l)
	case s.Release && res.Code == Expired:
		res = Result{} // it is over already, also for its former holder
	}
	return LeaseStepped{Code: res.Code, Message: res.Message, Lease: t.leaseState(l), Entry: t.token}
}

// leaseState is the public part of a lease; nothing remains of a free one.
func (t *txn) leaseState(l Lease) LeaseAnswer {
	return LeaseAnswer{Holder: l.Holder, Token: l.Token, Remaining: max(0, l.Remaining(t.now()))}
}

// guard is a promise that a write makes: its sender holds this lease, under this
// token. It is compared in the entry that writes, so nothing can come between.
type guard struct {
	lease string
	token fencing.Token
}

// holds returns nil while the lease is held under the token, and else why not. A
// token that was never issued is no better than one that is over.
func (t *txn) holds(g guard) *Result {
	l, known := t.leases.get([]byte(g.lease))
	var res Result
	switch {
	case !known:
		res = refuse(Fenced, "lease %s does not exist", g.lease)
	case l.Holder == "" || l.Void:
		res = refuse(Fenced, "lease %s is over; acquire it again", g.lease)
	case l.Token != g.token:
		res = refuse(Fenced, "lease %s is held by %s under token %v, not %v", g.lease, l.Holder, l.Token, g.token)
	default:
		return nil
	}
	return &res
}
