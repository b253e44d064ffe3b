package site

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
)

const (
	// deadFor is how long a killed peer stays dead: what a service manager takes
	// to start it again.
	deadFor = 3 * time.Second
	// writeKey is the setting that is written to see whether one can.
	writeKey = "dev.written-after-failover"
)

// strikes kills whoever leads, every so often, until ctx ends or, if lasting is
// not 0, that much time is over.
func (t *cluster) strikes(ctx context.Context, every, lasting time.Duration) {
	if every == 0 {
		return
	}
	while := ctx // strikes begin
	if lasting > 0 {
		var cancel context.CancelFunc
		while, cancel = context.WithTimeout(ctx, lasting)
		defer cancel()
	}
	for range pace.After(while, every) {
		if err := t.strike(ctx); err != nil && ctx.Err() == nil {
			t.fail(err)
			return
		}
	}
}

// strike kills the leader and starts it again.
func (t *cluster) strike(ctx context.Context) error {
	victim, died, err := t.kill(ctx)
	if err != nil {
		return err
	}
	if !pace.Wait(ctx, time.Until(died.Add(deadFor))) {
		return context.Cause(ctx)
	}
	return t.revive(ctx, victim)
}

// kill kills the leader and measures until the first write through a survivor is
// acknowledged.
func (t *cluster) kill(ctx context.Context) (victim *slot, died time.Time, err error) {
	limited, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	if err := trio.Until(
		limited, "a leader to kill", func() bool { victim = t.leader(); return victim != nil }); err != nil {
		return nil, died, err
	}
	survivor := t.slots[(slices.Index(t.slots[:], victim)+1)%trio.Size]
	died = time.Now()
	t.noteStrike(died)
	t.tell("killed %s, which led", victim.Name())
	var dying sync.WaitGroup
	dying.Go(func() {
		if err := victim.Kill(context.WithoutCancel(ctx)); err != nil {
			t.tell("close what %s left open failed: %v", victim.Name(), err)
		}
	})
	err = t.write(limited, survivor)
	took := time.Since(died)
	dying.Wait()
	if err != nil {
		return nil, died, fmt.Errorf("%s was killed and %s took no write for %v: %w", victim.Name(), survivor.Name(),
			took.Round(time.Millisecond), err)
	}
	t.noteFailover(took)
	t.tell("%s took the first write %v after %s was killed", survivor.Name(), took.Round(time.Millisecond), victim.Name())
	return victim, died, nil
}

// write commits a command through a peer.
func (t *cluster) write(ctx context.Context, s *slot) error {
	p := s.Peer()
	if p == nil {
		return fmt.Errorf("%s is dead too", s.Name())
	}
	for {
		res, err := p.Core().Session.Do(ctx, "", settings.PutSetting{Key: writeKey, Value: strconv.Itoa(t.count())})
		if err == nil {
			return res.Err()
		}
		if !pace.Wait(ctx, trio.Poll) {
			return err
		}
	}
}

// leader returns the slot of the peer that leads, nil if none does.
func (t *cluster) leader() *slot {
	h := t.Leader()
	for _, s := range t.slots {
		if s.Host == h {
			return s
		}
	}
	return nil
}

func (t *cluster) revive(ctx context.Context, s *slot) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		return fmt.Errorf("after its death: %w", err)
	}
	return nil
}

func (t *cluster) noteStrike(when time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.struck = append(t.struck, when)
}

func (t *cluster) noteFailover(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failovers = append(t.failovers, took)
}

func (t *cluster) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failovers)
}

// slowest returns the longest failover, 0 if there was none.
func (t *cluster) slowest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failovers) == 0 {
		return 0
	}
	return slices.Max(t.failovers)
}

// struckSince reports whether a leader was killed after a moment.
func (t *cluster) struckSince(when time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.struck) > 0 && t.struck[len(t.struck)-1].After(when)
}
