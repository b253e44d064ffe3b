package work

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Pool is this peer's workers. They claim queued requests and carry them out,
// at most inspection.workers at a time.
type Pool struct {
	*resources
	seen map[fencing.Token]seenRequest
}

// seenRequest is what a pool remembers of a ready request; it belongs to Run.
type seenRequest struct {
	since     time.Time     // it could be claimed here
	claimedAt fencing.Token // entry with which this pool asked for it last; zero: none
}

// NewPool returns a pool; Run starts it.
func NewPool(o Options) *Pool {
	o.HookLimit = cmp.Or(o.HookLimit, HookLimit)
	shared := &resources{
		o: o, slots: slots{size: o.Live.Now().Workers(), freed: make(chan struct{}, 1)},
		search: identify.NewSearch(o.Ironic, o.Resolver, o.Live.BmcFields, o.Logger),
	}
	return &Pool{resources: shared, seen: make(map[fencing.Token]seenRequest)}
}

// Run claims and works until stop is closed; then it lets running tasks end, or
// interrupts them when that takes long (docs/design.md#stop). When ctx ends
// everything is dropped at once. It returns when the last task has.
func (p *Pool) Run(ctx context.Context, stop <-chan struct{}) {
	p.stop = newStopContexts(ctx)
	done := make(chan struct{}) // closed when the last task has ended
	var winding sync.WaitGroup
	winding.Go(func() { p.stop.cancelInOrder(stop, done) })
	p.setOpen(true)
	for p.stop.claims.Err() == nil {
		p.round(p.stop.claims)
	}
	p.setOpen(false)
	p.running.Wait()
	close(done)
	winding.Wait()
}

