package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

const (
	// growthSteps is how often the number of machines grows tenfold: the greatest is
	// ten times -nodes, the least a thousandth of that.
	growthSteps = 4
	// importers, pagesRead and statusesRead are how many records are written at once, and
	// how often is read; medians are of so many.
	importers    = 16
	pagesRead    = 15
	statusesRead = 300
	// growthLimit bounds one step.
	growthLimit = 30 * time.Minute
	// snapshotLog is what is logged between two snapshots of a peer, padding how much of it
	// is one entry's, and snapshotWait how long a snapshot may take to be there. Commits
	// are looked at for quietTime without one.
	snapshotLog  = 64 << 20
	padding      = 4 << 10
	quietTime    = 2 * time.Second
	snapshotWait = 3 * time.Minute
)

func growthArea() Area {
	return Area{
		Name:    "growth",
		About:   "one process with more and more reports, then a second that joins it",
		Measure: measureGrowth,
	}
}

// grown is what a number of machines costs.
type grown struct {
	nodes         int
	memory        float64 // MB of the peer
	page, status  Sample
	ready, joined time.Duration
	before, pause time.Duration // longest commit, alone and while a snapshot is written
	terms         uint64        // begun while the second joined
}

func measureGrowth(ctx context.Context, b *Bench) error {
	var all []grown
	nodes := 10 * b.Nodes
	for range growthSteps - 1 {
		nodes /= 10
	}
	for range growthSteps {
		b.Say("growth: %d machines", nodes)
		g, err := grow(ctx, b, nodes)
		if err != nil {
			return fmt.Errorf("%d machines: %w", nodes, err)
		}
		all, nodes = append(all, g), nodes*10
	}
	reportGrowth(b, all)
	return writePlot(filepath.Join(filepath.Dir(b.Out), "growth.svg"), all)
}

func grow(ctx context.Context, b *Bench, nodes int) (g grown, err error) {
	ctx, cancel := context.WithTimeout(ctx, growthLimit)
	defer cancel()
	s, err := newGrowing(ctx, b, nodes)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	g.nodes = nodes
	for _, step := range []func(context.Context, *grown) error{s.fill, s.read, s.snapshot, s.restart, s.join} {
		if err := step(ctx, &g); err != nil {
			return g, err
		}
	}
	return g, nil
}

// growing is a peer, the Ironic that knows its machines, and a peer that joins it.
type growing struct {
	bench    *Bench
	dir      string
	binary   string
	settings map[string]string
	machines []machine.Machine
	ironic   *simironic.Server
	web      *stub
	first    *process
	second   *process
}

func newGrowing(ctx context.Context, b *Bench, nodes int) (s *growing, err error) {
	s = &growing{bench: b, ironic: simironic.New(simironic.Options{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	random := rand.New(rand.NewPCG(1, 2)) // the same machines in every run
	for n := range nodes {
		m := hardware(random, n)
		if err := s.ironic.Enroll(simironic.Enrolment{UUID: m.UUID, BMC: m.BMC, MACs: m.MACs[:1]}); err != nil {
			return s, err
		}
		s.machines = append(s.machines, m)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return s, fmt.Errorf("listen for the Ironic in memory: %w", err)
	}
	s.web, s.settings = newStub(ln, s.ironic), map[string]string{"ironic.endpoint": "http://" + ln.Addr().String()}
	if s.dir, err = b.Folder(fmt.Sprintf("growth-%d", nodes)); err != nil {
		return s, err
	}
	if s.binary, err = b.Binary(ctx); err != nil {
		return s, err
	}
	if s.first, err = newProcess(s.binary, s.dir, "peer1", s.settings); err != nil {
		return s, err
	}
	if _, err = s.first.command(ctx, "init", "-q"); err != nil {
		return s, err
	}
	if err = s.first.serve(); err != nil {
		return s, err
	}
	return s, s.first.awaitReady(ctx, 0)
}

func (s *growing) close() (err error) {
	for _, p := range []*process{s.first, s.second} {
		if p != nil {
			err = errors.Join(err, p.end())
		}
	}
	if s.web != nil {
		err = errors.Join(err, s.web.close())
	}
	s.ironic.Close()
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir)) // gigabytes, before the next step
	}
	return err
}

