//go:build e2e

package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/plot"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// The load of a large site; the short form has that of a small one.
const (
	soakMachines, shortMachines = 10_000, 400
	soakBurst, shortBurst       = 200, 20
	// soakInspected is how many bursts there are until the same machines are inspected
	// again: what is stored of them levels off then.
	soakInspected = 3
	soakDocument  = 1 << 20
	soakPollers   = 50
	soakHolders   = 100
	soakStreams   = 10
	soakShort     = 40 * time.Second
	soakSample    = time.Second // between two samples
	// soakFault is between two faults, each of which lasts shortFault at most.
	soakFault = 20 * time.Second
)

// sample is what the peers hold at one moment: of each quantity the most that one has.
type sample struct {
	at                                                  time.Time
	memory, heap, goroutines, descriptors, files, bytes float64
}

// soak is the load on a cluster and what was measured.
type soak struct {
	*cluster
	burst     int
	samples   []sample
	mu        sync.Mutex // guards latencies
	latencies []float64  // ms, of the window
	asked     atomic.Int64
	refused   atomic.Int64
	started   atomic.Int64
}

// TestSoak: under the load of a large site, and with faults, memory, goroutines,
// descriptors and files level off.
func TestSoak(t *testing.T) {
	testenv.NeedRoot(t, "ip", "tc", "nft", "mount", "umount", "mkfs.ext4")
	buildTrivet(t)
	total, machines, burst := duration(t, "TRIVET_SOAK", soakShort), soakMachines, soakBurst
	if total <= soakShort {
		machines, burst = shortMachines, shortBurst
	}
	s := &soak{burst: burst, cluster: newCluster(t, site{machines: machines, document: soakDocument, roomy: true},
		"TRIVET_INSPECTION_TIMEOUT=2m")}
	ctx, stop := context.WithTimeout(t.Context(), total)
	defer stop()
	var running sync.WaitGroup
	s.load(ctx, &running)
	windows := s.watch(ctx)
	running.Wait()
	s.WaitVoters(3)
	s.judge(total)
	if path := os.Getenv("TRIVET_SOAK_PLOT"); path != "" {
		s.draw(path, windows)
	}
}

// buildTrivet builds the program, unless it was named.
func buildTrivet(t *testing.T) {
	t.Helper()
	if os.Getenv(labtest.BinaryEnv) != "" {
		return
	}
	binary := filepath.Join(t.TempDir(), "trivet")
	if out, err := program.Go("build", "-o", binary, "github.com/trivet-ha/trivet").CombinedOutput(); err != nil {
		t.Fatalf("build trivet: %v\n%s", err, out)
	}
	t.Setenv(labtest.BinaryEnv, binary)
}

// load starts everything that asks; it ends with ctx.
func (s *soak) load(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() { s.inspect(ctx) })
	for i := range soakPollers {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		running.Go(func() {
			for testwait.Rest(ctx, time.Duration(100+rng.IntN(300))*time.Millisecond) {
				s.poll(rng)
			}
		})
	}
	for i := range soakHolders {
		rng := rand.New(rand.NewPCG(2, uint64(i)))
		running.Go(func() { s.hold(ctx, rng, fmt.Sprintf("lease-%d", i)) })
	}
	for i := range soakStreams {
		f := &follower{clients: &clients{cluster: s.cluster}, rng: rand.New(rand.NewPCG(3, uint64(i))), last: "0",
			forgets: true}
		running.Go(func() { f.run(ctx) })
	}
}

// inspect starts a burst of machines as soon as the one before has had time to end.
func (s *soak) inspect(ctx context.Context) {
	for round := 0; ; round++ {
		var starting sync.WaitGroup
		for i := range s.burst {
			m := s.machines[(round%soakInspected*s.burst+i)%len(s.machines)]
			starting.Go(func() {
				reply, err := s.ask(nil, s.Peers[i%len(s.Peers)],
					request{method: http.MethodPost, path: "/v1/introspection/" + m.UUID})
				if err == nil && reply.Status == http.StatusAccepted {
					s.started.Add(1)
				}
			})
		}
		starting.Wait()
		if !testwait.Rest(ctx, time.Duration(s.burst)*100*time.Millisecond) {
			return
		}
	}
}

