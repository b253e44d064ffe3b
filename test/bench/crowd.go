package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// What a crowd must not cost, and what is measured of it.
const (
	crowdConns    = 512             // connections of an attack: as many as one source may have
	crowdSources  = 1000            // of an attack from many
	crowdMachines = 50              // introspected meanwhile through another source
	crowdRecords  = 2000            // machines that the tables have
	crowdWithin   = 2 * time.Minute // until all are introspected
	crowdLatency  = 1.0             // seconds: the goal of the 99th percentile
	crowdMemory   = 600             // MB
)

func crowdArea() Area {
	return Area{Name: "crowd", About: "every route asked through 512 connections, while machines are introspected",
		Measure: measureCrowd}
}

// crowd is a cluster under attack and the callers who ask honestly.
type crowd struct {
	*Bench
	cluster  fleet
	machines *machine.Fleet
	ironic   *simironic.Server
	nodes    []string
	honest   *http.Client

	mu   sync.Mutex
	took Sample         // of honest requests and callbacks
	said map[string]int // how honest requests were answered
}

// crowdRow is what one attack came to.
type crowdRow struct {
	p99     float64 // seconds
	memory  float64 // MB
	changes bool    // of leadership
	raw     string
}

func measureCrowd(ctx context.Context, b *Bench) (err error) {
	c, end, err := newCrowd(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, measure := range []func(context.Context) error{c.measureRamdisks, c.measureStorm, c.measureSessions} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	routes, err := c.routes(ctx)
	if err != nil {
		return err
	}
	worst, losses, attacks := crowdRow{}, 0, 0
	for _, r := range routes {
		if !b.Routes.MatchString(r.name()) {
			continue
		}
		for _, sources := range []int{1, crowdSources} {
			row, err := c.attack(ctx, r, sources)
			if err != nil {
				return fmt.Errorf("%s from %d sources: %w", r.name(), sources, err)
			}
			b.Report.Add(fmt.Sprintf("crowd.p99 %s from %d", r.name(), sources), row.p99, "s", AtMost(crowdLatency), row.raw)
			b.Say("%s from %d: p99 %.2f s; %s", r.name(), sources, row.p99, row.raw)
			attacks++
			if worst.p99, worst.memory = max(worst.p99, row.p99), max(worst.memory, row.memory); row.changes {
				losses++
			}
		}
	}
	b.Report.Add("crowd.leaderships_lost", float64(losses), "", AtMost(0), fmt.Sprintf("of %d attacks", attacks))
	b.Report.Add("crowd.memory", worst.memory, "MB", AtMost(crowdMemory), "the leader's peak")
	b.Report.Add("crowd.worst_p99", worst.p99, "s", AtMost(crowdLatency), "of callbacks, starts and statuses")
	return nil
}

// newCrowd makes the cluster, its Ironic and its machines.
func newCrowd(ctx context.Context, b *Bench) (c *crowd, end func() error, err error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return nil, nil, err
	}
	dir, err := b.Folder("crowd")
	if err != nil {
		return nil, nil, err
	}
	c = &crowd{Bench: b, said: make(map[string]int)}
	ironic := simironic.New(simironic.Options{OnPower: func(node, target string) { c.machines.Power(node, target) }})
	c.ironic = ironic
	lc := net.ListenConfig{}
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen for the Ironic in memory: %w", err)
	}
	web := newStub(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api") { // the webhook asks
			kubeInMemory(w, r)
			return
		}
		ironic.ServeHTTP(w, r)
	}))
	kubeconfig, err := writeKubeconfig(dir, ln.Addr().String())
	if err == nil {
		c.cluster, err = newFleet(ctx, binary, dir, map[string]string{
			"ironic.endpoint": "http://" + ln.Addr().String(), "lease.enabled": "true",
			"elector.listen": "raft=" + anyPort, "haconfig.listen": anyPort, "haconfig.via": "endpoints",
			"haconfig.kubeconfigs": "bench=" + kubeconfig,
		})
	}
	if err != nil {
		return nil, nil, errors.Join(err, web.close())
	}
	c.honest = &http.Client{Transport: timing{c}, Timeout: 30 * time.Second}
	c.machines = machine.NewFleet(machine.Options{
		Callbacks: c.urls("/v1/continue"), BootLeast: 100 * time.Millisecond, BootMost: time.Second, Client: c.honest,
		Logger: slog.New(slog.DiscardHandler),
	})
	end = func() error {
		c.machines.Close()
		err := errors.Join(c.cluster.end(), web.close())
		ironic.Close()
		return err
	}
	for n := range crowdMachines {
		m := machine.Number(0xc0, n, 1)
		c.machines.Add(m)
		if err := ironic.Enroll(simironic.Enrolment{UUID: m.UUID, BMC: m.BMC, MACs: m.MACs}); err != nil {
			return nil, nil, errors.Join(err, end())
		}
		c.nodes = append(c.nodes, m.UUID)
	}
	if err := c.populate(ctx); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return c, end, nil
}

