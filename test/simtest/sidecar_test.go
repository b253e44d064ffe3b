package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	apiclient "github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/lease/elector/sidecar"
)

// sidecarTTL is that of Kuryr's deployment.
const sidecarTTL = 5 * time.Second

// beside is a host without a peer: a program, and a candidate that runs, or not.
type beside struct {
	c    *Cluster
	name string

	mu      sync.Mutex
	gate    *Gate // of the candidate's process
	stop    context.CancelFunc
	ended   chan struct{}
	dead    chan struct{}      // closed by kill
	current *sidecar.Candidate // nil while none runs
}

// start runs a candidate.
func (b *beside) start() {
	gate := NewGate()
	over := roundTripper{b, gate}
	options := apiclient.Options{Servers: []string{"http://h1:5050", "http://h2:5050", "http://h3:5050"}, Transport: over,
		Random: source{b.c.rng}}
	lease, err := lease.New(lease.Options{API: options, Name: electedLease, Holder: b.name, TTL: sidecarTTL,
		Takeover: true, Now: b.now})
	b.c.must(err)
	reader, err := apiclient.New(options)
	b.c.must(err)
	candidate := sidecar.New(
		sidecar.Options{ID: b.name, Lease: electedLease, TTL: sidecarTTL, Acquirer: lease, Reader: reader, Now: b.now,
			Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := candidate.Run(ctx); err != nil {
			b.c.Oracle.broken("sidecar: %s: %v", b.name, err)
		}
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate, b.stop, b.ended, b.current, b.dead = gate, stop, ended, candidate, make(chan struct{})
}

func (b *beside) now() time.Duration { return time.Since(epoch) }

// kill ends the candidate as SIGKILL does: whoever waits for an answer is hung up on,
// and nothing is released.
func (b *beside) kill() {
	for _, p := range b.c.Peers {
		b.c.Net.CutBoth(b.name, p.Name)
	}
	b.mu.Lock()
	b.current = nil
	close(b.dead)
	b.mu.Unlock()
	b.gate.Resume()
	b.end() // what is left of it reaches nobody
	b.c.Net.HealAll()
}

// end is SIGTERM.
func (b *beside) end() {
	b.mu.Lock()
	stop, ended := b.stop, b.ended
	b.current = nil
	b.mu.Unlock()
	stop()
	<-ended // in a bubble
}

// says is the answer to the program beside it.
func (b *beside) says() (said, error) {
	b.mu.Lock()
	gate, candidate, dead := b.gate, b.current, b.dead
	b.mu.Unlock()
	if candidate == nil {
		return said{}, ErrRefused
	}
	if !gate.Wait(dead) {
		return said{}, ErrReset
	}
	now := b.now()
	w := candidate.Claim().At(now)
	return said{Name: w.Name, Token: w.Token.String(), ValidMs: (w.Until - now).Milliseconds(), at: time.Now()}, nil
}

// roundTripper carries HTTP over the simulated network, to the API of a peer.
type roundTripper struct {
	from *beside
	gate *Gate
}

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	to := r.from.c.Peer(req.URL.Hostname())
	r.gate.Wait(nil)
	answer, err := Call(req.Context(), r.from.c.Net, r.from.name, to.Name,
		func(ctx context.Context) (*http.Response, error) {
			core := to.Core()
			if core == nil {
				return nil, ErrRefused
			}
			w := httptest.NewRecorder()
			lending := &api.Inspector{Lending: core.Lending, Auth: api.NoAuth(), MaxLimit: 1000,
				Logger: slog.New(slog.DiscardHandler), StaleFor: func() time.Duration { return 0 }}
			health := api.Health{Checks: func() []api.HealthCheck { return nil }, Metrics: prometheus.NewRegistry()}
			asked := req.Clone(ctx)
			asked.Body = io.NopCloser(bytes.NewReader(body))
			api.Public(health, lending).ServeHTTP(w, asked)
			return w.Result(), nil
		})
	r.gate.Wait(nil)
	if err != nil {
		return nil, errors.Join(err, req.Context().Err())
	}
	answer.Request = req
	return answer, nil
}

// TestPollersBesideSidecars are Kuryr's, on three hosts without a peer, while leaders
// are lost and candidates are killed, stopped, cut off and ended in order.
func TestPollersBesideSidecars(t *testing.T) {
	const changes = 65 // in both runs together a hundred grants, and more
	for i := range uint64(2) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, 130+i)
				defer c.end()
				c.start()
				c.settle(0)
				c.besides(changes)
			})
		})
	}
}

