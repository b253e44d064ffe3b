package inspector

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
)

// Values of a crew.
const (
	// patience is for how long a request is left to the peer whose turn it is.
	patience = 100 * time.Millisecond
	// HookLimit is how long one hook may take, with all its calls of Ironic.
	HookLimit = 5 * time.Minute
)

// CrewOptions are the parts of a Crew.
type CrewOptions struct {
	Live    *Live
	Peer    string // this peer's name, for texts
	Log     Log
	Session Session
	Bell    *Bell
	Ironic  Ironic
	// Resolver of BMC names, for machines that are discovered.
	Resolver Resolver
	Reach    *Reach
	Rules    Rules // nil: none
	Packer   *fsm.Packer
	Notes    Notes
	// Memory lets callbacks be taken where they come in; nil: none is.
	Memory Memory
	// HookLimit bounds one hook; HookLimit unless a test says otherwise.
	HookLimit time.Duration
	Logger    *slog.Logger
}

// Crew is this peer's workers. They claim queued requests and carry them out,
// at most inspection.workers at a time.
type Crew struct {
	o        CrewOptions
	freed    chan struct{} // capacity 1: a worker became free
	seen     map[fencing.Token]sighting
	machines *acquaintance // which ones Ironic has

	mu       sync.Mutex
	size     int // workers there may be
	busy     int
	claiming bool // a claim is being committed
	rests    bool // claims nothing
	open     bool // Run takes on work
	waiting  []*errand
	favours  int // workers that errands got since the queue had its turn

	running sync.WaitGroup
	life    *lifetime // of the present Run
}

// sighting is what a crew remembers of a ready request; it belongs to Run.
type sighting struct {
	since time.Time     // it could be claimed here
	asked fencing.Token // entry with which this crew asked for it last; zero: none
}

// NewCrew returns a crew that Run puts to work.
func NewCrew(o CrewOptions) *Crew {
	if o.HookLimit == 0 {
		o.HookLimit = HookLimit
	}
	return &Crew{
		o: o, size: o.Live.Now().workers(), freed: make(chan struct{}, 1), seen: make(map[fencing.Token]sighting),
		machines: newAcquaintance(o.Ironic, o.Resolver, o.Live.bmcFields, o.Logger),
	}
}

// Run claims and works until stop is closed; then it lets running tasks end, or
// interrupts them when that takes long (docs/design.md#stop). When ctx ends
// everything is dropped at once. It returns when the last task has.
func (c *Crew) Run(ctx context.Context, stop <-chan struct{}) {
	c.life = newLifetime(ctx)
	done := make(chan struct{}) // closed when the last task has ended
	var winding sync.WaitGroup
	winding.Go(func() { c.life.wind(stop, done) })
	c.admit(true)
	for c.life.claims.Err() == nil {
		c.round(c.life.claims)
	}
	c.admit(false)
	c.running.Wait()
	close(done)
	winding.Wait()
}

// admit opens or shuts the door to work that does not come through the queue.
func (c *Crew) admit(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = on
}