// urls is a path on every peer.
func (c *crowd) urls(path string) (out []string) {
	for _, p := range c.cluster {
		out = append(out, "http://"+p.api+path)
	}
	return out
}

// populate fills the tables: what is asked for costs something then.
func (c *crowd) populate(ctx context.Context) error {
	at := time.Now().Add(-time.Hour)
	for range crowdRecords {
		r := admin.ImportedRecord{UUID: uuid.NewString(), State: "finished", StartedAt: &at, FinishedAt: &at,
			Processed: json.RawMessage(`{"inventory":{}}`)}
		if err := c.cluster[0].ask(ctx, http.MethodPost, "/v1/import/records", r, new(admin.ImportResult)); err != nil {
			return fmt.Errorf("import a record: %w", err)
		}
	}
	for range 4 { // events
		if err := c.introspect(ctx); err != nil {
			return err
		}
	}
	return nil
}

// timing takes the time of honest requests.
type timing struct{ c *crowd }

// RoundTrip implements http.RoundTripper.
func (t timing) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if r.Context().Err() != nil {
		return resp, err // of a ramdisk whose machine is off before it has its answer
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	t.c.took = append(t.c.took, time.Since(began))
	if err != nil {
		t.c.said["no answer"]++
		return resp, err
	}
	t.c.said[fmt.Sprint(r.Method, " ", resp.StatusCode)]++
	return resp, nil
}

// call sends an honest request and returns the status of its answer.
func (c *crowd) call(ctx context.Context, method, url string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("make a request: %w", err)
	}
	resp, err := c.honest.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// introspect introspects all machines, through every peer, as clients do: they repeat
// what got 503.
func (c *crowd) introspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, crowdWithin)
	defer cancel()
	for n, node := range c.nodes {
		url := "http://" + c.cluster[n%size].api + "/v1/introspection/" + node
		err := until(ctx, "the start of "+node, func() bool {
			status, _, err := c.call(ctx, http.MethodPost, url)
			return err == nil && (status == http.StatusAccepted || status == http.StatusConflict)
		})
		if err != nil {
			return err
		}
	}
	for n, node := range c.nodes {
		url := "http://" + c.cluster[n%size].api + "/v1/introspection/" + node
		err := until(ctx, "the end of "+node, func() bool {
			var s struct {
				Finished bool    `json:"finished"`
				Error    *string `json:"error"`
			}
			_, body, err := c.call(ctx, http.MethodGet, url)
			return err == nil && json.Unmarshal(body, &s) == nil && s.Finished && s.Error == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// attack asks the leader for one route, as fast as it answers, while all machines are
// introspected.
func (c *crowd) attack(ctx context.Context, r crowdRoute, sources int) (row crowdRow, err error) {
	if err := c.cluster.whole(ctx); err != nil {
		return row, err
	}
	leader, _, err := c.cluster.roles(ctx)
	if err != nil {
		return row, err
	}
	before, err := leader.status(ctx)
	if err != nil {
		return row, err
	}
	pid := leader.serving.Process.Pid
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200); err != nil {
		return row, fmt.Errorf("forget the peak of the leader's memory: %w", err)
	}
	c.mu.Lock()
	c.took, c.said = nil, make(map[string]int)
	c.mu.Unlock()
	a, err := c.begin(ctx, leader, r, sources)
	if err != nil {
		return row, err
	}
	used, err := cpuOf(pid)
	if err != nil {
		return row, err
	}
	attacking, quiet := context.WithCancel(ctx)
	var socket Sample
	var asking sync.WaitGroup
	asking.Go(func() { socket = leader.polled(attacking) })
	began := time.Now()
	err = c.introspect(ctx)
	took := time.Since(began)
	if err == nil {
		err = pause(ctx, c.Least-took)
	}
	quiet()
	lasted := time.Since(began)
	then, looked := cpuOf(pid)
	said, theirs, failed := a.end()
	asking.Wait()
	if err := errors.Join(err, looked, failed); err != nil {
		return row, err
	}
	if row.memory, err = rssOf(pid, "VmHWM"); err != nil {
		return row, err
	}
	after, err := leader.status(ctx)
	if err != nil {
		return row, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	row.changes = after.Token != before.Token
	row.p99 = c.took.Quantile(0.99).Seconds()
	row.raw = fmt.Sprintf(
		"%d honest requests, max %v, %v; all in %v; socket max %v; %.0f MB; leadership lost: %v; attack: %s; processors: leader %.0f%%, attacker %.0f%% of one",
		len(c.took), short(c.took.Max()), c.said, short(took), short(socket.Max()), row.memory, row.changes, said,
		(then-used).Seconds()/lasted.Seconds()*100, theirs.Seconds()/lasted.Seconds()*100)
	return row, nil
}

// polled asks for the status on the socket, again and again, and returns how long that
// took.
func (p *process) polled(ctx context.Context) (took Sample) {
	for pause(ctx, 100*time.Millisecond) == nil {
		began := time.Now()
		if _, err := p.status(ctx); err == nil || ctx.Err() == nil { // one that fails took its time, too
			took = append(took, time.Since(began))
		}
	}
	return took
}