// poll asks one of what clients look at, and measures.
func (s *soak) poll(rng *rand.Rand) {
	node := s.machines[rng.IntN(len(s.machines))].UUID
	path := []string{"/v1/introspection?limit=50", "/v1/introspection/" + node, "/v1/status", "/v1/leases?limit=20",
		"/v1/introspection?state=error&limit=10"}[rng.IntN(5)]
	began := time.Now()
	reply, err := s.ask(rng, nil, request{method: http.MethodGet, path: path})
	s.asked.Add(1)
	if err != nil {
		s.refused.Add(1)
		return
	}
	if reply.Status != http.StatusOK && reply.Status != http.StatusNotFound {
		s.t.Errorf("GET %s: answered %d %s", path, reply.Status, reply.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latencies = append(s.latencies, float64(time.Since(began).Microseconds())/1000)
}

// hold keeps a lease, acquires it again when it is over, and writes under it.
func (s *soak) hold(ctx context.Context, rng *rand.Rand, name string) {
	put := func(path string, header map[string]string, in any) (leaseBody, int) {
		body, err := json.Marshal(in)
		if err != nil {
			panic(err) // strings and numbers
		}
		reply, err := s.ask(rng, nil, request{method: http.MethodPut, path: path, header: header, body: body})
		var out leaseBody
		if err != nil || json.Unmarshal(reply.Body, &out) != nil {
			return out, 0
		}
		return out, reply.Status
	}
	for ctx.Err() == nil {
		got, status := put("/v1/leases/"+name, nil, map[string]any{"holder": name, "ttl_ms": 10_000, "takeover": true})
		for status/100 == 2 && testwait.Rest(ctx, 3*time.Second) {
			_, status = put("/v1/kv/"+name, map[string]string{"Fencing-Token": name + ":" + got.Token.String()}, rng.Uint64())
		}
		testwait.Rest(ctx, time.Second)
	}
}

// watch samples, and strikes now and then, until ctx ends. It returns the 99th
// percentiles of each window of ten samples.
func (s *soak) watch(ctx context.Context) (windows []plot.Point) {
	n := &nemesis{cluster: s.cluster, rng: rand.New(rand.NewPCG(5, 0)), longest: shortFault,
		down: make(map[*labtest.Peer]bool), struck: make(map[string]int)}
	began, next := time.Now(), time.Now().Add(soakFault)
	for testwait.Rest(ctx, soakSample) {
		s.samples = append(s.samples, s.sample())
		if len(s.samples)%10 == 0 {
			s.mu.Lock()
			p99 := percentile(s.latencies, 0.99)
			s.latencies = nil
			s.mu.Unlock()
			if p99 > 0 {
				windows = append(windows, plot.Point{X: time.Since(began).Minutes(), Y: p99})
			}
		}
		if time.Now().After(next) {
			next = time.Now().Add(soakFault)
			n.once([]string{"kill -9", "SIGSTOP", "cut from all", "slow link"})
		}
	}
	n.revive()
	testenv.Count(s.t, "soak.faults", float64(total(n.struck)))
	return windows
}

func total(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// metric is a line of /metrics.
var metric = regexp.MustCompile(`(?m)^(go_goroutines|go_memstats_heap_inuse_bytes|` +
	`process_open_fds|process_resident_memory_bytes) (\S+)$`)

// sample looks at each peer that answers.
func (s *soak) sample() sample {
	out := sample{at: time.Now()}
	for _, p := range s.Running() {
		reply, err := s.ask(nil, p, request{method: http.MethodGet, path: "/metrics"})
		if err != nil {
			continue
		}
		has := make(map[string]float64)
		for _, found := range metric.FindAllSubmatch(reply.Body, -1) {
			has[string(found[1])], _ = strconv.ParseFloat(string(found[2]), 64) // as Prometheus writes it
		}
		out.memory = max(out.memory, has["process_resident_memory_bytes"]/1e6)
		out.heap = max(out.heap, has["go_memstats_heap_inuse_bytes"]/1e6)
		out.goroutines = max(out.goroutines, has["go_goroutines"])
		out.descriptors = max(out.descriptors, has["process_open_fds"])
		files, bytes := 0.0, 0.0
		err = filepath.WalkDir(p.Dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil { // else it is gone
					files, bytes = files+1, bytes+float64(info.Size())/1e6
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Error(err)
		}
		out.files, out.bytes = max(out.files, files), max(out.bytes, bytes)
	}
	return out
}

// quantities are what has to level off, each with what the median may rise by at most.
func quantities() []struct {
	name          string
	of            func(sample) float64
	factor, spare float64
} {
	return []struct {
		name          string
		of            func(sample) float64
		factor, spare float64
	}{
		{"memory_mb", func(s sample) float64 { return s.memory }, 1.3, 40},
		{"heap_mb", func(s sample) float64 { return s.heap }, 1.3, 40},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 1.3, 100},
		{"descriptors", func(s sample) float64 { return s.descriptors }, 1.3, 50},
		{"files", func(s sample) float64 { return s.files }, 1.3, 10},
		{"directory_mb", func(s sample) float64 { return s.bytes }, 1.5, 100},
	}
}

// judge wants each quantity to have levelled off.
func (s *soak) judge(total time.Duration) {
	testenv.Count(s.t, "soak.minutes", total.Minutes())
	testenv.Count(s.t, "soak.machines", float64(len(s.machines)))
	testenv.Count(s.t, "soak.introspections", float64(s.started.Load()))
	testenv.Count(s.t, "soak.polls", float64(s.asked.Load()))
	testenv.Count(s.t, "soak.polls_refused", float64(s.refused.Load()))
	for _, q := range quantities() {
		var values []float64
		for _, one := range s.samples {
			if v := q.of(one); v > 0 { // else no peer answered
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			s.t.Fatalf("no sample has %s", q.name)
		}
		testenv.Count(s.t, "soak."+q.name, median(values[len(values)*3/4:]))
		if err := levelled(values, q.factor, q.spare); err != nil {
			s.t.Errorf("%s does not level off: %v", q.name, err)
		}
	}
	if s.started.Load() == 0 || s.asked.Load() == 0 {
		s.t.Error("nothing was started or asked: this is no test")
	}
}

// draw draws the 99th percentiles, and what was sampled, over time.
func (s *soak) draw(path string, windows []plot.Point) {
	panels := []plot.Panel{{Title: "99th percentile, ms", Points: windows}}
	for _, q := range quantities() {
		p := plot.Panel{Title: q.name}
		for _, one := range s.samples {
			if v := q.of(one); v > 0 {
				p.Points = append(p.Points, plot.Point{X: one.at.Sub(s.samples[0].at).Minutes(), Y: v})
			}
		}
		panels = append(panels, p)
	}
	for _, p := range panels {
		p.Points[0].Label = "0"
		last := &p.Points[len(p.Points)-1]
		last.Label = fmt.Sprintf("%.0f min", cmp.Or(last.X, 1))
	}
	if err := plot.Write(path, panels...); err != nil {
		s.t.Error(err)
	}
}
