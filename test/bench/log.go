package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// How area log works: what is compared takes turns, so that a busy moment of
// the machine hits both sides.
const (
	commandSize   = 200 // bytes of an encoded command
	latencyRounds = 40
	latencyBlock  = 25 // writes, and pairs of syncs, in a round
	loadRounds    = 7
	loadClients   = 64
	loadTime      = 3 * time.Second // per round and side
	warmUp        = time.Second
)

func logArea() Area {
	return Area{
		Name:    "log",
		About:   "three peers in this process, mutual TLS on loopback, logs on one disk",
		Measure: measureLog,
	}
}

func measureLog(ctx context.Context, b *Bench) error {
	dir, err := b.Folder("log")
	if err != nil {
		return err
	}
	cluster, err := newTrio(ctx, dir)
	if err != nil {
		return err
	}
	err = errors.Join(measureLatency(ctx, b, cluster), measureLoad(ctx, b, cluster, dir))
	return errors.Join(err, cluster.close(ctx))
}

func measureLatency(ctx context.Context, b *Bench, cluster *trio) error {
	probe, err := newDiskProbe(b.Dir)
	if err != nil {
		return err
	}
	defer probe.close()
	write := trivetWriter(cluster.leader())
	if _, err := writeFor(ctx, 1, warmUp, write); err != nil {
		return err
	}
	var writes, pairs Sample
	for range latencyRounds {
		for range latencyBlock {
			took, err := probe.pair()
			if err != nil {
				return err
			}
			pairs = append(pairs, took)
		}
		for range latencyBlock {
			began := time.Now()
			if err := write(ctx, 0); err != nil {
				return err
			}
			writes = append(writes, time.Since(began))
		}
	}
	b.Report.Add("log.write_p50_ratio", ratio(writes.P50(), pairs.P50()), "x", AtMost(3),
		fmt.Sprintf("write %v; two fdatasyncs %v", writes, pairs))
	return nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// measureLoad compares 64 clients with etcd's.
func measureLoad(ctx context.Context, b *Bench, cluster *trio, dir string) (err error) {
	const name, unit = "log.writes_64_ratio", "x"
	goal := AtLeast(1.5)
	etcd, err := newEtcd(ctx, dir)
	if errors.Is(err, errNoEtcd) {
		b.Report.Skip(name, unit, goal, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.close()) }()
	sides := []struct {
		write writer
		rates []float64
	}{{write: trivetWriter(cluster.leader())}, {write: etcd.put}, {write: trivetWriter(cluster.follower().peer)}}
	var ratios []float64
	for round := -1; round < loadRounds; round++ {
		for i := range sides {
			rate, err := writeFor(ctx, loadClients, loadTime, sides[i].write)
			if err != nil {
				return err
			}
			if round >= 0 { // the first warms both up
				sides[i].rates = append(sides[i].rates, rate)
			}
		}
		if round >= 0 {
			ratios = append(ratios, sides[0].rates[round]/sides[1].rates[round])
		}
	}
	b.Report.Add(name, median(ratios), unit, goal, fmt.Sprintf(
		"medians of %d rounds: on the leader %.0f/s, forwarded by a follower %.0f/s, etcd %s %.0f/s",
		loadRounds, median(sides[0].rates), median(sides[2].rates), etcd.version, median(sides[1].rates)))
	return nil
}

// writer makes one write as client number n and waits for its acknowledgement.
type writer func(ctx context.Context, n int) error

// trivetWriter writes through the session of a peer: exactly once, as the API does.
func trivetWriter(p *app.Peer) writer {
	session := p.Core().Session
	value := strings.Repeat("x", commandSize-overhead(session.ID()))
	return func(ctx context.Context, n int) error {
		res, err := session.Do(ctx, "", fsm.PutSetting{Key: settingKey(n), Value: value})
		if err != nil {
			return err
		}
		return res.Err()
	}
}

func settingKey(n int) string { return fmt.Sprintf("bench.%02d", n) }

// overhead is what an encoded command of the bench has besides its value.
func overhead(session fencing.Token) int {
	now := fsm.Time(time.Minute)
	id := fsm.NextRequestID(fsm.RequestID{}, now, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	h := fsm.Header{Time: now, WallMillis: time.Now().UnixMilli(), Session: session, Request: id, Answered: id}
	const value = "a length of more than 23 bytes takes two bytes to encode"
	data, err := fsm.Encode(h, fsm.PutSetting{Key: settingKey(0), Value: value})
	if err != nil {
		panic(err) // the same command is about to be written
	}
	return len(data) - len(value)
}

// writeFor keeps some clients writing for a while and returns writes a second.
func writeFor(ctx context.Context, clients int, d time.Duration, write writer) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var done atomic.Int64
	var busy sync.WaitGroup
	began := time.Now()
	for n := range clients {
		busy.Go(func() {
			for time.Since(began) < d {
				if err := write(ctx, n); err != nil {
					cancel(fmt.Errorf("client %d: %w", n, err))
					return
				}
				done.Add(1)
			}
		})
	}
	busy.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), context.Cause(ctx)
}