// round claims what it can and waits for a reason to look again.
func (p *Pool) round(ctx context.Context) {
	settings, renewed := p.o.Live.Watch()
	v, changed := p.o.Log.Changed()
	free := p.resize(settings.Workers())
	if free == 0 {
		changed = nil // nothing in the log matters before a worker is free
	}
	wanted, again := p.pick(v, free)
	if session := p.o.Session.ID(); len(wanted) > 0 && !session.IsZero() && p.beginClaim() {
		err := p.claim(ctx, session, wanted)
		p.endClaim()
		if err == nil || ctx.Err() != nil {
			return
		}
		p.o.Logger.Debug("claim requests failed", "err", err)
		again, changed = turnWait, nil
	}
	p.admitWaiting()
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-changed:
	case <-p.freed:
	case <-renewed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pick chooses which ready requests to claim, oldest first, and says when to
// look again at the latest. Each request has a peer whose turn it is, so that
// three pools do not all claim the same; the others step in after turnWait.
func (p *Pool) pick(v fsm.View, free int) (wanted []fencing.Token, again time.Duration) {
	if again = p.o.Live.Config().QueueGetTimeout; free == 0 {
		return nil, again
	}
	now, sessions := time.Now(), v.Sessions()
	seen := make(map[fencing.Token]seenRequest)
	for r := range v.Ready() { // introspection.MaxQueue at most, and all of them where none may be claimed
		if len(wanted) == min(free, introspection.MaxClaims) {
			break
		}
		if !p.canWorkOn(v, r, sessions) {
			continue
		}
		s, known := p.seen[r.Sequence]
		if !known {
			s.since = now
		}
		seen[r.Sequence] = s
		switch wait := s.since.Add(turnWait).Sub(now); {
		case !inspector.Covers(v, s.claimedAt): // it was claimed by then, here or elsewhere, and this view does not know
		case wait <= 0, p.isFirstClaimant(r, sessions):
			wanted = append(wanted, r.Sequence)
		default:
			again = min(again, wait)
		}
	}
	p.seen = seen
	return wanted, again
}

// isFirstClaimant reports whether a request is this peer's to claim first. The sequence is
// mixed: those of requests that are queued in step would all be one peer's.
func (p *Pool) isFirstClaimant(r introspection.QueuedRequest, sessions []membership.Session) bool {
	if len(sessions) == 0 {
		return false
	}
	const mix = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: Fibonacci hashing
	whose := uint64(r.Sequence) * mix >> 32 % uint64(len(sessions))
	return sessions[whose].ID == p.o.Session.ID()
}

// canWorkOn reports whether a request can be worked on here: one that needs Ironic
// waits while Ironic cannot be reached from this peer, and a callback that this
// peer was lost with before is left to those who have not met it, either until
// its time is over.
func (p *Pool) canWorkOn(v fsm.View, r introspection.QueuedRequest, sessions []membership.Session) bool {
	if r.Event == introspection.EventTimeout {
		return true
	}
	others := false
	if len(r.Peers) > 0 && (r.Event == introspection.EventProcess || r.Event == introspection.EventReapply) {
		own, ok := v.Session(p.o.Session.ID())
		lost := ok && slices.Contains(r.Peers, own.Peer) // this process may have died of the document
		others = lost && slices.ContainsFunc(sessions,
			func(s membership.Session) bool { return !slices.Contains(r.Peers, s.Peer) })
	}
	if p.o.Health.Err() == nil && !others {
		return true // before the record is looked up: all that is ready is looked at for each change
	}
	rec, ok := v.Record(r.Node)
	return !ok || overdue(v, rec)
}

// claim commits a claim and puts workers to what it got. A request that another
// peer took meanwhile is no failure. The answer is waited for when ctx has ended,
// too: a claim that is not known here would be held until the session ends.
func (p *Pool) claim(ctx context.Context, session fencing.Token, wanted []fencing.Token) error {
	write, end := p.stop.commit()
	defer end()
	res, err := p.o.Session.DoIn(write, session, introspection.ClaimRequests{Requests: wanted})
	if err != nil {
		return err
	}
	for _, sequence := range wanted {
		p.seen[sequence] = seenRequest{since: p.seen[sequence].since, claimedAt: res.Token}
	}
	if err := res.Err(); err != nil && !errors.Is(err, fsm.NotFound) {
		return err
	} else if err != nil {
		return nil
	}
	var got introspection.Claimed
	if err := res.Decode(&got); err != nil {
		return err
	}
	for _, claimed := range got.Claims {
		p.acquire()
		p.running.Go(func() {
			defer p.release()
			if j := p.job(claimed); ctx.Err() == nil {
				j.work()
			} else {
				j.out.giveBack()
			}
		})
	}
	return nil
}

// Memory is what a host remembers of documents.
type Memory interface {
	inspector.Suspects
	// At notes which hook looks at a document that is being examined.
	At(document blobs.Hash, hook string)
	// Suspect reports whether a document is a suspect, and at which hook the
	// process ended, "" if it had come to none.
	Suspect(document blobs.Hash) (hook string, yes bool)
}

// Notes outlive this process: the next one tells the others what a request was
// at when its worker was lost. Its methods are called concurrently.
type Notes interface {
	Note(request fencing.Token, hook string) error
	Forget(request fencing.Token)
}

// Rules are what operators want done at the end of every introspection
// (docs/contract.md#rules). Its method may be called concurrently.
type Rules interface {
	// Apply runs the rules in v on a processed document. A *Problem is answered
	// 400, any other error 500; either ends the introspection.
	Apply(ctx context.Context, v fsm.View, t *inspector.Task) error
}

// Session is this peer's presence in the log, inside which its workers hold
// their claims.
type Session interface {
	ID() fencing.Token // zero: none
	// Deadline is until when an outside effect may rely on the session.
	Deadline() time.Time
	// DoIn commits a command exactly once in the given session, however long
	// there is no leader; it fails when the session is over.
	DoIn(ctx context.Context, session fencing.Token, c fsm.Command) (fsm.Result, error)
}

// HookLimit is how long one hook may take, with all its calls of Ironic.
const HookLimit = 5 * time.Minute

// Machines switches machines, and makes nodes of those that are discovered.
type Machines interface {
	// CreateNode fails with ErrNodeExists when there is a node with this UUID.
	CreateNode(ctx context.Context, n ironic.NewNode) (ironic.Node, error)
	SetBootDevice(ctx context.Context, node, device string, persistent bool) error
	SetPower(ctx context.Context, node, target string) error
}

// Ironic is the bare-metal service as workers use it.
type Ironic interface {
	inspector.Ironic // for hooks and rules
	identify.Ironic
	Machines
}

// Options are the parts of a Pool.
type Options struct {
	Live     *inspector.LiveSettings
	Peer     string // this peer's name, for texts
	Log      inspector.Log
	Session  Session
	Notifier *inspector.Notifier
	Ironic   Ironic
	// Resolver of BMC names, for machines that are discovered.
	Resolver identify.Resolver
	Health   *ironic.Health
	Rules    Rules // nil: none
	Packer   *blobs.Packer
	Notes    Notes
	// Memory lets callbacks be taken where they come in; nil: none is.
	Memory Memory
	// HookLimit bounds one hook; HookLimit unless a test says otherwise.
	HookLimit time.Duration
	Logger    *slog.Logger
}
