package inspector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
)

// textTimeout is the contract's error of an introspection whose time is over.
const textTimeout = "Introspection timeout"

// How a job may end other than well.
var (
	// errGiveBack: nothing was left half done; any worker may do it.
	errGiveBack = errors.New("given back")
	// errClaimLost: what this job did is no longer its business.
	errClaimLost = errors.New("the claim is lost")
)

// job is one claimed request while a worker carries it out. It belongs to one
// goroutine.
type job struct {
	pool    *WorkerPool
	by      Settings // from beginning to end
	claim   fsm.Claim
	request fsm.QueuedRequest
	log     *slog.Logger
	began   time.Time // what is under way, for the judgement of its failure
	// saved is set once `processing` is in the log: from then on the request
	// must not be done again (strict transition of the specification).
	saved bool
	// answered is set once the callback's success is in the log: what is left,
	// the power-off, may be done by any worker.
	answered bool
	hooks    hookGoroutine // runs the hooks
	// task is set if the callback was taken, which saved it.
	task *Task
	// processed is what the data became, once the hooks are through with it.
	processed fsm.Packed
}

func (p *WorkerPool) job(claimed fsm.ClaimedRequest) *job {
	j := &job{pool: p, by: p.o.Live.Now(), claim: claimed.Claim, request: claimed.Request, began: time.Now()}
	j.log = p.o.Logger.With("node", j.claim.Node, "event", j.request.Event.String(), "claim", j.claim.Token)
	return j
}

// work carries out one claimed request. The claim always ends: with the request
// done, failed or given back, or because it was lost.
func (j *job) work() {
	defer j.hooks.stop()
	ctx := j.pool.stop.tasks
	err := j.guarded(WithGuard(ctx, func() error { return j.allowed(ctx) }))
	if err == nil {
		return
	}
	if err := j.settle(err); err != nil && !errors.Is(err, errClaimLost) {
		j.log.Error("commit outcome of request failed, releasing the request", "err", err)
		j.giveBack()
	}
}

// giveBack lets any worker do the request.
func (j *job) giveBack() {
	_, err := j.commit(fsm.Release{Claim: j.claim.Hold()})
	if err != nil && !errors.Is(err, errClaimLost) {
		j.log.Error("release request failed; its claim ends with the session of this peer", "err", err)
	}
}

// guarded runs the request and turns a panic into an error.
func (j *job) guarded(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.log.Error("worker panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("unexpected exception panic: %v", p)
		}
	}()
	return j.run(ctx)
}

// settle writes down how a request that was not done ended.
func (j *job) settle(why error) error {
	switch {
	case errors.Is(why, errClaimLost):
		j.log.Warn("worker lost its claim and stops", "reason", why)
		return errClaimLost
	case (!j.saved || j.answered) && (errors.Is(why, errGiveBack) || halted(why)):
		j.log.Info("request released", "reason", why)
		_, err := j.commit(fsm.Release{Claim: j.claim.Hold()})
		return err
	case halted(why):
		return j.fail(http.StatusInternalServerError, fmt.Sprintf("interrupted: peer %s had to stop while it processed the data (%v); start the introspection again", j.pool.o.Peer, why))
	default:
		return j.fail(http.StatusInternalServerError, why.Error())
	}
}

// halted reports whether a worker was kept from acting, rather than failing at
// it: its process stops, or its session was not renewed in time and may be over.
// What it then says in the log is refused if the session is.
func halted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrNotAllowed)
}

// commit writes one step into the log. A full table is waited for; else only
// the end of the session or of the process keeps it from knowing the outcome.
func (j *job) commit(c fsm.Command) (fsm.Result, error) {
	ctx, end := j.pool.stop.commit()
	defer end()
	for {
		res, err := j.pool.o.Session.DoIn(ctx, j.claim.Session, c)
		switch {
		case errors.Is(err, cluster.ErrSessionOver), err != nil && ctx.Err() != nil:
			return res, fmt.Errorf("%w: %w", errClaimLost, err)
		case err != nil:
			return res, err
		case res.Code == fsm.ClaimLost:
			return res, errClaimLost
		case res.Code != fsm.TableFull:
			return res, res.Err()
		}
		select {
		case <-time.After(turnWait):
		case <-ctx.Done():
		}
	}
}

// run waits until this peer's state holds the claim and carries the request out.
func (j *job) run(ctx context.Context) error {
	v, err := j.pool.o.Notifier.Wait(ctx, func(v fsm.View) bool { return covers(v, j.claim.Token) })
	if err != nil {
		return err
	}
	rec, ok := v.Record(j.claim.Node)
	if !ok || j.request.Sequence < rec.Begun {
		return j.consume() // the node vanished, or this belongs to an earlier introspection
	}
	if j.complete(rec) {
		return j.resume(ctx)
	}
	if overdue(v, rec) && j.request.Event != fsm.EventTimeout && j.request.Event != fsm.EventDelete {
		return j.late(rec)
	}
	if j.task != nil {
		return j.carryOn(ctx, rec, j.task)
	}
	switch j.request.Event {
	case fsm.EventStart:
		return j.start(ctx, rec)
	case fsm.EventProcess:
		return j.process(ctx, v, rec)
	case fsm.EventReapply:
		return j.reapply(ctx, v, rec)
	case fsm.EventAbort:
		return j.abort(ctx, rec)
	case fsm.EventTimeout:
		return j.advance(fsm.Advance{Event: fsm.EventTimeout, Consume: true})
	case fsm.EventDelete:
		return j.remove(ctx)
	default:
		j.log.Error("request of an unknown kind dropped")
		return j.consume()
	}
}

// consume ends a request that needs nothing more.
func (j *job) consume() error {
	_, err := j.commit(fsm.Consume{Claim: j.claim.Hold()})
	return err
}

// advance moves the node. A jammed state machine consumes the request, as the
// specification says.
func (j *job) advance(a fsm.Advance) error {
	a.Claim = j.claim.Hold()
	_, err := j.commit(a)
	if errors.Is(err, fsm.IllegalTransition) {
		j.log.Warn("request dropped: the state of the node does not allow it", "err", err)
		return j.consume()
	}
	return err
}

// fail ends the introspection in error; a callback is answered with status.
func (j *job) fail(status int, text string) error {
	a := fsm.Advance{Event: fsm.EventError, Error: clip(text), Consume: true}
	j.log.Warn("introspection failed", "reason", a.Error)
	if j.request.Event == fsm.EventProcess {
		a.Answer = fsm.Answer{Status: status, Message: a.Error}
		a.Unprocessed = j.keep()
	}
	a.Processed = j.processed // of a rule that failed
	return j.advance(a)
}

// late ends a request whose time was over before a worker could begin it.
func (j *job) late(rec fsm.Record) error {
	if rec.State == fsm.NodeAborting {
		return j.advance(fsm.Advance{Event: fsm.EventAbortEnd, Consume: true})
	}
	return j.fail(http.StatusBadRequest, textTimeout)
}

// keep names the callback's document if it is to be stored.
func (j *job) keep() fsm.Hash {
	if !j.by.Config.StoreData {
		return fsm.Hash{}
	}
	return j.request.Document
}

// clip shortens a foreign text for the log.
func clip(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > errorMaximum {
		text = strings.ToValidUTF8(text[:errorMaximum], "") + "…"
	}
	if text == "" {
		return "failed without a reason"
	}
	return text
}
