package simtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// leaseCall is one thing that a client asked of a lease, or of the value that is written
// under it.
type leaseCall struct {
	verb     verb
	lease    string
	holder   string
	token    fencing.Token // that is shown
	takeover bool
	data     string // to write
	called   int64  // when the first try was sent
}

type verb string

const (
	verbAcquire verb = "acquire"
	verbRenew   verb = "renew"
	verbRelease verb = "release"
	verbWrite   verb = "write"
	verbLook    verb = "look"  // at the lease
	verbRead    verb = "read"  // the value
	verbEnded   verb = "ended" // an acquisition was told that its grant is over
)

// told is the answer.
type told struct {
	said     saying
	holder   string
	token    fencing.Token // of the lease, or the value's version
	data     string
	returned int64 // when it came; math.MaxInt64: never
}

type saying string

const (
	saidYes     saying = "yes"
	saidHeld    saying = "held"
	saidOver    saying = "over"
	saidFenced  saying = "fenced"
	saidNothing saying = "nothing there"
	saidUnknown saying = "unknown"
)

// leaseTTL is that of every lease here; it is short enough to end under its holder
// again and again, and as long as the cluster's timing demands.
const leaseTTL = 4600 * time.Millisecond

// tenure is the state of one lease and its value. That a lease may end by itself is
// no step of its own: it ends when somebody is told so, who must not have been before
// its earliest end. A lease has no latest end: cluster time may stand still.
type tenure struct {
	holder   string
	token    fencing.Token
	over     bool
	earliest int64 // of its end: a ttl after it was asked for, or renewed
	data     string
	version  fencing.Token
}

// ended says whether an answer may have found the lease over.
func (s tenure) ended(by told) bool {
	return s.over || s.token.IsZero() || by.returned >= s.earliest
}

func (s tenure) heldAs(said told) bool {
	return !s.over && !s.token.IsZero() && s.holder == said.holder && s.token == said.token
}

func (s tenure) after(over bool) tenure {
	s.over = over
	return s
}

// leaseModel is what docs/contract.md#leases promises of one lease and the value under it.
var leaseModel = porcupine.Model{
	Init: func() any { return tenure{} },
	Step: func(state, input, output any) (bool, any) {
		ok, next := state.(tenure).step(input.(leaseCall), output.(told))
		return ok, next
	},
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byLease := make(map[string][]porcupine.Operation)
		for _, op := range all {
			name := op.Input.(leaseCall).lease
			byLease[name] = append(byLease[name], op)
		}
		for _, part := range byLease {
			parts = append(parts, part)
		}
		return parts
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
}

func (s tenure) step(in leaseCall, out told) (bool, tenure) {
	switch in.verb {
	case verbAcquire:
		return s.acquire(in, out)
	case verbRenew:
		return s.renew(in, out)
	case verbRelease:
		return s.release(in, out)
	case verbWrite:
		return s.write(in, out)
	case verbRead:
		return out.data == s.data && out.token == s.version, s
	case verbEnded:
		return s.token > out.token || s.token == out.token && s.ended(out), s.after(s.over || s.token == out.token)
	}
	return s.look(out)
}

func (s tenure) acquire(in leaseCall, out told) (bool, tenure) {
	if out.said == saidHeld {
		return s.heldAs(out), s
	}
	mine := in.takeover && s.holder == in.holder && !s.over
	next := tenure{holder: in.holder, token: out.token, earliest: in.called + int64(leaseTTL), data: s.data,
		version: s.version}
	return (mine || s.ended(out)) && out.token > s.token && out.token > s.version, next
}

func (s tenure) renew(in leaseCall, out told) (bool, tenure) {
	switch out.said {
	case saidYes:
		ok := s.heldAs(told{holder: in.holder, token: in.token}) && out.token == in.token
		s.earliest = max(s.earliest, in.called+int64(leaseTTL))
		return ok, s
	case saidHeld:
		return s.heldAs(out) && out.token != in.token, s
	}
	return out.said == saidOver && in.token <= s.token && s.ended(out), s.after(true)
}

