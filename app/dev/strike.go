package dev

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/internal/pace"
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
func (t *trio) strikes(ctx context.Context, every, lasting time.Duration) {
	if every == 0 {
		return
	}
	began := time.Now()
	for range pace.After(ctx, every) {
		if lasting > 0 && time.Since(began) >= lasting {
			return
		}
		if err := t.strike(ctx); err != nil && ctx.Err() == nil {
			t.fail(err)
			return
		}
	}
}

// strike kills the leader and starts it again.
func (t *trio) strike(ctx context.Context) error {
	victim, died, err := t.kill(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(died.Add(deadFor))); err != nil {
		return err
	}
	return t.revive(ctx, victim)
}

// kill kills the leader and measures until the first write through a survivor is
// acknowledged.
func (t *trio) kill(ctx context.Context) (victim *slot, died time.Time, err error) {
	limited, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	if err := until(limited, "a leader to kill", func() bool { victim = t.leader(); return victim != nil }); err != nil {
		return nil, died, err
	}
	survivor := t.slots[(slices.Index(t.slots[:], victim)+1)%size]
	died = time.Now()
	t.noteStrike(died)
	t.tell("killed %s, which led", victim.name())
	var dying sync.WaitGroup
	dying.Go(func() {
		if err := victim.kill(context.WithoutCancel(ctx)); err != nil {
			victim.log.Warn("close what the killed peer left open failed", "err", err)
		}
	})
	err = t.write(limited, survivor)
	took := time.Since(died)
	dying.Wait()
	if err != nil {
		return nil, died, fmt.Errorf("%s was killed and %s took no write for %v: %w", victim.name(), survivor.name(), took.Round(time.Millisecond), err)
	}
	t.noteFailover(took)
	t.tell("%s took the first write %v after %s was killed", survivor.name(), took.Round(time.Millisecond), victim.name())
	return victim, died, nil
}

// write commits a command through a peer.
func (t *trio) write(ctx context.Context, s *slot) error {
	p := s.living()
	if p == nil {
		return fmt.Errorf("%s is dead too", s.name())
	}
	for {
		res, err := p.Core().Session.Do(ctx, "", fsm.PutSetting{Key: writeKey, Value: strconv.Itoa(t.count())})
		if err == nil {
			return res.Err()
		}
		if pause(ctx, poll) != nil {
			return err
		}
	}
}

func (t *trio) revive(ctx context.Context, s *slot) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	if err := s.start(ctx, t.fail); err != nil {
		return fmt.Errorf("after its death: %w", err)
	}
	return nil
}

func (t *trio) noteStrike(when time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.struck = append(t.struck, when)
}

func (t *trio) noteFailover(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failovers = append(t.failovers, took)
}

func (t *trio) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failovers)
}

// slowest returns the longest failover, 0 if there was none.
func (t *trio) slowest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.failovers) == 0 {
		return 0
	}
	return slices.Max(t.failovers)
}

// struckSince reports whether a leader was killed after a moment.
func (t *trio) struckSince(when time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.struck) > 0 && t.struck[len(t.struck)-1].After(when)
}
