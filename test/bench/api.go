package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What one process of ironic-inspector 11.1.0 (Debian 12) did with the same
// documents and an Ironic in memory as well, a second, on a machine with two
// processors that did nothing else. It used all of one: everything runs in one
// eventlet thread.
const (
	originalStarts    = 48  // 20 ms of CPU each
	originalCallbacks = 26  // 35 ms
	originalStatuses  = 784 // 1.3 ms
)

const (
	apiWorkers = 32   // inspection.workers: calls of Ironic wait for BMCs
	apiClients = 96   // connections, a third to each peer
	apiPage    = 1000 // api_max_limit's default
	apiLists   = 9

	statusRounds = 5
	statusTime   = 5 * time.Second

	apiLimit = 5 * time.Minute // for all nodes to end
	apiPoll  = 50 * time.Millisecond
	busyWait = 20 * time.Millisecond // after an answer 503
)

func apiArea() Area {
	return Area{
		Name:    "api",
		About:   fmt.Sprintf("three processes with mutual TLS and logs on disk, %d workers each; Ironic in memory; %d clients", apiWorkers, apiClients),
		Measure: measureAPI,
	}
}

// apiSite is what the measurements of the area work with.
type apiSite struct {
	bench *Bench
	fleet fleet
	rack  *rack
}

