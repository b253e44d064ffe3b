//go:build e2e

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/test/history"
)

// How many clients of each kind there are.
const (
	borrowers = 6
	writers   = 4
	operators = 4
	followers = 3
	// machineCount is how many nodes the operators share.
	machineCount = 24
)

// staleSlack is what a stale read may be older than it says: an entry that a majority has
// reaches the last peer with the next message to it, and a peer hears of its leader ten
// times a second.
const staleSlack = time.Second

// settleLimit is what the last answers may take once nothing is struck any more.
const settleLimit = 2 * time.Minute

// clients ask a cluster for everything at once, and write down what they were told.
type clients struct {
	*cluster
	seed  uint64
	began time.Time

	leases, values, nodes history.History
	operations, unknown   atomic.Int64
	running               sync.WaitGroup
	borrowers             []*history.Borrower
	followers             []*follower
	first                 string // position of the events before all

	violations int // the goroutine of the test has it

	mu    sync.Mutex // guards stale
	stale []history.StaleRead
}

// start starts the clients; they end with ctx.
func (c *clients) start(ctx context.Context) {
	c.began = time.Now()
	probe := &follower{clients: c, rng: c.dice(0), last: "0"}
	probe.drain()
	c.first = probe.last
	for id := range borrowers {
		b := c.newBorrower(id)
		c.borrowers = append(c.borrowers, b)
		c.running.Go(func() { b.Run(ctx) })
	}
	for id := range writers {
		w := &writer{clients: c, id: id, rng: c.dice(100 + id)}
		c.running.Go(func() { w.run(ctx, c.began) })
	}
	for id := range operators {
		o := &operator{clients: c, id: id, rng: c.dice(200 + id)}
		c.running.Go(func() { o.run(ctx) })
	}
	for id := range followers {
		f := &follower{clients: c, rng: c.dice(300 + id), last: c.first}
		c.followers = append(c.followers, f)
		c.running.Go(func() { f.run(ctx) })
	}
}

// dice is the randomness of one client.
func (c *clients) dice(client int) *rand.Rand { return rand.New(rand.NewPCG(c.seed, uint64(client))) }

// judge fails the test for what the cluster does not promise. The clients have ended.
func (c *clients) judge() (undecided int) {
	for _, b := range c.borrowers {
		b.SettleUp()
	}
	for _, one := range []struct {
		name  string
		model porcupine.Model
		ops   []porcupine.Operation
	}{
		{"leases", history.Leases(), history.SettledLeases(c.leases.Ops())},
		{"values", history.Values(), history.SettledValues(c.values.Ops())},
		{"introspections", history.Introspections(), c.nodes.Ops()},
	} {
		v := history.Judge(one.model, one.ops)
		c.t.Logf("%s: %d operations on %d of them, %d open, at most %d steps of a search, %d undecided", one.name,
			len(one.ops), v.Parts, history.Open(one.ops), v.Steps, v.Undecided)
		undecided += v.Undecided
		for i, part := range v.Bad {
			page, err := history.Picture(one.model, part, pictures(), fmt.Sprintf("%s-%d-%d", one.name, c.seed, i))
			c.violation("no order explains a history of %d operations: %s (%v)", len(part), page, err)
		}
	}
	for _, broken := range history.Tokens(c.leases.Ops()) {
		c.violation("leases: %s", broken)
	}
	for _, broken := range history.Stale(c.values.Ops(), c.stale, staleSlack.Nanoseconds()) {
		c.violation("stale read: %s", broken)
	}
	c.t.Logf("%d stale reads", len(c.stale))
	c.judgeEvents()
	return undecided
}

// judgeEvents wants each client to have seen every event once, in order.
func (c *clients) judgeEvents() {
	reference := &follower{clients: c, rng: c.dice(400), last: c.first}
	reference.drain()
	least := len(reference.seen)
	for _, f := range c.followers {
		f.drain()
	}
	reference.drain()
	for i, f := range c.followers {
		want := reference.seen[:min(len(reference.seen), max(len(f.seen), least))]
		if diff := history.FirstDifference(f.seen, want); diff != "" {
			c.violation("events: client %d: %s", i, diff)
		}
	}
	c.t.Logf("%d events", least)
}

// violation fails the test with what is wrong, and with the seed.
func (c *clients) violation(format string, args ...any) {
	c.t.Errorf("seed %d: "+format, append([]any{c.seed}, args...)...)
	c.violations++
}

// pictures is where pages of bad histories go.
func pictures() string {
	return cmp.Or(os.Getenv("TRIVET_CHAOS_DIR"), filepath.Join(os.TempDir(), "trivet-chaos"))
}
