package simtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
)

// Load writes through all peers at once and knows what was acknowledged.
type Load struct {
	c    *Cluster
	stop context.CancelFunc
	done sync.WaitGroup
	all  []*writer
}

// writer owns one key and writes the numbers 1, 2, 3 … to it.
type writer struct {
	c     *Cluster
	peers []*Peer // as of the start
	key   string

	mu     sync.Mutex
	acked  int // greatest acknowledged number
	index  uint64
	sent   int // greatest number ever proposed
	trials int
}

// writePause keeps the simulation about failures rather than about throughput.
const writePause = 100 * time.Millisecond

// StartLoad starts n writers.
func (c *Cluster) StartLoad(n int) *Load {
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{c: c, stop: stop}
	c.loads = append(c.loads, l)
	for i := range n {
		w := &writer{c: c, peers: slices.Clone(c.Peers), key: fmt.Sprintf("writer-%d", i)}
		l.all = append(l.all, w)
		l.done.Go(func() { w.run(ctx) })
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

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.write()
		select {
		case <-time.After(writePause):
		case <-ctx.Done():
		}
	}
}

// write sends the next number through some living peer. A write of unknown
// outcome is never repeated under another request: the next number follows.
func (w *writer) write() {
	p := w.peers[w.c.rng.IntN(len(w.peers))]
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
	res, err := core.Session.Do(ctx, "", fsm.PutSetting{Key: w.key, Value: strconv.Itoa(n)})
	if err != nil || res.Code != fsm.OK {
		return
	}
	var wrote fsm.Setting
	if err := res.Decode(&wrote); err != nil {
		w.c.Oracle.broken("answer: %s: %v", w.key, err)
	}
	w.mu.Lock()
	w.acked, w.index = n, wrote.Index
	w.mu.Unlock()
	w.read(p, n)
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
	res, err := session.Do(ctx, "", fsm.AddJoinToken{ID: id, Hash: sha256.Sum256([]byte(id)), TTL: fsm.MinJoinTTL})
	if err == nil && res.Code == fsm.Conflict {
		w.c.Oracle.broken("applied-once: %s was made twice by one request: %s", id, res.Message)
	}
}

// read checks a linearizable read through another peer every few writes: it
// must show the newest acknowledged write, or a later one of unknown outcome.
func (w *writer) read(wrote *Peer, acked int) {
	const every = 8
	if w.trials++; w.trials%every != 0 {
		return
	}
	p := w.peers[w.c.rng.IntN(len(w.peers))]
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
	s, _ := v.Setting(w.key)
	if n, _ := strconv.Atoi(s.Value); n < acked {
		w.c.Oracle.broken("linearizable-read: %s shows %s = %d, %d was acknowledged before", p.Name, w.key, n, acked)
	}
}

// Verify checks the final state: nothing acknowledged is lost, and an
// acknowledged write that nothing followed was applied exactly once, where its
// answer said.
func (l *Load) Verify(v fsm.View) {
	for _, w := range l.all {
		s, _ := v.Setting(w.key)
		n, _ := strconv.Atoi(s.Value)
		switch {
		case n < w.acked:
			l.c.Oracle.broken("nothing-acknowledged-is-lost: %s is %d, %d was acknowledged", w.key, n, w.acked)
		case n > w.sent:
			l.c.Oracle.broken("nothing-invented: %s is %d, %d was the last one sent", w.key, n, w.sent)
		case n == w.acked && w.acked > 0 && s.Index != w.index:
			l.c.Oracle.broken("applied-once: %s = %d was applied at index %d again, first at %d", w.key, n, s.Index, w.index)
		}
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
	res, err := core.Store.Propose(ctx, fsm.Header{Token: old}, fsm.PutSetting{Key: "lame", Value: old.String()})
	switch {
	case errors.Is(err, raftstore.ErrNotLeader), errors.Is(err, raftstore.ErrNoLeader), errors.Is(err, raftstore.ErrOutcomeUnknown), errors.Is(err, raftstore.ErrBusy):
	case err != nil:
		c.Oracle.broken("stale-token: %s: %v", now.Name, err)
	case res.Code == fsm.OK:
		c.Oracle.broken("stale-token: %s let a duty of token %v write under token %v", now.Name, old, core.Runner.Token())
	}
}
