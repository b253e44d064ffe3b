package simtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

// Load writes through all peers at once and knows what was acknowledged.
type Load struct {
	c    *Cluster
	stop context.CancelFunc
	done sync.WaitGroup
	all  []*writer
	// peers are those of the start, which load is put through unless a site seats others.
	peers []*Peer
	// era counts what takes acknowledged writes back: restores.
	era atomic.Int64
}

// slots is how many keys a writer has: a lost write shows until as many later
// ones have been made.
const slots = 16

// writer writes the numbers 1, 2, 3 … to its keys, in turn.
type writer struct {
	c   *Cluster
	of  *Load
	key string

	mu     sync.Mutex
	newest [slots]ackedWrite // of each key
	acked  int               // how many were acknowledged
	sent   int               // greatest number ever proposed
	trials int
}

// ackedWrite is one acknowledged write and where its answer said it was applied.
type ackedWrite struct {
	n     int
	index uint64
}

func (w *writer) slot(n int) string { return fmt.Sprintf("%s.%d", w.key, n%slots) }

// writePause keeps the simulation about failures rather than about throughput.
const writePause = 100 * time.Millisecond

// StartLoad starts n writers.
func (c *Cluster) StartLoad(n int) *Load { return c.startLoad(n, writePause) }

// startLoad starts n writers that rest after each write.
func (c *Cluster) startLoad(n int, rest time.Duration) *Load {
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{c: c, stop: stop, peers: slices.Clone(c.Peers)}
	c.loads = append(c.loads, l)
	for i := range n {
		w := &writer{c: c, of: l, key: fmt.Sprintf("writer-%d", i)}
		l.all = append(l.all, w)
		l.done.Go(func() { w.run(ctx, rest) })
	}
	return l
}

// Stop ends the writers; what each has in flight ends first.
func (l *Load) Stop() {
	l.stop()
	l.done.Wait()
}

// Acked returns how many writes were acknowledged so far.
func (l *Load) Acked() (n int) {
	for _, w := range l.all {
		w.mu.Lock()
		n += w.acked
		w.mu.Unlock()
	}
	return n
}

