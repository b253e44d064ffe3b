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

// failing are rules that cannot be programmed a second time.
type failing struct{ counted }

func (f *failing) Replace(ctx context.Context, r Ruleset) error {
	if f.replaced > 0 {
		return errFailing
	}
	return f.counted.Replace(ctx, r)
}

var errFailing = errors.New("no such table")

// TestRulesThatFailAreNotBlamedOnOthers lets a watch tell of rules that another program
// changed and that could not be programmed since: that is no further change by another
// program, and the reason why they are not as they should be stays.
func TestRulesThatFailAreNotBlamedOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign, chains := make(chan struct{}, 1), &failing{}
		lists := NewLists(chains, newRig(t), Policy{}, 0, foreign, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		synctest.Wait()
		if err := chains.rules.Replace(ctx, Ruleset{}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			synctest.Wait()
			foreign <- struct{}{} // in a bubble
		}
		synctest.Wait()
		if now, _ := lists.State(); now.Drift != 1 || !errors.Is(now.Err, errFailing) {
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

// meanwhile are rules at whose reading something happens once.
type meanwhile struct {
	rules
	mu sync.Mutex
	do func()
}

func (m *meanwhile) Read(ctx context.Context) (Ruleset, error) {
	m.mu.Lock()
	do := m.do
	m.do = nil
	m.mu.Unlock()
	if do != nil {
		do()
	}
	return m.rules.Read(ctx)
}

func (m *meanwhile) atNextRead(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.do = do
}

// A blacklist that another program emptied is rebuilt, and counted as a change by
// another program, also when ports or leadership change while the rules are read back.
func TestNewsIsNotLostToAChangeMeanwhile(t *testing.T) {
	for name, change := range map[string]func(r *rig, lists *Lists) error{
		"a port": func(r *rig, _ *Lists) error {
			return r.apply(r.token, ironicports.PutPorts{Ports: []ironicports.Port{port(3)}}).Err()
		},
		"the leader": func(_ *rig, lists *Lists) error { lists.Lead(0); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, chains, foreign := newRig(t), &meanwhile{}, make(chan struct{}, 1)
				lists := NewLists(chains, r, Policy{Discovery: true}, 0, foreign, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); lists.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				r.lead()
				if err := r.apply(r.token, ironicports.PutPorts{Ports: []ironicports.Port{port(1), port(2)}}).Err(); err != nil {
					t.Fatal(err)
				}
				lists.Lead(r.token)
				synctest.Wait()

				chains.atNextRead(func() {
					if err := change(r, lists); err != nil {
						t.Error(err)
					}
				})
				if err := chains.rules.Replace(ctx, Ruleset{Pass: true}); err != nil {
					t.Fatal(err)
				}
				foreign <- struct{}{} // in a bubble
				synctest.Wait()
				v, _ := r.Changed()
				now, _ := lists.State()
				got, err := chains.rules.Read(ctx)
				if want := Desired(v, !now.Token.IsZero(), Policy{Discovery: true}); err != nil || !got.Equal(want) {
					t.Errorf("blacklist-emptied: the kernel denies %v instead of %v, with pass %v (%v)", got.Deny, want.Deny, got.Pass,
						err)
				}
				if now.Drift != 1 || now.Err != nil {
					t.Errorf("blacklist-emptied: %d changes by others were counted instead of 1 (%v)", now.Drift, now.Err)
				}
			})
		})
	}
}

// Ports that change while untouched rules are read back are no change by another program.
func TestAChangeMeanwhileIsNotBlamedOnOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, chains, foreign := newRig(t), &meanwhile{}, make(chan struct{}, 1)
		lists := NewLists(chains, r, Policy{}, 0, foreign, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); lists.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		r.lead()
		lists.Lead(r.token)
		synctest.Wait()
		chains.atNextRead(func() {
			if err := r.apply(r.token, ironicports.PutPorts{Ports: []ironicports.Port{port(3)}}).Err(); err != nil {
				t.Error(err)
			}
		})
		foreign <- struct{}{} // in a bubble
		synctest.Wait()
		if now, _ := lists.State(); now.Drift != 0 || now.Err != nil || now.Counts.Deny != 2 {
			t.Errorf("change-blamed-on-others: %d changes by others, %d denied (%v)", now.Drift, now.Counts.Deny, now.Err)
		}
	})
}