func measureAPI(ctx context.Context, b *Bench) (err error) {
	s, err := newAPISite(ctx, b, "api", b.Nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, part := range []func(context.Context) error{s.starts, s.callbacks, s.memory, s.statuses, s.lists} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newAPISite starts the peers and an Ironic that knows so many nodes.
func newAPISite(ctx context.Context, b *Bench, area string, nodes int) (*apiSite, error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := b.Folder(area)
	if err != nil {
		return nil, err
	}
	rack, err := newRack(ctx, nodes)
	if err != nil {
		return nil, err
	}
	cluster, err := newFleet(ctx, binary, dir, map[string]string{
		"ironic.endpoint": rack.url, "inspection.workers": fmt.Sprint(apiWorkers),
	})
	if err != nil {
		return nil, errors.Join(err, rack.close())
	}
	return &apiSite{bench: b, fleet: cluster, rack: rack}, nil
}

func (s *apiSite) close() error { return errors.Join(s.fleet.end(), s.rack.close()) }

// starts introspects every node: from the first POST until the last one waits
// for its ramdisk.
func (s *apiSite) starts(ctx context.Context) error {
	return s.each(ctx, "api.start_per_s", originalStarts, 20, func(c *webConn, n int) (status int, err error) {
		status, _, err = c.do(http.MethodPost, "/v1/introspection/"+s.rack.machines[n].UUID, nil)
		return status, err
	}, http.StatusAccepted, "waiting", func() bool { return s.rack.on.Load() >= int64(s.bench.Nodes) })
}

// callbacks posts every node's data: from the first POST until the last is
// finished and switched off.
func (s *apiSite) callbacks(ctx context.Context) error {
	return s.each(ctx, "api.continue_per_s", originalCallbacks, 15, func(c *webConn, n int) (status int, err error) {
		status, _, err = c.do(http.MethodPost, "/v1/continue", s.rack.documents[n])
		return status, err
	}, http.StatusOK, "finished", func() bool { return s.rack.off.Load() >= int64(s.bench.Nodes) })
}

// each makes a request for every node, waits until all are in a state, and
// reports the rate. quick spares the peers questions as long as it is false.
func (s *apiSite) each(ctx context.Context, name string, original, times float64, post func(c *webConn, n int) (int, error), want int, state string, quick func() bool) error {
	var next, busy atomic.Int64
	next.Store(-1)
	before, began := s.usage(ctx), time.Now()
	err := s.crowd(ctx, func(ctx context.Context, c *webConn) error {
		for n := int(next.Add(1)); n < s.bench.Nodes && ctx.Err() == nil; n = int(next.Add(1)) {
			refused, err := insist(ctx, func() (int, error) { return post(c, n) }, want)
			busy.Add(int64(refused))
			if err != nil {
				return fmt.Errorf("%w: %s", err, c.answer)
			}
		}
		return nil
	})
	if err == nil {
		err = s.await(ctx, state, quick)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began)
	rate := float64(s.bench.Nodes) / took.Seconds()
	s.bench.Report.Add(name, rate/original, "x", AtLeast(times), fmt.Sprintf(
		"%d in %v: %.0f/s (the original %.0f/s); %s; answered 503: %d", s.bench.Nodes, short(took), rate, original, s.usage(ctx).since(before).each(s.bench.Nodes, began), busy.Load()))
	return nil
}

// insist repeats a request that is answered 503, as clients do, and returns how
// often it was.
func insist(ctx context.Context, post func() (int, error), want int) (refused int, err error) {
	for {
		status, err := post()
		switch {
		case err != nil:
			return refused, err
		case status == want:
			return refused, nil
		case status != http.StatusServiceUnavailable:
			return refused, fmt.Errorf("answered %d, not %d", status, want)
		}
		refused++
		select {
		case <-time.After(busyWait):
		case <-ctx.Done():
			return refused, context.Cause(ctx)
		}
	}
}

// crowd runs a function on every connection at once and waits for all.
func (s *apiSite) crowd(ctx context.Context, run func(ctx context.Context, c *webConn) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var clients sync.WaitGroup
	for n := range apiClients {
		clients.Go(func() {
			c, err := dialWeb(s.fleet[n%len(s.fleet)].api)
			if err == nil {
				err = errors.Join(run(ctx, c), c.close())
			}
			if err != nil {
				cancel(fmt.Errorf("client %d: %w", n, err))
			}
		})
	}
	clients.Wait()
	return context.Cause(ctx)
}

// await waits until every node is in a state. Nobody may have failed.
func (s *apiSite) await(ctx context.Context, state string, quick func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, apiLimit)
	defer cancel()
	others := slices.DeleteFunc([]string{"starting", "waiting", "processing", "error"}, func(o string) bool { return o == state })
	tick := time.NewTicker(apiPoll)
	defer tick.Stop()
	for {
		if quick() {
			if rest, err := s.any(others); err != nil || rest == "" {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			rest, err := s.any(others)
			return fmt.Errorf("not all are %s: %w; %s", state, errors.Join(context.Cause(ctx), err), rest)
		}
	}
}

// any returns a node that is in one of the states, "" if none is.
func (s *apiSite) any(states []string) (node string, err error) {
	c, err := dialWeb(s.fleet[0].api)
	if err != nil {
		return "", err
	}
	defer c.close()
	for _, state := range states {
		status, answer, err := c.do(http.MethodGet, "/v1/introspection?limit=1&state="+state, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("list: answered %d: %s", status, answer)
		}
		if err != nil {
			return "", err
		}
		if node := lastID(answer); node != "" && state != "error" {
			return node, nil
		} else if node != "" {
			return node, fmt.Errorf("a node failed: %s", answer)
		}
	}
	return "", nil
}

// lastID returns the UUID of the last record in a list, "" if it is empty.
func lastID(list []byte) string {
	const key, length = `"uuid":"`, 36
	at := bytes.LastIndex(list, []byte(key))
	if at < 0 || len(list) < at+len(key)+length {
		return ""
	}
	return string(list[at+len(key):][:length])
}

// memory looks at the peers while they hold every node's data: at once, since
// memory that is free goes back to the system only by and by, and later.
func (s *apiSite) memory(ctx context.Context) error {
	first, raw, err := s.fleet.memory()
	if err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	later, rawLater, err := s.fleet.memory()
	if err != nil {
		return err
	}
	s.bench.Report.Add("api.memory_mb", max(first, later), "MB", AtMost(250),
		fmt.Sprintf("%d nodes of %d KB; the three peers when the last was finished: %s; %v later: %s", s.bench.Nodes, s.rack.bytes/s.bench.Nodes>>10, raw, settle, rawLater))
	return nil
}

// statuses keeps every client asking for the status of nodes.
func (s *apiSite) statuses(ctx context.Context) error {
	const name, times = "api.status_per_s", 15
	var rates []float64
	var asked int64
	before := s.usage(ctx)
	for round := range statusRounds {
		var done atomic.Int64
		began := time.Now()
		err := s.crowd(ctx, func(ctx context.Context, c *webConn) error {
			dice := rand.New(rand.NewPCG(uint64(round), rand.Uint64()))
			for time.Since(began) < statusTime && ctx.Err() == nil {
				status, answer, err := c.do(http.MethodGet, "/v1/introspection/"+s.rack.machines[dice.IntN(s.bench.Nodes)].UUID, nil)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("answered %d: %s", status, answer)
				}
				if err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rates = append(rates, float64(done.Load())/time.Since(began).Seconds())
		asked += done.Load()
	}
	s.bench.Report.Add(name, median(rates)/originalStatuses, "x", AtLeast(times), fmt.Sprintf(
		"median of %d rounds: %.0f/s, linearizable (the original %d/s); %s", statusRounds, median(rates), originalStatuses, s.usage(ctx).since(before).each(int(asked), before.at)))
	return nil
}

// lists reads the list of all records, page by page, from each peer in turn.
func (s *apiSite) lists(ctx context.Context) error {
	const name = "api.list_10000"
	var times Sample
	for n := range apiLists {
		took, err := s.list(ctx, s.fleet[n%len(s.fleet)])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		times = append(times, took)
	}
	s.bench.Report.Add(name+"_s", times.P50().Seconds(), "s", AtMost(0.3), fmt.Sprintf("pages of %d from each peer in turn: %v (the original 1.8 s)", apiPage, times))
	return nil
}

func (s *apiSite) list(ctx context.Context, p *process) (time.Duration, error) {
	c, err := dialWeb(p.api)
	if err != nil {
		return 0, err
	}
	defer c.close()
	began, records, marker := time.Now(), 0, ""
	for ctx.Err() == nil {
		status, answer, err := c.do(http.MethodGet, fmt.Sprintf("/v1/introspection?limit=%d%s", apiPage, marker), nil)
		if err != nil {
			return 0, err
		}
		if status != http.StatusOK {
			return 0, fmt.Errorf("answered %d: %s", status, answer)
		}
		here := bytes.Count(answer, []byte(`"uuid"`))
		records += here
		if here < apiPage {
			break
		}
		marker = "&marker=" + lastID(answer)
	}
	took := time.Since(began)
	if records != s.bench.Nodes {
		return 0, errors.Join(context.Cause(ctx), fmt.Errorf("%s lists %d records, not %d", p.name, records, s.bench.Nodes))
	}
	return took, nil
}
