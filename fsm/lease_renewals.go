package fsm

import "github.com/trivet-ha/trivet/fencing"

// MaxRenewals bounds the renewals of one entry.
const MaxRenewals = 1000

// RenewLeases renews many leases in one entry, since log version 5: what holders
// everywhere ask within a few milliseconds costs one commit. Each is decided for
// itself, so the command as a whole succeeds. Its Value is []Renewed, in the same
// order.
type RenewLeases struct {
	Renewals []RenewLease `cbor:"1,keyasint"`
}

// Renewed is what became of one renewal: the lease, and of a refusal how
// RenewLease alone would have ended.
type Renewed struct {
	Code    Code        `cbor:"1,keyasint,omitempty"`
	Message string      `cbor:"2,keyasint,omitempty"`
	Lease   LeaseAnswer `cbor:"3,keyasint"`
}

// Err returns nil for a lease that was renewed and an *Error otherwise.
func (r Renewed) Err() error { return Result{Code: r.Code, Message: r.Message}.Err() }

// Kind implements Command.
func (RenewLeases) Kind() Kind { return KindRenewLeases }

// Validate implements Command.
func (c RenewLeases) Validate() error {
	if len(c.Renewals) == 0 || len(c.Renewals) > MaxRenewals {
		return invalid("%d renewals, allowed are 1 to %d", len(c.Renewals), MaxRenewals)
	}
	for _, r := range c.Renewals {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func applyRenewLeases(t *txn, c RenewLeases) Result {
	out := make([]Renewed, 0, len(c.Renewals))
	for _, r := range c.Renewals {
		l, res, ok := t.ownLease(r.Name, r.Holder, r.Token)
		if ok {
			t.extendLease(&l)
		}
		out = append(out, Renewed{Code: res.Code, Message: res.Message, Lease: t.leaseState(l)})
	}
	return answer(out)
}

// leaseState is what others are told of a lease; nothing remains of a free one.
func (t *txn) leaseState(l Lease) LeaseAnswer {
	return LeaseAnswer{Holder: l.Holder, Token: l.Token, Remaining: max(0, l.Remaining(t.now()))}
}

// guard is a promise that a write makes: whoever sends it holds this lease, under
// this token. It is compared in the entry that writes, so nothing can come between.
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
	case l.Holder == "":
		res = refuse(Fenced, "lease %s is over; acquire it again", g.lease)
	case l.Token != g.token:
		res = refuse(Fenced, "lease %s is held by %s under token %v, not %v", g.lease, l.Holder, l.Token, g.token)
	default:
		return nil
	}
	return &res
}