// round claims what it can and waits for a reason to look again.
func (c *Crew) round(ctx context.Context) {
	settings, renewed := c.o.Live.Watch()
	v, changed := c.o.Log.Changed()
	free := c.resize(settings.workers())
	if free == 0 {
		changed = nil // nothing in the log matters before somebody is free
	}
	wanted, again := c.pick(v, free)
	if session := c.o.Session.ID(); len(wanted) > 0 && !session.IsZero() && c.commence() {
		err := c.claim(ctx, session, wanted)
		c.conclude()
		if err == nil || ctx.Err() != nil {
			return
		}
		c.o.Logger.Debug("claim requests failed", "err", err)
		again, changed = patience, nil
	}
	c.indulge()
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case <-changed:
	case <-c.freed:
	case <-renewed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// pick chooses which ready requests to claim, oldest first, and says when to
// look again at the latest. Each request has a peer whose turn it is, so that
// three crews do not all claim the same; the others step in after patience.
func (c *Crew) pick(v fsm.View, free int) (wanted []fencing.Token, again time.Duration) {
	if again = c.o.Live.Config().QueueGetTimeout; free == 0 {
		return nil, again
	}
	now, sessions := time.Now(), v.Sessions()
	seen := make(map[fencing.Token]sighting)
	for r := range v.Ready() { // fsm.MaxQueue at most, and all of them where none may be claimed
		if len(wanted) == min(free, fsm.MaxClaims) {
			break
		}
		if !c.may(v, r, sessions) {
			continue
		}
		s, known := c.seen[r.Sequence]
		if !known {
			s.since = now
		}
		seen[r.Sequence] = s
		switch wait := s.since.Add(patience).Sub(now); {
		case !covers(v, s.asked): // it was claimed by then, here or elsewhere, and this view does not know
		case wait <= 0, c.turn(r, sessions):
			wanted = append(wanted, r.Sequence)
		default:
			again = min(again, wait)
		}
	}
	c.seen = seen
	return wanted, again
}

// turn reports whether a request is this peer's to claim first. The sequence is
// mixed: those of requests that are queued in step would all be one peer's.
func (c *Crew) turn(r fsm.QueuedRequest, sessions []fsm.Session) bool {
	if len(sessions) == 0 {
		return false
	}
	const mix = 0x9e3779b97f4a7c15 // 2^64 / golden ratio: Fibonacci hashing
	whose := uint64(r.Sequence) * mix >> 32 % uint64(len(sessions))
	return sessions[whose].ID == c.o.Session.ID()
}

// may reports whether a request can be worked on here: one that needs Ironic
// waits while Ironic cannot be reached from this peer, and a callback that this
// peer was lost with before is left to those who have not met it, either until
// its time is over.
func (c *Crew) may(v fsm.View, r fsm.QueuedRequest, sessions []fsm.Session) bool {
	if r.Event == fsm.EventTimeout {
		return true
	}
	others := c.met(v, r) && unmet(r, sessions)
	if c.o.Reach.Err() == nil && !others {
		return true // before the record is looked up: all that is ready is looked at for each change
	}
	rec, ok := v.Record(r.Node)
	return !ok || overdue(v, rec)
}

// met reports whether a claim of this peer on a document was lost before: its
// process may have died of the document.
func (c *Crew) met(v fsm.View, r fsm.QueuedRequest) bool {
	if len(r.Peers) == 0 || r.Event != fsm.EventProcess && r.Event != fsm.EventReapply {
		return false
	}
	session, ok := v.Session(c.o.Session.ID())
	return ok && slices.Contains(r.Peers, session.Peer)
}

// unmet reports whether a living peer has not met a request yet.
func unmet(r fsm.QueuedRequest, sessions []fsm.Session) bool {
	return slices.ContainsFunc(sessions, func(s fsm.Session) bool { return !slices.Contains(r.Peers, s.Peer) })
}

func overdue(v fsm.View, rec fsm.Record) bool {
	return rec.State.Active() && !rec.Deadline.After(v.Now())
}

// claim commits a claim and puts workers to what it got. A request that another
// peer took meanwhile is no failure. The answer is waited for when ctx has ended,
// too: a claim that nobody here knows of would be held until the session ends.
func (c *Crew) claim(ctx context.Context, session fencing.Token, wanted []fencing.Token) error {
	write, end := c.life.commit()
	defer end()
	res, err := c.o.Session.DoIn(write, session, fsm.ClaimRequests{Requests: wanted})
	if err != nil {
		return err
	}
	for _, sequence := range wanted {
		c.seen[sequence] = sighting{since: c.seen[sequence].since, asked: res.Token}
	}
	if err := res.Err(); err != nil && !errors.Is(err, fsm.NotFound) {
		return err
	} else if err != nil {
		return nil
	}
	var got fsm.Claimed
	if err := res.Decode(&got); err != nil {
		return err
	}
	for _, claimed := range got.Claims {
		c.hire()
		c.running.Go(func() {
			defer c.fire()
			if j := c.job(claimed); ctx.Err() == nil {
				j.work()
			} else {
				j.giveBack()
			}
		})
	}
	return nil
}

// indulge leaves what workers the queue does not want to errands.
func (c *Crew) indulge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.favours = 0
	c.invite()
}

// resize says how many workers there are, and returns free. Who is one too many
// ends what he does.
func (c *Crew) resize(size int) int {
	c.mu.Lock()
	if c.size != size {
		c.size = size
	}
	c.mu.Unlock()
	return c.free()
}

// free returns how many more tasks may run.
func (c *Crew) free() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.size-c.busy, 0)
}

// Rest makes the crew begin nothing more, or go on. What is under way goes on:
// see Idle.
func (c *Crew) Rest(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests = on
}

// Idle reports whether nothing is under way. Tasks that wait for their turn are
// not counted: the claims of this peer's session tell.
func (c *Crew) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy == 0 && !c.claiming
}

// commence begins a claim unless the crew rests; conclude ends it.
func (c *Crew) commence() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claiming = !c.rests
	return c.claiming
}

func (c *Crew) conclude() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claiming = false
}

func (c *Crew) hire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy++
}

func (c *Crew) fire() {
	c.mu.Lock()
	c.busy--
	if c.favours++; c.favours <= maxFavours {
		c.invite()
	}
	c.mu.Unlock()
	select {
	case c.freed <- struct{}{}:
	default: // already told
	}
}

// Busy returns how many tasks are under way.
func (c *Crew) Busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}