func (c *Cluster) besides(changes int) {
	var hosts []*beside
	var pollers []*poller
	h := &heard{c: c}
	done := make(chan struct{})
	var running sync.WaitGroup
	for n := range 3 {
		b := &beside{c: c, name: fmt.Sprintf("pod-%d", n)}
		b.start()
		hosts = append(hosts, b)
		p := &poller{name: b.name, ask: func() (string, error) { s, err := b.says(); return s.Name, err }}
		pollers = append(pollers, p)
		running.Go(func() { p.run(done, time.Duration(c.rng.Int64N(int64(pollerPause)))) })
		running.Go(func() {
			for sleeps(done, 40*time.Millisecond) {
				if s, err := b.says(); err == nil {
					h.noteToken(b.name, s)
				}
			}
		})
	}
	losses := Losses()
	for i := range changes {
		time.Sleep(time.Duration(c.rng.Int64N(int64(3 * pollerPause)))) // in a bubble
		if i%5 == 4 {
			c.Lose(losses[i/5%len(losses)])
			continue
		}
		c.strikeHolder(hosts, i)
	}
	close(done)
	for _, b := range hosts {
		b.end()
	}
	running.Wait()
	longest, active, who := together(pollers)
	if longest > pollerPause {
		c.Oracle.broken("elector-pollers: %s two pollers are active for %v, a poll is %v", who, longest, pollerPause)
	}
	if len(h.names) < changes/4 || active < time.Minute {
		c.T.Errorf("%d grants were named, pollers were active for %v: this is no test", len(h.names), active)
	}
	c.T.Logf("%d answers, %d grants were named; two pollers active for at most %v, one for %v in all", h.count,
		len(h.names), longest, active.Round(time.Second))
}

// noteToken compares a name with what was said under the same token.
func (h *heard) noteToken(by string, s said) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	if s.Name == "" {
		return
	}
	if h.names == nil {
		h.names = make(map[string]string)
	}
	if other, known := h.names[s.Token]; known && other != s.Name {
		h.c.Oracle.broken("elector-one-name-a-token: %s names %s under token %s, which was said to be %s", by, s.Name,
			s.Token, other)
	}
	h.names[s.Token] = s.Name
}

// strikeHolder does something to the host that holds the lease, and mends it.
func (c *Cluster) strikeHolder(hosts []*beside, n int) {
	var b *beside
	for _, one := range hosts {
		if s, err := one.says(); err == nil && s.Name == one.name {
			b = one
		}
	}
	if b == nil {
		return
	}
	switch n % 4 {
	case 0: // it cannot reach the peers
		for _, p := range c.Peers {
			c.Net.CutBoth(b.name, p.Name)
		}
		time.Sleep(2 * sidecarTTL) // in a bubble
		c.Net.HealAll()
	case 1: // SIGTERM, and started anew
		b.end()
		b.start()
	case 2: // SIGSTOP, for as long as a poller without a limit of its own can bear
		b.gate.Pause()
		time.Sleep(time.Duration(c.rng.Int64N(int64(stopLimit)))) // in a bubble
		b.gate.Resume()
	case 3: // SIGSTOP, and killed by whoever probes it
		b.gate.Pause()
		time.Sleep(probeKills) // in a bubble
		b.kill()
		b.start()
	}
}

const (
	// stopLimit is for how long a candidate may be stopped: its own poller hangs
	// meanwhile, since Kuryr's waits for its answer as long as it takes, and another
	// may be elected two thirds of a ttl after the stop, or a little earlier.
	stopLimit = pollerPause + sidecarTTL/2
	// probeKills is how long a probe each two seconds, of one second, takes to have a
	// container killed that was stopped.
	probeKills = 3 * time.Second
)

var _ elector.Source = (*sidecar.Candidate)(nil)
