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
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/settings"
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

// stored is a cluster whose logs are kept in one of the stores.
type stored struct {
	store  string
	suffix string // of the names of its rows
	*cluster

	writes        Sample
	rates         []float64
	followerRates []float64
	ratios        []float64 // to etcd's rate in the same round
}

func measureLog(ctx context.Context, b *Bench) (err error) {
	clusters := []*stored{{store: "bolt"}, {store: "wal", suffix: "_wal"}}
	for _, c := range clusters {
		if c.cluster, err = newStored(ctx, b, c.store); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close(ctx)) }()
	}
	if err := measureLatency(ctx, b, clusters); err != nil {
		return err
	}
	dir, err := b.Folder("etcd")
	if err != nil {
		return err
	}
	return measureLoad(ctx, b, clusters, dir)
}

func newStored(ctx context.Context, b *Bench, store string) (*cluster, error) {
	dir, err := b.Folder("log-" + store)
	if err != nil {
		return nil, err
	}
	return newCluster(ctx, dir, store)
}

func measureLatency(ctx context.Context, b *Bench, clusters []*stored) error {
	probe, err := newDiskProbe(b.Dir)
	if err != nil {
		return err
	}
	defer probe.close()
	for _, c := range clusters {
		if _, err := writeFor(ctx, 1, warmUp, trivetWriter(c.Leader().Peer())); err != nil {
			return err
		}
	}
	var pairs Sample
	for range latencyRounds {
		for range latencyBlock {
			took, err := probe.pair()
			if err != nil {
				return err
			}
			pairs = append(pairs, took)
		}
		for _, c := range clusters {
			write := trivetWriter(c.Leader().Peer())
			for range latencyBlock {
				began := time.Now()
				if err := write(ctx, 0); err != nil {
					return err
				}
				c.writes = append(c.writes, time.Since(began))
			}
		}
	}
	for _, c := range clusters {
		b.Report.Add("log.write_p50_ratio"+c.suffix, ratio(c.writes.P50(), pairs.P50()), "x",
			AtMost(map[string]float64{"bolt": 3.5, "wal": 2}[c.store]),
			fmt.Sprintf("%s: write %v; two fdatasyncs %v", c.store, c.writes, pairs))
	}
	return nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// measureLoad compares 64 clients with etcd's.
func measureLoad(ctx context.Context, b *Bench, clusters []*stored, dir string) (err error) {
	const name, unit = "log.writes_64_ratio", "x"
	goal := func(c *stored) Goal { return AtLeast(map[string]float64{"bolt": 1.8, "wal": 2.5}[c.store]) }
	etcd, err := newEtcd(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.close()) }()
	var etcdRates []float64
	for round := -1; round < loadRounds; round++ { // the first warms all up
		rate, err := writeFor(ctx, loadClients, loadTime, etcd.put)
		if err != nil {
			return err
		}
		if round >= 0 {
			etcdRates = append(etcdRates, rate)
		}
		for _, c := range clusters {
			if err := c.load(ctx, rate, round >= 0); err != nil {
				return err
			}
		}
	}
	for _, c := range clusters {
		b.Report.Add(name+c.suffix, median(c.ratios), unit, goal(c), fmt.Sprintf(
			"%s, medians of %d rounds: on the leader %.0f/s, forwarded by a follower %.0f/s, etcd %s %.0f/s",
			c.store, loadRounds, median(c.rates), median(c.followerRates), etcd.version, median(etcdRates)))
	}
	return nil
}

// load writes with all clients on the leader, then through a follower. etcd is
// etcd's rate in this round.
func (c *stored) load(ctx context.Context, etcd float64, counts bool) error {
	rate, err := writeFor(ctx, loadClients, loadTime, trivetWriter(c.Leader().Peer()))
	if err != nil {
		return err
	}
	through, err := writeFor(ctx, loadClients, loadTime, trivetWriter(c.Follower().Peer()))
	if err != nil || !counts {
		return err
	}
	c.rates, c.followerRates, c.ratios = append(c.rates, rate), append(c.followerRates, through),
		append(c.ratios, rate/etcd)
	return nil
}

// writer makes one write as client number n and waits for its acknowledgement.
type writer func(ctx context.Context, n int) error

// trivetWriter writes through the session of a peer: exactly once, as the API does.
func trivetWriter(p *app.Peer) writer {
	session := p.Core().Session
	value := strings.Repeat("x", commandSize-overhead(session.ID()))
	return func(ctx context.Context, n int) error {
		res, err := session.Do(ctx, "", settings.PutSetting{Key: settingKey(n), Value: value})
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
	id := entry.NextRequestID(fsm.RequestID{}, now, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	h := fsm.Header{Time: now, WallMillis: time.Now().UnixMilli(), Session: session, Request: id, Answered: id}
	const value = "a length of more than 23 bytes takes two bytes to encode"
	data, err := fsm.Encode(h, settings.PutSetting{Key: settingKey(0), Value: value})
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