func (w *writer) run(ctx context.Context, rest time.Duration) {
	for ctx.Err() == nil {
		w.write()
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
}

// write sends the next number through some living peer. A write of unknown
// outcome is never repeated under another request: the next number follows.
func (w *writer) write() {
	p, era := w.of.someone(), w.of.era.Load()
	core := p.Core()
	if core == nil {
		return
	}
	w.once(core.Session)
	w.mu.Lock()
	w.sent++
	n := w.sent
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	res, err := core.Session.Do(ctx, "", settings.PutSetting{Key: w.slot(n), Value: strconv.Itoa(n)})
	if err != nil || res.Code != fsm.OK {
		return
	}
	var wrote settings.Setting
	if err := res.Decode(&wrote); err != nil {
		w.c.Oracle.broken("answer: %s: %v", w.key, err)
	}
	w.mu.Lock()
	w.acked++
	if w.of.era.Load() != era { // a restore may have taken it back
		w.mu.Unlock()
		return
	}
	w.newest[n%slots] = ackedWrite{n, wrote.Index}
	w.mu.Unlock()
	w.read(p, n, era)
}

// someone is any peer of a load.
func (l *Load) someone() *Peer {
	all := l.peers
	if now := l.c.roster.Load(); now != nil {
		all = *now
	}
	return all[l.c.rng.IntN(len(all))]
}

// someone is any peer.
func (c *Cluster) someone() *Peer {
	all := c.seats()
	return all[c.rng.IntN(len(all))]
}

// Acknowledged is what was acknowledged up to a moment.
type Acknowledged map[*writer][slots]ackedWrite

// Acknowledged returns what the cluster may not lose from now on.
func (l *Load) Acknowledged() Acknowledged {
	all := make(Acknowledged)
	for _, w := range l.all {
		w.mu.Lock()
		all[w] = w.newest
		w.mu.Unlock()
	}
	return all
}

// TakeBack says that a backup with this content is restored.
func (l *Load) TakeBack(to Acknowledged) {
	l.era.Add(1)
	for _, w := range l.all {
		w.mu.Lock()
		w.newest = to[w]
		w.mu.Unlock()
	}
}

// once commits something that cannot happen twice, every few writes: a repeat
// after a lost answer must get the first result, not a conflict with itself.
func (w *writer) once(session *cluster.Session) {
	const every = 4
	if w.sent%every != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	id := fmt.Sprintf("%s-%d", w.key, w.sent)
	res, err := session.Do(ctx, "",
		membership.AddJoinToken{ID: id, Hash: sha256.Sum256([]byte(id)), TTL: membership.MinJoinTTL})
	if err == nil && res.Code == fsm.Conflict {
		w.c.Oracle.broken("applied-once: %s was made twice by one request: %s", id, res.Message)
	}
}

// read checks a linearizable read through another peer every few writes: it
// must show the newest acknowledged write, or a later one of unknown outcome.
func (w *writer) read(wrote *Peer, acked int, era int64) {
	const every = 8
	if w.trials++; w.trials%every != 0 {
		return
	}
	p := w.of.someone()
	core := p.Core()
	if core == nil || p == wrote {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v, err := core.Store.Read(ctx)
	if err != nil {
		return // no promise about availability here
	}
	if n, _ := number(v, w.slot(acked)); n < acked && w.of.era.Load() == era {
		w.c.Oracle.broken("linearizable-read: %s shows %s = %d, %d was acknowledged before", p.Name, w.slot(acked), n, acked)
	}
}

// number reads a key that a writer owns, and the index of its last write.
func number(v fsm.View, key string) (int, uint64) {
	s, _ := v.Setting(key)
	n, err := strconv.Atoi(s.Value)
	if err != nil {
		return 0, s.Index // never written
	}
	return n, s.Index
}

// Verify asks a peer for a linearizable view: nothing that was acknowledged
// before is lost, and an acknowledged write that nothing followed was applied
// exactly once, where its answer said. A peer that cannot give one is no fault.
func (l *Load) Verify(p *Peer) {
	for _, w := range l.all {
		w.mu.Lock()
		newest, sent := w.newest, w.sent
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		v, err := p.Core().Store.Read(ctx)
		cancel()
		if err != nil {
			return
		}
		for _, want := range newest {
			if want.n > 0 {
				w.judge(v, want, sent)
			}
		}
	}
}

func (w *writer) judge(v fsm.View, want ackedWrite, sent int) {
	key := w.slot(want.n)
	n, index := number(v, key)
	switch {
	case n < want.n:
		w.c.Oracle.broken("nothing-acknowledged-is-lost: %s is %d, %d was acknowledged", key, n, want.n)
	case n > sent+slots:
		w.c.Oracle.broken("nothing-invented: %s is %d, %d was the last one sent", key, n, sent)
	case n == want.n && index != want.index:
		w.c.Oracle.broken("applied-once: %s = %d was applied at index %d again, first at %d", key, n, index, want.index)
	}
}

// lame proposes, on whichever peer leads now, under the token of a leadership
// that is over: what a duty does that was stopped between its last check and
// its act. The state machine is the last line, so the proposal goes past every
// check of the old process.
func (c *Cluster) lame(now *Peer, old fencing.Token) {
	core := now.Core()
	if core == nil || old.IsZero() || old == core.Runner.Token() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	res, err := core.Store.Propose(ctx, fsm.Header{Token: old}, settings.PutSetting{Key: "lame", Value: old.String()})
	switch {
	case errors.Is(err, logerr.ErrNotLeader), errors.Is(err, logerr.ErrNoLeader), errors.Is(err, logerr.ErrOutcomeUnknown),
		errors.Is(err, logerr.ErrBusy):
	case err != nil:
		c.Oracle.broken("stale-token: %s: %v", now.Name, err)
	case res.Code == fsm.OK:
		c.Oracle.broken("stale-token: %s let a duty of token %v write under token %v", now.Name, old, core.Runner.Token())
	}
}
