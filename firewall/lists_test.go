package firewall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// counted are rules that count how often they are replaced.
type counted struct {
	rules
	replaced int
}

func (c *counted) Replace(ctx context.Context, r Ruleset) error {
	c.replaced++
	return c.rules.Replace(ctx, r)
}

// Change is like that of a kernel: what is taken off twice is an error.
func (c *counted) Change(ctx context.Context, d Change) error {
	for _, list := range [][]string{slices.Concat(d.Allow, d.Unallow), slices.Concat(d.Deny, d.Undeny)} {
		slices.Sort(list)
		if len(slices.Compact(slices.Clone(list))) != len(list) {
			return fmt.Errorf("a MAC is named twice: %v", list)
		}
	}
	return c.rules.Change(ctx, d)
}

func port(n int) ironicports.Port {
	return ironicports.Port{ID: fmt.Sprintf("00000000-0000-4000-8000-%012x", n), MAC: mac(n), Node: node(n)}
}

func mac(n int) string  { return fmt.Sprintf("52:54:00:00:00:%02x", n) }
func node(n int) string { return fmt.Sprintf("00000000-0000-4000-9000-%012x", n) }

// TestLeadershipTurnsTheRulesWithoutABuild makes a follower's rules a leader's
// and back while the state changes: long lists are written once, at the start.
func TestLeadershipTurnsTheRulesWithoutABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		chains := &counted{}
		lists := NewLists(chains, r, Policy{}, 0, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		r.lead()
		do := func(c fsm.Command) {
			t.Helper()
			if err := r.apply(r.token, c).Err(); err != nil {
				t.Fatal(err)
			}
		}
		start := func(n int) {
			do(introspection.Start{Node: node(n), Event: introspection.EventStart, Timeout: time.Hour,
				Attributes: introspection.Attributes{MACs: []string{mac(n)}}})
		}
		lead := func(token fencing.Token) {
			t.Helper()
			lists.Lead(token)
			synctest.Wait()
			v, _ := r.Changed()
			got, err := chains.Read(ctx)
			if want := Desired(v, !token.IsZero(), Policy{}); err != nil || !got.Equal(want) {
				t.Errorf("under token %v the rules are %+v (%v), want %+v", token, got, err, want)
			}
			if now, _ := lists.State(); now.Err != nil || now.Token != token {
				t.Errorf("under token %v they are said to be of %v: %v", token, now.Token, now.Err)
			}
		}
		do(ironicports.PutPorts{Ports: []ironicports.Port{port(1), port(2), port(3)}})
		start(1)
		lead(0)
		lead(r.token)
		start(2)
		lead(r.token)
		start(3)
		lead(0) // with a change that the leader did not see
		do(ironicports.PutPorts{Remove: []string{port(3).ID}})
		lead(r.token)
		if chains.replaced != 1 {
			t.Errorf("the rules were built %d times, want once", chains.replaced)
		}
	})
}

// TestRulesThatCannotBeTurnedAreBuilt has somebody at a follower's rules, unseen.
func TestRulesThatCannotBeTurnedAreBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		chains := &counted{}
		lists := NewLists(chains, r, Policy{Discovery: true}, 0, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		r.lead()
		synctest.Wait()
		if err := chains.rules.Replace(ctx, Ruleset{Allow: []string{mac(9)}}); err != nil {
			t.Fatal(err)
		}
		lists.Lead(r.token)
		synctest.Wait()
		v, _ := r.Changed()
		if got, err := chains.Read(ctx); err != nil || !got.Equal(Desired(v, true, Policy{Discovery: true})) ||
			chains.replaced != 2 {
			t.Errorf("built %d times, the rules are %+v (%v)", chains.replaced, got, err)
		}
		if now, _ := lists.State(); now.Token != r.token || now.Err != nil {
			t.Errorf("they are said to be of %v: %v", now.Token, now.Err)
		}
	})
}

// failing are rules that cannot be programmed.
type failing struct{ rules }

func (*failing) Replace(context.Context, Ruleset) error { return errFailing }

var errFailing = errors.New("no such table")

// TestRulesThatFailAreNotBlamedOnOthers lets a watch tell of rules that could
// not be programmed: that is no change by another program, and the reason why
// they are not as they should be stays.
func TestRulesThatFailAreNotBlamedOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := make(chan struct{}, 1)
		lists := NewLists(&failing{}, newRig(t), Policy{}, 0, foreign, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		for range 3 {
			synctest.Wait()
			foreign <- struct{}{} // in a bubble
		}
		synctest.Wait()
		if now, _ := lists.State(); now.Drift != 0 || !errors.Is(now.Err, errFailing) {
			t.Errorf("after three events: %d changes by others, reason %v", now.Drift, now.Err)
		}
	})
}

// misplaced are rules that were right until their interface became a bridge's.
type misplaced struct {
	rules
	mu    sync.Mutex
	moved bool
}

func (m *misplaced) Read(ctx context.Context) (Ruleset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved {
		return Ruleset{}, fmt.Errorf("%w: eth1 is a port of br0", ErrMisplaced)
	}
	return m.rules.Read(ctx)
}

func (m *misplaced) move() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved = true
}

// TestMisplacedRulesAreNotBlamedOnOthers: an interface that is added to a bridge is
// no change of the rules by another program, and the reason that is shown.
func TestMisplacedRulesAreNotBlamedOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign, chains := make(chan struct{}, 1), &misplaced{}
		lists := NewLists(chains, newRig(t), Policy{}, 0, foreign, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		synctest.Wait()
		if now, _ := lists.State(); now.Err != nil {
			t.Fatal(now.Err)
		}
		chains.move()
		foreign <- struct{}{} // in a bubble
		synctest.Wait()
		if now, _ := lists.State(); now.Drift != 0 || !errors.Is(now.Err, ErrMisplaced) {
			t.Errorf("misplaced-is-no-drift: %d changes by others, reason %v", now.Drift, now.Err)
		}
	})
}
