package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/msgcheck"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// startable is a peer that was founded and does not run, with everything that a
// step can open switched on.
type startable struct {
	t    *testing.T
	data *datadir.Dir
	o    Options
}

func newStartable(t *testing.T) *startable {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := write("kubeconfig", `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: a, user: {}}]}`, 0o600)
	agent := write("fence_file", bmc, 0o700)
	devices := write("fence.yaml",
		"devices:\n- {name: bmc, type: agent, program: "+agent+", nodes: {w1: {ip: 192.0.2.1}}}\n", 0o600)
	conf, err := config.Load(config.Sources{Flags: map[string]string{
		"name": "h1", "data_dir": filepath.Join(dir, "d"), "socket": filepath.Join(dir, "s"), "api.listen": "127.0.0.1:0",
		"cluster.listen": "127.0.0.1:0", "gossip.listen": testenv.FreePort(t),
		"cluster.advertise": "127.0.0.1:7350", "gossip.advertise": "127.0.0.1:7351", "firewall.driver": "noop",
		"failover.mode": "safe", "failover.kubeconfigs": "prod=" + kubeconfig, "failover.fence_file": devices,
		"lease.enabled": "true", "elector.listen": "raft=127.0.0.1:0", "haconfig.listen": "127.0.0.1:0",
		"haconfig.kubeconfigs": "prod=" + kubeconfig + ",test=" + kubeconfig,
	}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := datadir.Open(conf.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := (datadir.Host{Config: conf, Binary: "test", Wall: time.Now, Random: rand.Reader}).Init(data); err != nil {
		t.Fatal(err)
	}
	return &startable{t: t, data: data, o: Options{
		Config: conf, Dir: data, Binary: "test", Logger: msgcheck.Logger(t), Wall: time.Now, Random: rand.Reader,
		Exit: func(code int, why error) { t.Errorf("exit %d: %v", code, why) },
	}}
}

// start opens a peer whose steps were changed.
func (s *startable) start(change func(steps []step)) (*Peer, error) {
	p := newPeer(s.o)
	steps := p.steps()
	change(steps)
	return p, p.open(s.t.Context(), steps)
}

// withoutGC keeps the collector from closing the files that a leak has left.
func withoutGC(t *testing.T) {
	t.Helper()
	was := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(was) })
}

// left are the open descriptors and the goroutines of this process.
func left(t *testing.T) (descriptors []string, goroutines int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		testenv.Missing(t, "no /proc here: %v", err)
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "/proc/") {
			descriptors = append(descriptors, target)
		}
	}
	slices.Sort(descriptors)
	return descriptors, runtime.NumGoroutine()
}

// checkNothingLeft waits until this process holds no more than before. Goroutines
// of closed connections end a moment after their owners.
func checkNothingLeft(t *testing.T, descriptors []string, goroutines int) {
	t.Helper()
	testwait.Within(t, testwait.Limit, "no descriptor and no goroutine left", func() error {
		d, g := left(t)
		if len(d) <= len(descriptors) && g <= goroutines {
			return nil
		}
		stacks := make([]byte, 1<<20)
		return fmt.Errorf("%d goroutines, %d before; descriptors %v, before %v\n%s", g, goroutines, d, descriptors,
			stacks[:runtime.Stack(stacks, true)])
	})
}

// TestEveryFailedStartIsUndone makes each step of a start fail in turn, before
// and after it has opened its part. Whatever the steps before have opened is
// closed: a peer can be started in the same directory at once.
func TestEveryFailedStartIsUndone(t *testing.T) {
	withoutGC(t)
	s := newStartable(t)
	broken := errors.New("broken for the test")
	for n, part := range StartParts() {
		for when, fail := range map[string]func(step) step{
			"before": func(was step) step {
				was.open = func(context.Context) error { return broken }
				return was
			},
			"after": func(was step) step {
				inner := was.open
				was.open = func(ctx context.Context) error { return errors.Join(inner(ctx), broken) }
				return was
			},
		} {
			t.Run(part+"/"+when, func(t *testing.T) {
				descriptors, goroutines := left(t)
				_, err := s.start(func(steps []step) { steps[n] = fail(steps[n]) })
				var start *StartError
				if !errors.As(err, &start) || start.Part != part || !errors.Is(err, broken) || err.Error() != broken.Error() {
					t.Fatalf("started: %v, want that %s is broken, and nothing else", err, part)
				}
				checkNothingLeft(t, descriptors, goroutines)
				if _, err := os.Lstat(s.o.Config.Socket); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the socket is left: %v", err)
				}
			})
		}
	}
	descriptors, goroutines := left(t)
	for range 2 {
		peer, err := New(t.Context(), s.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := peer.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkNothingLeft(t, descriptors, goroutines)
}

// TestPeerKnownByANameStarts: gossip carries addresses alone.
func TestPeerKnownByANameStarts(t *testing.T) {
	s := newStartable(t)
	s.o.Config.Cluster.Advertise, s.o.Config.Gossip.Advertise = "localhost:7350", "localhost:7351"
	peer, err := New(t.Context(), s.o)
	if err != nil {
		t.Fatalf("gossip-of-a-name: %v", err)
	}
	if peer.id.Gossip != "localhost:7351" {
		t.Errorf("gossip-of-a-name: the others are told %q", peer.id.Gossip)
	}
	if err := peer.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestKillReleasesEverything starts a peer where another was killed, in one
// process, with everything switched on.
func TestKillReleasesEverything(t *testing.T) {
	withoutGC(t)
	s := newStartable(t)
	descriptors, goroutines := left(t)
	for range 2 {
		peer, err := New(t.Context(), s.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := peer.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkNothingLeft(t, descriptors, goroutines)
}

// TestOnlyTheLogFailsAStop makes the end of each part fail in turn. The log
// decides whether the stop was orderly; the rest is logged.
func TestOnlyTheLogFailsAStop(t *testing.T) {
	s := newStartable(t)
	for _, part := range StartParts() {
		t.Run(part, func(t *testing.T) {
			var said strings.Builder
			s.o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
			peer := newPeer(s.o)
			peer.opened.add(part, func(context.Context) error { return errors.New("broken for the test") })
			if err := peer.open(t.Context(), peer.steps()); err != nil {
				t.Fatal(err)
			}
			err := peer.Stop(t.Context())
			if part == partLog {
				if err == nil || err.Error() != "close the log: broken for the test" {
					t.Errorf("stopped: %v", err)
				}
				return
			}
			if want := fmt.Sprintf("part=%q err=\"broken for the test\"", part); err != nil ||
				!strings.Contains(strings.ReplaceAll(said.String(), "part="+part+" ", fmt.Sprintf("part=%q ", part)), want) {
				t.Errorf("stopped: %v; logged:\n%s", err, said.String())
			}
		})
	}
}

// TestReadyNamesWhatItWaitsFor asks a peer that reads its log and has no session.
func TestReadyNamesWhatItWaitsFor(t *testing.T) {
	peer, err := New(t.Context(), newStartable(t).o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := peer.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
	defer cancel()
	if err := peer.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	sessionless := &Peer{core: &Core{Store: peer.core.Store,
		Session: cluster.NewSession(cluster.SessionOptions{Random: rand.Reader, Logger: msgcheck.Logger(t)})}}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = sessionless.Ready(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "%!") {
		t.Errorf("ready: %v", err)
	}
}
