package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
)

const (
	// maxStarts is how many starts are under way at once.
	maxStarts = 16
	lookEvery = 250 * time.Millisecond
	lookLimit = 10 * time.Second
	// maxRestarts is how often a node is started again. It takes bad luck to be
	// in the hands of two peers that die.
	maxRestarts = 3
	// arrivalShare is the part of the run over which nodes arrive, so that
	// whoever dies, dies while some are starting, waiting and being processed.
	arrivalShare = 0.8
	// Without an end nodes arrive arrivalGap apart, but all within maxArrival.
	arrivalGap = 100 * time.Millisecond
	maxArrival = 25 * time.Second
)

// timedOut is what the error of a silent machine's introspection says.
const timedOut = "timeout"

// ward is one node in the care of the load. Its fields are guarded by the
// load's lock, except what New sets.
type ward struct {
	uuid   string
	silent bool

	accepted  bool                 // some start of it was
	seen      client.Introspection // the newest known
	refused   error                // why it could not be started
	due       time.Time            // it is stuck if it has not ended by then
	stuck     bool
	restarted int  // times
	left      bool // its care is over; what others do with it later is theirs
}

// load is what a site's operator does: start the introspection of every node,
// watch them, and start again what a dead peer took with it.
type load struct {
	opts    Options
	clients [trio.Size]*client.Client // each asks another peer first
	turn    atomic.Uint64             // of the clients
	peers   *cluster
	wards   []*ward
	byID    map[string]*ward

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something new was seen
}

func newLoad(o Options, peers *cluster) (_ *load, err error) {
	l := &load{opts: o, peers: peers, byID: make(map[string]*ward), changed: make(chan struct{})}
	var servers []string
	for _, s := range peers.slots {
		servers = append(servers, s.URL())
	}
	for i := range l.clients {
		if l.clients[i], err = client.New(
			client.Options{Servers: append(servers[i:len(servers):len(servers)], servers[:i]...)}); err != nil {
			return nil, err
		}
	}
	for i := range o.Nodes {
		w := &ward{uuid: hardware(i).UUID, silent: i < o.Silent}
		l.wards = append(l.wards, w)
		l.byID[w.uuid] = w
	}
	return l, nil
}

// client returns one that asks the next peer first.
func (l *load) client() *client.Client { return l.clients[l.turn.Add(1)%trio.Size] }

// start begins an introspection through one peer or another.
func (l *load) start(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	for {
		err := l.client().Start(ctx, node, client.StartOptions{})
		var none *client.NoAnswerError
		if !errors.As(err, &none) || !pace.Wait(ctx, lookEvery) {
			return err
		}
	}
}

// run takes care of every node and returns when all have ended or are stuck,
// or ctx ends. Silent ones come first: they take longest.
func (l *load) run(ctx context.Context) {
	spread := time.Duration(arrivalShare * float64(l.opts.For))
	if l.opts.For == 0 {
		spread = min(maxArrival, arrivalGap*time.Duration(l.opts.Nodes))
	}
	starting := make(chan struct{}, maxStarts) // a slot per start
	began := time.Now()
	var tending sync.WaitGroup
	for i, w := range l.wards {
		arrival := began.Add(spread * time.Duration(i) / time.Duration(len(l.wards)))
		if !pace.Wait(ctx, time.Until(arrival)) {
			break
		}
		tending.Go(func() { l.tend(ctx, w, starting) })
	}
	tending.Wait()
}

// tend sees one node through. What a dead peer took with it is started again: a
// callback that was being processed must not be processed twice, so the
// peers end such a node in error and leave it to the operator.
func (l *load) tend(ctx context.Context, w *ward, starting chan struct{}) {
	defer l.note(func() { w.left = true })
	for {
		begun := time.Now()
		select {
		case starting <- struct{}{}:
		case <-ctx.Done():
			return
		}
		before := l.look(w).StartedAt
		err := l.start(ctx, w.uuid)
		<-starting
		l.note(func() {
			w.refused, w.accepted = err, w.accepted || err == nil
			w.due = time.Now().Add(cmp.Or(l.opts.Timeout, inspectionTimeout) + stuckAfter)
		})
		if err != nil || !l.ended(ctx, w, before) || !l.again(w, begun) {
			return
		}
	}
}

// ended waits until an introspection later than before has ended, and reports
// false if that did not come to be.
func (l *load) ended(ctx context.Context, w *ward, before client.Time) bool {
	l.mu.Lock()
	due := w.due
	l.mu.Unlock()
	limited, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	for {
		l.mu.Lock()
		seen, changed := w.seen, l.changed
		l.mu.Unlock()
		if !seen.StartedAt.Equal(before.Time) && seen.Ended() {
			return true
		}
		select {
		case <-changed:
			continue
		case <-limited.Done():
		}
		if ctx.Err() == nil {
			l.note(func() { w.stuck = true })
		}
		return false
	}
}

// again decides whether a node that ended is started again: it ended in
// error, that was nobody's intention, and a leader had been killed meanwhile.
func (l *load) again(w *ward, begun time.Time) bool {
	again, why := false, ""
	l.note(func() {
		why = w.seen.Why()
		again = w.seen.State == client.StateError && !w.silent && w.restarted < maxRestarts && l.peers.struckSince(begun)
		if again {
			w.restarted++
		}
	})
	if again {
		l.opts.Tell("%s is started again; a dead peer took it along: %s", w.uuid, why)
	}
	return again
}

// watch keeps what is known of the nodes up to date until ctx ends.
func (l *load) watch(ctx context.Context) {
	for pace.Wait(ctx, lookEvery) {
		list, err := l.list(ctx)
		if err != nil {
			continue // between two leaders nobody knows
		}
		l.note(func() {
			for _, s := range list {
				if w := l.byID[s.UUID]; w != nil && !w.left {
					w.seen = s
				}
			}
		})
	}
}

func (l *load) list(ctx context.Context) (all []client.Introspection, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	for i, err := range l.client().List(ctx, client.ListOptions{}) {
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

// note changes something under the lock and wakes who waits.
func (l *load) note(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *load) look(w *ward) client.Introspection {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.seen
}

// Progress is how far a run is.
type Progress struct {
	Nodes     int
	Accepted  int
	States    map[string]int // nodes by state of the introspection
	Stuck     int
	Restarted int // starts of nodes that a dead peer had taken along
	Failovers int
}

// Ended returns how many nodes need nothing more.
func (p Progress) Ended() int { return p.States[client.StateFinished] + p.States[client.StateError] }

// Detail is the same as a line of text.
func (p Progress) Detail() string {
	var out []string
	for _, state := range []string{client.StateStarting, client.StateWaiting, client.StateProcessing, client.StateFinished,
		client.StateError} {
		if n := p.States[state]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, state))
		}
	}
	if p.Failovers > 0 {
		out = append(out, fmt.Sprintf("leader killed %d×", p.Failovers))
	}
	return strings.Join(out, ", ")
}

// Progress returns how far the run is at this moment.
func (s *Sandbox) Progress() Progress {
	p := Progress{Nodes: len(s.load.wards), States: make(map[string]int), Failovers: s.peers.count()}
	s.load.mu.Lock()
	defer s.load.mu.Unlock()
	for _, w := range s.load.wards {
		if !w.accepted {
			continue
		}
		p.Accepted++
		p.States[cmp.Or(w.seen.State, client.StateStarting)]++
		if w.stuck {
			p.Stuck++
		}
		p.Restarted += w.restarted
	}
	return p
}