// release ends what is held under the token also when nobody knows its outcome: then
// it may come last.
func (s tenure) release(in leaseCall, out told) (bool, tenure) {
	switch out.said {
	case saidYes: // what is over is released
		return s.token == in.token || s.token > in.token && s.ended(out), s.after(true)
	case saidHeld:
		return s.heldAs(out) && out.token > in.token, s
	}
	return out.said == saidUnknown, s.after(s.over || s.token == in.token)
}

func (s tenure) write(in leaseCall, out told) (bool, tenure) {
	mine := s.token == in.token
	if out.said == saidFenced {
		return in.token < s.token || mine && s.ended(out), s.after(s.over || mine)
	}
	ok := mine && !s.over && out.token > s.version && out.token > s.token
	s.data, s.version = in.data, out.token
	return ok, s
}

func (s tenure) look(out told) (bool, tenure) {
	switch out.said {
	case saidYes:
		return s.heldAs(out), s
	case saidOver:
		return s.token == out.token && s.ended(out), s.after(true)
	}
	return out.said == saidNothing && s.token.IsZero(), s
}

// leaseRuns is how many histories are made: few by default, 200 in `make sim`.
func leaseRuns(t *testing.T) int { return countFrom(t, "TRIVET_SIM_LEASES", 6) }

// TestLeasesAreLinearizable: whatever befalls the peers, clients that acquire, renew,
// release and write under leases see what one keeper of leases could have told them,
// who ends none early, revives none, and lets nobody write under a token that is not
// the lease's.
func TestLeasesAreLinearizable(t *testing.T) {
	began := time.Now()
	var mu sync.Mutex
	counts := make(map[string]int)
	dearest := int64(0) // history, by the steps of the search for an order
	judgeHistory := func(t *testing.T, n int) {
		t.Parallel()
		var h history
		Simulate(t, 3, uint64(500+n), func(c *Cluster) { c.lend(&h, n) })
		steps, decided := judgeLeases(t, h.ops)
		if !decided {
			t.Errorf("leases: a history of %d operations is undecided after %d steps of the search", len(h.ops), steps)
		}
		mu.Lock()
		defer mu.Unlock()
		dearest = max(dearest, steps)
		for _, op := range h.ops {
			counts[fmt.Sprintf("%s: %s", op.Input.(leaseCall).verb, op.Output.(told).said)]++
		}
	}
	// Which outcomes a history has is up to chance: until all were seen there are more.
	const most = 5
	runs := 0
	for round := 0; round < most && (round == 0 || lacking(counts) != ""); round++ {
		t.Run("runs", func(t *testing.T) {
			for range leaseRuns(t) {
				n := runs
				runs++
				t.Run(strconv.Itoa(n), func(t *testing.T) { judgeHistory(t, n) })
			}
		})
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	t.Logf("%d runs, %d operations in %v, judged in at most %d steps: %v", runs, total,
		time.Since(began).Round(time.Millisecond), dearest, counts)
	if outcome := lacking(counts); outcome != "" {
		t.Errorf("no %s in any history: it proves nothing", outcome)
	}
}

// lacking returns an outcome that is in no history yet, "" if all are.
func lacking(counts map[string]int) string {
	for _, must := range []string{"acquire: yes", "acquire: held", "renew: yes", "renew: over", "release: yes",
		"write: yes", "write: fenced", "look: over"} {
		if counts[must] == 0 {
			return must
		}
	}
	return ""
}

// judgeLeases fails the test unless one keeper of leases could have told clients this
// history. It returns the steps of the search, and whether it came to an end.
func judgeLeases(t *testing.T, ops []porcupine.Operation) (steps int64, decided bool) {
	t.Helper()
	result, steps := linearized(leaseModel, settledLeases(ops))
	if result == porcupine.Illegal {
		t.Errorf("leases: a history of %d operations is %v after %d steps of the search%s", len(ops), result, steps,
			picture(t, ops))
	}
	tokensRise(t, ops)
	return steps, result != porcupine.Unknown
}

// tokensRise checks what no model of one lease can see: over all leases and values no
// token comes twice, and of two grants, one of which was answered before the other was
// asked for, the later has the greater one.
func tokensRise(t *testing.T, all []porcupine.Operation) {
	var granted []porcupine.Operation
	for _, op := range all {
		verb, said := op.Input.(leaseCall).verb, op.Output.(told).said
		if said == saidYes && (verb == verbAcquire || verb == verbWrite) {
			granted = append(granted, op)
		}
	}
	token := func(op porcupine.Operation) fencing.Token { return op.Output.(told).token }
	slices.SortFunc(granted, func(a, b porcupine.Operation) int { return cmp.Compare(token(a), token(b)) })
	latest := int64(math.MinInt64) // that a lower token was asked for
	for n, op := range granted {
		if n > 0 && token(granted[n-1]) == token(op) {
			t.Errorf("leases: token %v was granted twice: %+v and %+v", token(op), granted[n-1].Input, op.Input)
		}
		if op.Return < latest {
			t.Errorf("leases: %+v got token %v before one with a lower token was asked for", op.Input, token(op))
		}
		latest = max(latest, op.Call)
	}
}

// picture writes a page that shows a bad history, if TRIVET_SIM_PICTURE names a
// directory for it.
func picture(t *testing.T, ops []porcupine.Operation) string {
	dir := os.Getenv("TRIVET_SIM_PICTURE")
	if dir == "" {
		return ""
	}
	f, err := os.CreateTemp(dir, "leases-*.html")
	if err != nil {
		t.Error(err)
		return ""
	}
	defer f.Close()
	_, info := porcupine.CheckOperationsVerbose(leaseModel, settledLeases(ops), time.Minute)
	if err := porcupine.Visualize(leaseModel, info, f); err != nil {
		t.Error(err)
	}
	return ", see " + f.Name()
}

const (
	// leaseFaults is how many times the peers of one run are hurt.
	leaseFaults = 4
	// leaseSteady is how long they are left alone before: leases end by themselves.
	leaseSteady = 3 * time.Second
)

// lend runs clients while the peers are hurt, and asks at the end what became of
// whatever a client has given up on.
func (c *Cluster) lend(h *history, run int) {
	c.settle(0)
	var clients []*borrower
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	for id := range 8 {
		b := newBorrower(c, h, id)
		clients = append(clients, b)
		done.Go(func() { b.run(ctx) })
	}
	losses := Losses()
	for n := range leaseFaults {
		c.hurt(losses[(run+n)%len(losses)])
	}
	stop()
	done.Wait()
	c.settle(0)
	for _, b := range clients {
		b.settleUp()
	}
}

// hurt loses the leader in one way, and then, while clocks on walls jump, cuts or
// stops another for a while, which may cost the quorum.
func (c *Cluster) hurt(how Loss) {
	for _, p := range c.Peers {
		p.SetSkew(time.Duration(c.rng.IntN(20)-10) * time.Hour)
	}
	time.Sleep(leaseSteady) // in a bubble
	c.Lose(how)
	victim := c.Peers[c.rng.IntN(len(c.Peers))]
	other := c.Peers[c.rng.IntN(len(c.Peers))]
	long := time.Duration(300+c.rng.IntN(2200)) * time.Millisecond
	switch c.rng.IntN(4) {
	case 0:
		victim.Pause()
		time.Sleep(long) // in a bubble
		victim.Resume()
	case 1:
		c.Net.CutBoth(victim.Name, other.Name)
		time.Sleep(long)
	case 2:
		c.Net.Isolate(victim.Name)
		c.Net.IsolateInbound(other.Name)
		time.Sleep(long)
	default:
		time.Sleep(long)
	}
	c.Net.HealAll()
	c.settle(0)
}
