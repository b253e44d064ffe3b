package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/pace"
)

// outcome writes into the log what becomes of a request.
type outcome struct {
	assignment
	// saved is set once `processing` is in the log: from then on the request
	// must not be done again (strict transition of the specification).
	saved bool
	// answered is set once the callback's success is in the log: what is left,
	// the power-off, may be done by any worker.
	answered bool
	// processed is what the data became, once the hooks are through with it.
	processed blobs.Packed
	// busy is what Ironic said last for which the request waited; nil: it did not.
	busy error
}

// halted reports whether a worker was kept from acting, rather than failing at
// it: its process stops, or its session was not renewed in time and may be over.
// What it then says in the log is refused if the session is.
func halted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ironic.ErrNotAllowed)
}

// giveBack lets any worker do the request.
func (o *outcome) giveBack() {
	_, err := o.commit(introspection.Release{Claim: o.claim.Hold()})
	if err != nil && !errors.Is(err, errClaimLost) {
		o.log.Error("release request failed; its claim ends with the session of this peer", "err", err)
	}
}

// commit writes one step into the log. A full table is waited for; else only
// the end of the session or of the process keeps it from knowing the outcome.
func (o *outcome) commit(c fsm.Command) (fsm.Result, error) {
	ctx, end := o.pool.stop.commit()
	defer end()
	for {
		res, err := o.pool.o.Session.DoIn(ctx, o.claim.Session, c)
		switch {
		case errors.Is(err, fsm.SessionEnded), err != nil && ctx.Err() != nil:
			return res, fmt.Errorf("%w: %w", errClaimLost, err)
		case err != nil:
			return res, err
		case res.Code == fsm.ClaimLost:
			return res, errClaimLost
		case res.Code != fsm.TableFull:
			return res, res.Err()
		}
		pace.Wait(ctx, turnWait)
	}
}

// consume ends a request that needs nothing more.
func (o *outcome) consume() error {
	_, err := o.commit(introspection.Consume{Claim: o.claim.Hold()})
	return err
}

// advance moves the node. A jammed state machine consumes the request, as the
// specification says.
func (o *outcome) advance(a introspection.Advance) error {
	a.Claim = o.claim.Hold()
	_, err := o.commit(a)
	if errors.Is(err, fsm.IllegalTransition) {
		o.log.Warn("request dropped: the state of the node does not allow it", "err", err)
		return o.consume()
	}
	return err
}

// fail ends the introspection in error; a callback is answered with status.
func (o *outcome) fail(status int, text string) error {
	a := introspection.Advance{Event: introspection.EventError, Error: inspector.Clip(text), Consume: true}
	o.logFailure(a.Error)
	if o.request.Event == introspection.EventProcess {
		a.Answer = introspection.Answer{Status: status, Message: a.Error}
		a.Unprocessed = o.hashToStore()
	}
	a.Processed = o.processed // of a rule that failed
	return o.advance(a)
}

// logFailure tells of an introspection that ends in error; of one whose time is over, why its
// machine did not come up, as far as that was found.
func (o *outcome) logFailure(reason string) {
	log := o.log.With("reason", reason)
	v := o.pool.o.Log.View()
	if reason == textTimeout && o.busy != nil {
		log = log.With("err", o.busy)
	}
	if rec, ok := v.Record(o.claim.Node); ok && reason == textTimeout {
		if found := v.FindingOf(rec.Node, rec.Begun); !found.IsZero() {
			log = log.With("finding", found.Code, "found", found.Text, "remedy", boots.Remedy(found.Code))
		}
	}
	log.Warn("introspection failed")
}

// hashToStore names the callback's document if it is to be stored.
func (o *outcome) hashToStore() blobs.Hash {
	if !o.by.Config.StoreData {
		return blobs.Hash{}
	}
	return o.request.Document
}

// takeTurn takes the cluster's next turn for the claimed start.
func (o *outcome) takeTurn(gap time.Duration) (turn introspection.Turn, text string, err error) {
	res, err := o.commit(introspection.TakeTurn{Claim: o.claim.Hold(), Gap: gap})
	if errors.Is(err, fsm.Refused) {
		return turn,
			"Failed to power on the node: so many wait for their turn (introspection_delay) that its own comes after the introspection's time-out",
			nil
	}
	if err == nil {
		err = res.Decode(&turn)
	}
	return turn, "", err
}

// noteHook leaves word of what this worker is about to do, in the log if there is no
// other place.
func (o *outcome) noteHook(hook string) error {
	err := o.pool.o.Notes.Note(o.request.Sequence, hook)
	if err == nil {
		return nil
	}
	o.log.Warn("write crash note to file failed, committing it to the log", "hook", hook, "err", err)
	return o.mark(introspection.Mark{Hook: hook})
}

// mark notes in the log what this worker is about to do.
func (o *outcome) mark(m introspection.Mark) error {
	m.Claim = o.claim.Hold()
	_, err := o.commit(m)
	return err
}

// handsOver reports whether this peer stops and another may do what is left.
func (o *outcome) handsOver() bool { return o.answered && o.pool.stop.claims.Err() != nil }
