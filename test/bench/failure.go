package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
)

// The restart of a follower.
const (
	restartRecords = 10_000
	restartTrials  = 7
	restartLimit   = 30 * time.Second
	recordWriters  = 64
	// longAbsence is long enough for the leader to have given up trying often.
	longAbsence = 8 * time.Second
)

func failureArea() Area {
	return Area{
		Name:    "failure",
		About:   "three processes at normal timing; the restart of a follower in this process",
		Measure: measureFailure,
	}
}

func measureFailure(ctx context.Context, b *Bench) error {
	return errors.Join(measureLosses(ctx, b), measureRestart(ctx, b))
}

func measureLosses(ctx context.Context, b *Bench) (err error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return err
	}
	dir, err := b.Folder("failure")
	if err != nil {
		return err
	}
	ironic, err := newRack(ctx, 0) // without one 'trivet status' warns
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ironic.close()) }()
	cluster, err := newFleet(ctx, binary, dir, map[string]string{"ironic.endpoint": ironic.url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.end()) }()
	killed, err := losses(ctx, b, cluster, syscall.SIGKILL)
	if err != nil {
		return err
	}
	b.Report.Add("failure.sigkill_next_write_p50", killed.P50().Seconds(), "s", AtMost(0.8), killed.String())
	b.Report.Add("failure.sigkill_next_write_max", killed.Max().Seconds(), "s", AtMost(1), killed.String())
	stopped, err := losses(ctx, b, cluster, syscall.SIGTERM)
	if err != nil {
		return err
	}
	b.Report.Add("failure.planned_stop_p50", stopped.P50().Seconds(), "s", AtMost(0.3), stopped.String())
	b.Report.Add("failure.planned_stop_max", stopped.Max().Seconds(), "s", AtMost(0.3), stopped.String())
	return statuses(ctx, b, cluster)
}

func losses(ctx context.Context, b *Bench, cluster fleet, s os.Signal) (Sample, error) {
	var out Sample
	for range b.Trials {
		took, err := cluster.lose(ctx, s)
		if err != nil {
			return out, fmt.Errorf("%v, trial %d: %w", s, len(out)+1, err)
		}
		out = append(out, took)
	}
	return out, nil
}

func measureRestart(ctx context.Context, b *Bench) error {
	dir, err := b.Folder("restart")
	if err != nil {
		return err
	}
	c, err := newCluster(ctx, dir, "bolt")
	if err != nil {
		return err
	}
	err = restarts(ctx, b, c)
	return errors.Join(err, c.close(ctx))
}

func restarts(ctx context.Context, b *Bench, c *cluster) error {
	if err := fill(ctx, c); err != nil {
		return err
	}
	var ready Sample
	for range restartTrials {
		took, err := restart(ctx, c.Follower(), 0)
		if err != nil {
			return err
		}
		ready = append(ready, took)
	}
	late, err := restart(ctx, c.Follower(), longAbsence)
	if err != nil {
		return err
	}
	b.Report.Add("failure.follower_restart_ready", ready.Max().Seconds(), "s", AtMost(1.5),
		fmt.Sprintf("%d records, %v", restartRecords, ready))
	b.Report.Add("failure.follower_return_ready", late.Seconds(), "s", AtMost(1.5),
		fmt.Sprintf("the same after %v away, n=1", longAbsence))
	return nil
}

// fill writes introspection records through the leader.
func fill(ctx context.Context, c *cluster) error {
	session := c.Leader().Peer().Core().Session
	next := make(chan int, restartRecords)
	for i := range restartRecords {
		next <- i
	}
	close(next)
	write := func(ctx context.Context, _ int) error {
		i, more := <-next
		if !more {
			return errDone
		}
		res, err := session.Do(ctx, "", introspection.Start{
			Node: fmt.Sprintf("00000000-0000-4000-8000-%012x", i), Event: introspection.EventAdopt, Timeout: time.Hour,
			Attributes: introspection.Attributes{MACs: []string{fmt.Sprintf("52:54:00:%02x:%02x:%02x", i>>16, i>>8&255, i&255)}},
		})
		if err != nil {
			return err
		}
		return res.Err()
	}
	if _, err := writeFor(ctx, recordWriters, time.Hour, write); !errors.Is(err, errDone) {
		return fmt.Errorf("write the records: %w", err)
	}
	return nil
}

// errDone ends writers that have nothing left to write.
var errDone = errors.New("all is written")

// restart stops a follower in order and takes the time from its start until it
// serves linearizable reads.
func restart(ctx context.Context, h *trio.Host, away time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, away+restartLimit)
	defer cancel()
	if err := h.Stop(ctx); err != nil {
		return 0, err
	}
	select {
	case <-time.After(away):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	began := time.Now()
	err := h.Start(ctx)
	return time.Since(began), err
}
