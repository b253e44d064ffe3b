package firewall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/logs"
)

// Pauses of the lists.
const (
	// listsRetry is the pause after a failure to program the kernel.
	listsRetry = 200 * time.Millisecond
	// listsLimit bounds one call of a driver.
	listsLimit = 10 * time.Second
)

// Lists keeps the rules below the lease as the state wants them, on every peer,
// leader or not. What it does is harmless by itself: the lease decides whether
// anything gets through.
type Lists struct {
	chains Chains
	log    Log
	policy Policy // belongs to Run
	// foreign yields when another program may have changed our rules; nil if the
	// driver cannot know.
	foreign <-chan struct{}
	failing *slog.Logger // of what fails at each round

	mu      sync.Mutex
	terms   Terms
	leads   fencing.Token // the leadership for which the rules are; zero: none
	role    chan struct{} // closed and replaced when leads changes, or terms
	state   ListState
	changed chan struct{} // closed and replaced when state changes
}

// ListState is how the rules of this host stand.
type ListState struct {
	Token fencing.Token // of the leadership they are for; zero: a follower's rules
	Index uint64        // of the state they were made from
	// Compared is when the kernel's rules were last read back and found equal.
	Compared time.Time
	Err      error     // why they are not as they should be; nil if they are
	Drift    int       // how often they were found changed by another program, or lost
	Drifted  time.Time // when they were last
	Counts             // of what is programmed, or was read back since
}

// Terms are what the configuration says about the lists of a host.
type Terms struct {
	Policy Policy
	// Compare is how often the kernel's rules are read back and compared in
	// full; 0: never (firewall.whitelist_poll_period).
	Compare time.Duration
}

// NewLists returns the lists of this host; Run programs them.
func NewLists(chains Chains, log Log, p Policy, compare time.Duration, foreign <-chan struct{},
	logger *slog.Logger) *Lists {
	return &Lists{
		chains: chains, log: log, policy: p, terms: Terms{p, compare}, foreign: foreign,
		failing: logs.Limit(logger),
		role:    make(chan struct{}), changed: make(chan struct{}), state: ListState{Err: errNotYet},
	}
}

var errNotYet = fmt.Errorf("the rules were not programmed yet")

// State returns how the rules stand and a channel that is closed when that is
// old. It may be called concurrently.
func (l *Lists) State() (ListState, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

// Lead makes the rules those of the leader with this token, zero those of a
// follower. It may be called concurrently and returns at once.
func (l *Lists) Lead(token fencing.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads == token {
		return
	}
	l.leads = token
	close(l.role)
	l.role = make(chan struct{})
}

// Renew makes other terms count; the rules follow at once. It may be called
// concurrently.
func (l *Lists) Renew(t Terms) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms = t
	close(l.role)
	l.role = make(chan struct{})
}

func (l *Lists) setState(s ListState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
}

// Run programs the rules until ctx ends. They stay in the kernel, closed by
// their lease.
func (l *Lists) Run(ctx context.Context) {
	var now ListState // as programmed
	var made fsm.View // the state that it was programmed from
	whole := true     // the next round replaces everything
	poll, period := time.NewTicker(time.Hour), time.Duration(0)
	poll.Stop() // it ticks once there is a period: a tick of the far future keeps a stuck test from its end
	defer poll.Stop()
	for ctx.Err() == nil {
		v, changed := l.log.Changed()
		l.mu.Lock()
		token, terms, role := l.leads, l.terms, l.role
		l.mu.Unlock()
		l.policy = terms.Policy
		if terms.Compare != period {
			poll.Stop()
			if period = terms.Compare; period > 0 {
				poll.Reset(period)
			}
		}
		next, err := l.programOnce(ctx, v, token, now, whole)
		if ctx.Err() != nil {
			return
		}
		if err == nil && next.Index == v.Index() {
			made = v
		}
		var retry <-chan time.Time
		whole = err != nil
		if err != nil {
			l.failing.Warn("program PXE filter rules failed, retrying; the PXE service stays closed", "err", err)
			next.Err, changed, retry = err, nil, time.After(listsRetry)
		}
		if next != now || err != nil {
			l.setState(next)
		}
		now = next
		select {
		case <-changed:
		case <-role:
		case <-retry:
		case <-poll.C:
			whole = !l.kernelMatches(ctx, made, &now)
		case <-l.foreign:
			whole = !l.kernelMatches(ctx, made, &now)
		case <-ctx.Done():
		}
	}
}

// programOnce brings the kernel from now to what v wants.
func (l *Lists) programOnce(ctx context.Context, v fsm.View, token fencing.Token, now ListState, whole bool) (ListState,
	error) {
	if !token.IsZero() && !covers(v, token) {
		return now, nil // the state of an earlier leadership
	}
	if !whole {
		c, ok := l.difference(v, now)
		if ok && token == now.Token {
			return l.applyChange(ctx, v, now, c)
		}
		if ok {
			// Machines wait for this leadership to open, and long lists take a
			// while to write, above all those of iptables.
			if next, err := l.changeLeadership(ctx, v, token, now, c); err == nil || ctx.Err() != nil {
				return next, err
			}
		}
	}
	limited, cancel := context.WithTimeout(ctx, listsLimit)
	defer cancel()
	if err := l.chains.Replace(limited, Desired(v, !token.IsZero(), l.policy)); err != nil {
		return now, fmt.Errorf("replace the rules: %w", err)
	}
	return l.readBack(limited, v, token, now)
}