// fill records a finished introspection of every machine, with what its ramdisk sent and
// what became of that.
func (s *growing) fill(ctx context.Context, g *grown) error {
	ended := time.Now()
	err := each(len(s.machines), func(n int) error {
		m := s.machines[n]
		document := json.RawMessage(machine.Inventory(m))
		in := admin.ImportedRecord{UUID: m.UUID, State: "finished", StartedAt: &ended, FinishedAt: &ended, ManageBoot: true,
			Unprocessed: document, Processed: document}
		return s.first.ask(ctx, http.MethodPost, "/v1/import/records", in, new(admin.ImportResult))
	})
	if err != nil {
		return fmt.Errorf("record the machines: %w", err)
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	g.memory, err = rssAnon(s.first.serving.Process.Pid)
	return err
}

// each calls f for the numbers below n, some at once, until one fails.
func each(n int, f func(int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make([]error, importers)
	for worker := range importers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && failed[worker] == nil; i = next.Add(1) - 1 {
				failed[worker] = f(int(i))
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// read reads pages of the list from random places, and the status of random machines.
func (s *growing) read(ctx context.Context, g *grown) error {
	c, err := dialWeb(s.first.api)
	if err != nil {
		return err
	}
	defer c.close()
	random := rand.New(rand.NewPCG(3, 4))
	timed := func(into *Sample, times int, path func(uuid string) string) error {
		for range times {
			began := time.Now()
			status, answer, err := c.do(http.MethodGet, path(s.machines[random.IntN(len(s.machines))].UUID), nil)
			if err != nil {
				return err
			}
			if status != http.StatusOK {
				return fmt.Errorf("answered %d: %s", status, answer)
			}
			*into = append(*into, time.Since(began))
		}
		return context.Cause(ctx)
	}
	err = timed(&g.page, pagesRead, func(uuid string) string {
		if g.nodes <= apiPage {
			return fmt.Sprintf("/v1/introspection?limit=%d", apiPage)
		}
		return fmt.Sprintf("/v1/introspection?limit=%d&marker=%s", apiPage, uuid)
	})
	return errors.Join(err, timed(&g.status, statusesRead,
		func(uuid string) string { return "/v1/introspection/" + uuid }))
}

// snapshot takes how long a commit may have to wait while the peer writes a snapshot. First
// it has one written, so that the next is due after as many bytes as are known.
func (s *growing) snapshot(ctx context.Context, g *grown) error {
	had, err := s.snapshots()
	if err != nil {
		return err
	}
	have, limit := had, time.Now().Add(snapshotWait)
	for have == had {
		if err := s.log(ctx, snapshotLog/8); err != nil {
			return err
		}
		if have, err = s.snapshots(); err == nil && time.Now().After(limit) {
			err = errors.New("no snapshot was written")
		}
		if err != nil {
			return err
		}
	}
	if err := s.log(ctx, snapshotLog*7/8); err != nil {
		return err
	}
	quiet := time.Now().Add(quietTime)
	if g.before, err = s.longest(ctx, func() (bool, error) { return time.Now().After(quiet), nil }); err != nil {
		return err
	}
	limit = time.Now().Add(snapshotWait)
	var there time.Time // what it covers is deleted from the log after it
	g.pause, err = s.longest(ctx, func() (bool, error) {
		newest, err := s.snapshots()
		if newest != have && there.IsZero() {
			there = time.Now()
		}
		if err == nil && there.IsZero() && time.Now().After(limit) {
			err = errors.New("no other snapshot was written")
		}
		return !there.IsZero() && time.Since(there) > quietTime, err
	})
	return err
}

// pad writes one entry that fills the log.
func (s *growing) pad(ctx context.Context) error {
	return s.first.ask(ctx, http.MethodPut, "/v1/settings/user.padding",
		admin.Setting{Value: strings.Repeat("x", padding)}, new(admin.Setting))
}

// log fills the log with so many bytes.
func (s *growing) log(ctx context.Context, bytes int) error {
	if err := each(bytes/padding, func(int) error { return s.pad(ctx) }); err != nil {
		return fmt.Errorf("fill the log: %w", err)
	}
	return nil
}

// longest commits one entry after the other, and returns what the slowest took.
func (s *growing) longest(ctx context.Context, until func() (bool, error)) (longest time.Duration, err error) {
	for {
		if done, err := until(); done || err != nil {
			return longest, err
		}
		began := time.Now()
		if err := s.pad(ctx); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(began))
	}
}

// snapshots names the newest snapshot on disk; one that is being written does not count.
func (s *growing) snapshots() (newest string, err error) {
	entries, err := os.ReadDir(filepath.Join(s.first.dir, "peer", "raft", "snapshots"))
	if err != nil {
		return "", fmt.Errorf("look for snapshots: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".tmp") {
			newest = max(newest, e.Name())
		}
	}
	return newest, nil
}

// restart stops the peer in order and takes the time until it is ready again.
func (s *growing) restart(ctx context.Context, g *grown) error {
	if _, err := s.first.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := s.first.reap(); err != nil {
		return err
	}
	began := time.Now()
	if err := s.first.serve(); err != nil {
		return err
	}
	err := s.first.awaitReady(ctx, 0)
	g.ready = time.Since(began)
	return err
}

// join has a second peer join, which takes a snapshot to install, and takes the time until
// it is ready with all that the first had.
func (s *growing) join(ctx context.Context, g *grown) (err error) {
	before, err := s.first.status(ctx)
	if err != nil {
		return err
	}
	token, err := s.first.command(ctx, "token", "create", "-q")
	if err != nil {
		return err
	}
	if s.second, err = newProcess(s.binary, s.dir, "peer2", s.settings); err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.second.command(ctx, "join", s.first.address, "--token", token); err != nil {
		return err
	}
	if err := s.second.serve(); err != nil {
		return err
	}
	if err := s.second.awaitReady(ctx, before.Index); err != nil {
		return err
	}
	g.joined = time.Since(began)
	after, err := s.first.status(ctx)
	g.terms = after.Term - before.Term
	return err
}
