//go:build e2e

package attacktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
	"github.com/trivet-ha/trivet/test/testenv"
)

// limit bounds every wait.
const limit = 30 * time.Second

// host is one peer of a cluster in this process, on ports of its own.
type host struct {
	datadir.Host
	t    *testing.T
	dir  *datadir.Dir
	id   datadir.Identity
	cred *pki.Credentials
	peer *app.Peer // nil while it is down
}

func newHost(t *testing.T, name string, more ...map[string]string) *host {
	t.Helper()
	root := t.TempDir()
	flags := map[string]string{
		"name": name, "data_dir": filepath.Join(root, "d"), "socket": filepath.Join(root, "s"), "firewall.driver": "noop",
		"api.listen": "127.0.0.1:0", "cluster.listen": testenv.FreePort(t), "gossip.listen": testenv.FreePort(t),
	}
	for _, m := range more {
		maps.Copy(flags, m)
	}
	conf, err := config.Load(config.Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.Open(conf.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, dir: dir, Host: datadir.Host{Config: conf, Binary: "test", Wall: time.Now, Random: rand.Reader}}
	t.Cleanup(func() {
		h.stop()
		if h.dir == nil {
			return // another process has it
		}
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *host) start() {
	h.t.Helper()
	id, secrets, err := h.dir.Load()
	if err != nil {
		h.t.Fatal(err)
	}
	h.id, h.cred = id, secrets.Credentials
	h.peer, err = app.New(h.t.Context(), app.Options{
		Config: h.Config, Dir: h.dir, Binary: "test", Logger: slog.New(slog.DiscardHandler), Wall: h.Wall,
		Random: rand.Reader,
		Exit: func(code int, why error) {
			h.t.Errorf("%s ends its process with code %d: %v", h.Config.Name, code, why)
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// joins adds the host to the cluster of member and starts it.
func (h *host) joins(member *host) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	made, err := member.peer.Admin().Keys.NewJoinToken(ctx, time.Hour)
	if err != nil {
		h.t.Fatal(err)
	}
	token, err := pki.ParseJoinToken(made.Secret)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.Join(ctx, h.dir, member.id.Address, token); err != nil {
		h.t.Fatal(err)
	}
	h.start()
}

func (h *host) stop() {
	if h.peer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := h.peer.Stop(ctx); err != nil {
		h.t.Logf("stop %s: %v", h.Config.Name, err) // a peer under attack may end badly
	}
	h.peer = nil
}

func (h *host) view() fsm.View { return h.peer.Core().Store.View() }

func (h *host) address() string { return cluster.ServerAddress(h.id.ID, h.id.Address) }

// newCluster founds a cluster of some peers and waits until all vote.
func newCluster(t *testing.T, size int) []*host {
	t.Helper()
	hosts := make([]*host, size)
	for i := range hosts {
		hosts[i] = newHost(t, fmt.Sprintf("h%d", i+1))
	}
	founding, err := hosts[0].Init(hosts[0].dir)
	if err != nil {
		t.Fatal(err)
	}
	hosts[0].start()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := trio.Ready(ctx, hosts[0].peer); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts[1:] {
		if _, err := h.Join(ctx, h.dir, founding.Identity.Address, founding.Token); err != nil {
			t.Fatal(err)
		}
		h.start()
	}
	until(t, "all peers vote", func() bool { return voters(hosts[0]) == size })
	return hosts
}

func voters(h *host) (n int) {
	for _, srv := range h.peer.Core().Store.Servers() {
		if srv.Voter {
			n++
		}
	}
	return n
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(limit)
	for range tick.C {
		if holds() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain: %s", limit, what)
		}
	}
}

// must commits a command through a peer.
func (h *host) must(c fsm.Command) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), limit)
	defer cancel()
	res, err := h.peer.Core().Session.Do(ctx, "", c)
	if err := errors.Join(err, res.Err()); err != nil {
		h.t.Fatalf("%T through %s: %v", c, h.Config.Name, err)
	}
}

// thief speaks raft with somebody's credentials.
type thief struct {
	end  pki.Endpoint
	net  *raft.NetworkTransport
	stop context.CancelFunc
	life context.Context
}

func newThief(t *testing.T, cred *pki.Credentials) *thief {
	t.Helper()
	s := &thief{end: pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: time.Now}}
	s.life, s.stop = context.WithCancel(context.Background())
	s.net = raft.NewNetworkTransportWithConfig(
		&raft.NetworkTransportConfig{Stream: s, MaxPool: 1, MaxRPCsInFlight: 1, Timeout: 3 * time.Second,
			Logger: hclog.NewNullLogger()})
	t.Cleanup(func() {
		if err := s.net.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Dial implements raft.StreamLayer.
func (s *thief) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	id, hostport, err := split(address)
	if err != nil {
		return nil, err
	}
	return s.dial(id, hostport, "trivet-raft", timeout)
}
