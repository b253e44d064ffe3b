package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
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
		Name: "api",
		About: fmt.Sprintf(
			"three processes with mutual TLS and logs on disk, %d workers each; Ironic in memory; %d clients", apiWorkers,
			apiClients),
		Measure: measureAPI,
	}
}

// apiSite is what the measurements of the area work with.
type apiSite struct {
	bench    *Bench
	fleet    fleet
	rack     *rack
	original *original // measured in turns; nil: it cannot be
	without  error     // why not
}

func measureAPI(ctx context.Context, b *Bench) (err error) {
	s, err := newAPISite(ctx, b, "api", b.Nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.original, s.without = newOriginal(ctx, b); s.without == nil {
		defer func() { err = errors.Join(err, s.original.end()) }()
	}
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
	return s.against(ctx, "api.start_per_s", 60, (*original).starts, func(c *webConn, n int) (status int, err error) {
		status, _, err = c.do(http.MethodPost, "/v1/introspection/"+s.rack.machines[n].UUID, nil)
		return status, err
	}, http.StatusAccepted, "waiting", func() bool { return s.rack.on.Load() >= int64(s.bench.Nodes) })
}

// callbacks posts every node's data: from the first POST until the last is
// finished and switched off.
func (s *apiSite) callbacks(ctx context.Context) error {
	return s.against(ctx, "api.continue_per_s", 50, (*original).callbacks,
		func(c *webConn, n int) (status int, err error) {
			status, _, err = c.do(http.MethodPost, "/v1/continue", s.rack.documents[n])
			return status, err
		}, http.StatusOK, "finished", func() bool { return s.rack.off.Load() >= int64(s.bench.Nodes) })
}

// against makes a request for every node, and reports the rate divided by that of a
// turn of the original before it and one after.
func (s *apiSite) against(ctx context.Context, name string, times float64,
	turn func(*original, context.Context) (float64, error), post func(c *webConn, n int) (int, error), want int,
	state string, quick func() bool) error {
	var rate, originals float64
	var raw string
	ours := func() (err error) {
		rate, raw, err = s.each(ctx, post, want, state, quick)
		return err
	}
	var err error
	if s.original == nil {
		err = ours()
	} else {
		originals, err = beside(ctx, func(ctx context.Context) (float64, error) { return turn(s.original, ctx) }, ours)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.report(name, times, rate, originals, raw)
	return nil
}

// report adds a rate divided by the original's, or why there is none.
func (s *apiSite) report(name string, times, rate, original float64, raw string) {
	if s.original == nil {
		s.bench.Report.Skip(name, "x", AtLeast(times), fmt.Sprintf("%v; %.0f/s: %s", s.without, rate, raw))
		return
	}
	s.bench.Report.Add(name, rate/original, "x", AtLeast(times),
		fmt.Sprintf("%.0f/s (ironic-inspector %s %.0f/s): %s", rate, s.original.version, original, raw))
}

// each makes a request for every node, waits until all are in a state, and returns how
// many were a second. quick spares the peers questions as long as it is false.
func (s *apiSite) each(ctx context.Context, post func(c *webConn, n int) (int, error), want int, state string,
	quick func() bool) (rate float64, raw string, err error) {
	var next, busy atomic.Int64
	next.Store(-1)
	before, began := s.usage(ctx), time.Now()
	profiled := s.fleet.profile(ctx, s.bench, state)
	defer func() { err = errors.Join(err, profiled()) }()
	err = s.crowd(ctx, func(ctx context.Context, c *webConn) error {
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
		return 0, "", err
	}
	took := time.Since(began)
	return float64(s.bench.Nodes) / took.Seconds(), fmt.Sprintf("%d in %v; %s; answered 503: %d",
		s.bench.Nodes, short(took), s.usage(ctx).since(before).each(s.bench.Nodes, began), busy.Load()), nil
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

// crowd runs a function on every connection to the peers at once and waits for all.
func (s *apiSite) crowd(ctx context.Context, run func(ctx context.Context, c *webConn) error) error {
	return together(ctx, s.addresses(), apiClients, run)
}

func (s *apiSite) addresses() (all []string) {
	for _, p := range s.fleet {
		all = append(all, p.api)
	}
	return all
}

// together runs a function on so many connections at once, spread over the addresses, and
// waits for all.
func together(ctx context.Context, addresses []string, clients int,
	run func(ctx context.Context, c *webConn) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			c, err := dialWeb(addresses[n%len(addresses)])
			if err == nil {
				err = errors.Join(run(ctx, c), c.close())
			}
			if err != nil {
				cancel(fmt.Errorf("client %d: %w", n, err))
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// await waits until every node is in a state. Nobody may have failed.
func (s *apiSite) await(ctx context.Context, state string, quick func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, apiLimit)
	defer cancel()
	others := slices.DeleteFunc([]string{"starting", "waiting", "processing", "error"},
		func(o string) bool { return o == state })
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
	s.bench.Report.Add("api.memory_mb", max(first, later), "MB", AtMost(150),
		fmt.Sprintf("%d nodes of %d KB; the three peers when the last was finished: %s; %v later: %s", s.bench.Nodes,
			s.rack.bytes/s.bench.Nodes>>10, raw, settle, rawLater))
	return nil
}

// statuses keeps clients asking for the status of nodes, of the peers and of the
// original in turns.
func (s *apiSite) statuses(ctx context.Context) error {
	const name, times = "api.status_per_s", 60
	var rates, originals []float64
	var raw string // of the last round
	for round := range statusRounds {
		before := s.usage(ctx)
		profiled := s.fleet.profile(ctx, s.bench, "status")
		rate, err := askForStatus(ctx, s.addresses(), apiClients, s.rack.machines, uint64(round))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := profiled(); err != nil {
			return err
		}
		rates, raw = append(rates, rate), s.usage(ctx).since(before).each(int(rate*statusTime.Seconds()), before.at)
		if s.original == nil {
			continue
		}
		rate, err = s.original.statuses(ctx, round)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		originals = append(originals, rate)
	}
	original := 0.0
	if len(originals) > 0 {
		original = median(originals)
	}
	s.report(name, times, median(rates), original, fmt.Sprintf("median of %d rounds, linearizable; %s", statusRounds, raw))
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
	s.bench.Report.Add(name+"_s", times.P50().Seconds(), "s", AtMost(0.3),
		fmt.Sprintf("pages of %d from each peer in turn: %v", apiPage, times))
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