// changeLeadership makes one leadership's rules those of another, or of a follower, by what
// they differ in besides c: the whitelist and the pass rule. If it fails the
// rules have to be replaced.
func (l *Lists) changeLeadership(ctx context.Context, v fsm.View, token fencing.Token, now ListState,
	c Change) (ListState, error) {
	leads := !token.IsZero()
	var allowed []string
	for mac := range v.AllowedMACs() {
		allowed = append(allowed, mac)
	}
	switch {
	case !leads: // what is not allowed any more may be on the list still
		c.Allow, c.Unallow = nil, append(c.Unallow, allowed...)
	case now.Token.IsZero():
		c.Allow = allowed
	}
	c.Pass = nil
	if pass := leads && passes(v, l.policy); pass != now.Pass {
		c.Pass = &pass
	}
	limited, cancel := context.WithTimeout(ctx, listsLimit)
	defer cancel()
	if !c.Empty() {
		if err := l.chains.Change(limited, c); err != nil {
			return now, fmt.Errorf("change the rules: %w", err)
		}
	}
	return l.readBack(limited, v, token, now)
}

// readBack is the end of a round that must leave what v wants.
func (l *Lists) readBack(ctx context.Context, v fsm.View, token fencing.Token, now ListState) (ListState, error) {
	want := Desired(v, !token.IsZero(), l.policy)
	got, err := l.chains.Read(ctx)
	if err != nil {
		return now, fmt.Errorf("read the rules back: %w", err)
	}
	if !got.Equal(want) {
		return now, fmt.Errorf("the kernel keeps other rules than it was given: %d of %d allowed, %d of %d denied",
			len(got.Allow), len(want.Allow), len(got.Deny), len(want.Deny))
	}
	return ListState{
		Token: token, Index: v.Index(), Compared: time.Now(), Drift: now.Drift, Drifted: now.Drifted,
		Counts: Count(v, !token.IsZero(), l.policy),
	}, nil
}

// difference returns what changed in the state since the rules were programmed,
// not ok if the state does not remember that far back.
func (l *Lists) difference(v fsm.View, now ListState) (c Change, ok bool) {
	ports, ok := v.PortsChangedSince(now.Index)
	if !ok {
		return c, false
	}
	for _, mac := range ports { // each goes to where it belongs now
		if v.Denied(mac) || mac == TestMAC {
			c.Deny = append(c.Deny, mac)
		} else {
			c.Undeny = append(c.Undeny, mac)
		}
	}
	if now.Token.IsZero() {
		return c, true
	}
	allowed, ok := v.AllowedChangedSince(now.Index)
	if !ok {
		return Change{}, false
	}
	for _, mac := range allowed {
		if v.Allowed(mac) {
			c.Allow = append(c.Allow, mac)
		} else {
			c.Unallow = append(c.Unallow, mac)
		}
	}
	if pass := passes(v, l.policy); pass != now.Pass {
		c.Pass = &pass
	}
	return c, true
}

func (l *Lists) applyChange(ctx context.Context, v fsm.View, now ListState, c Change) (ListState, error) {
	if c.Empty() {
		now.Index = v.Index()
		return now, nil
	}
	limited, cancel := context.WithTimeout(ctx, listsLimit)
	defer cancel()
	if err := l.chains.Change(limited, c); err != nil {
		return now, fmt.Errorf("change the rules: %w", err)
	}
	now.Index = v.Index()
	now.Counts = Count(v, !now.Token.IsZero(), l.policy)
	return now, nil
}

// kernelMatches reads the kernel's rules back and says whether they are what was
// programmed from made; if not, another program changed them. Rules that are known
// not to be as they should are not compared: what is wrong with them says nothing
// about other programs.
func (l *Lists) kernelMatches(ctx context.Context, made fsm.View, now *ListState) bool {
	if now.Err != nil || made == (fsm.View{}) {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, listsLimit)
	defer cancel()
	got, err := l.chains.Read(limited)
	// The newest state may want more by now: of a change that is on its way a foreign one is
	// told apart, or it would stay, as that change may succeed on top of it.
	want := Desired(made, !now.Token.IsZero(), l.policy)
	want.Pass = now.Pass // by the policy of that time
	switch {
	case err != nil:
	case got.Equal(want):
		now.Compared = time.Now()
		l.setState(*now)
		return true
	default:
		extra := slices.DeleteFunc(slices.Clone(got.Allow), func(mac string) bool { return slices.Contains(want.Allow, mac) })
		err = fmt.Errorf(
			"%w: %d MACs are allowed instead of %d (%v too many), %d denied instead of %d, pass %v instead of %v",
			ErrForeign, len(got.Allow), len(want.Allow), extra[:min(len(extra), 3)], len(got.Deny), len(want.Deny), got.Pass,
			want.Pass)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, ErrMisplaced): // no program touched the rules
		now.Err = err
		l.setState(*now)
	default:
		now.Counts = got.Counts()
		now.Drift++
		now.Drifted = time.Now()
		now.Err = err
		l.setState(*now)
		l.failing.Warn("PXE filter rules were changed by another program; rebuilding them, closed", "err", err)
	}
	return false
}
