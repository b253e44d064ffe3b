package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

func startGossip(t *testing.T, id string, keys ...byte) *Gossip {
	t.Helper()
	listen := testenv.FreePort(t)
	g, err := NewGossip(gossipOptions(id, listen, listen, keys...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Drop() })
	return g
}

func gossipOptions(id, listen, advertise string, keys ...byte) GossipOptions {
	ring := Ring{}
	for _, b := range keys {
		ring.Keys = append(ring.Keys, ringKey(b))
	}
	return GossipOptions{Hosts: func() []string { return []string{"127.0.0.1"} }, ID: id, Cluster: "c", Incarnation: 1,
		Listen: listen, Advertise: advertise, Ring: ring,
		Newer: func(uint64) {}, Logger: slog.New(slog.DiscardHandler)}
}

// TestAllLeaveAtOnce ends a whole cluster. None of the three is left to hear
// that the others leave; that is no failure.
func TestAllLeaveAtOnce(t *testing.T) {
	const trials = 15
	for n := range trials {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel() // a wait for peers that have gone is most of it
			all := []*Gossip{startGossip(t, "a", 1), startGossip(t, "b", 1), startGossip(t, "c", 1)}
			for _, g := range all[1:] {
				if _, err := g.list.Join([]string{all[0].opts.Listen}); err != nil {
					t.Fatal(err)
				}
			}
			var leaving sync.WaitGroup
			for _, g := range all {
				leaving.Go(func() {
					if err := g.Leave(); err != nil {
						t.Errorf("%s leaves: %v", g.opts.ID, err)
					}
				})
			}
			leaving.Wait()
		})
	}
}

// TestLeaveAfterDrop is what happens to a peer that is killed within a process
// that goes on: the second end does nothing.
func TestLeaveAfterDrop(t *testing.T) {
	g := startGossip(t, "a", 1)
	if err := errors.Join(g.Drop(), g.Leave(), g.Leave()); err != nil {
		t.Error(err)
	}
}

// TestGossipThatCannotStart names the reason, also where memberlist keeps only
// its text, and leaves nothing behind.
func TestGossipThatCannotStart(t *testing.T) {
	at := testenv.FreePort(t)
	taken, err := net.ListenPacket("udp", at) // not hermetic: as another program would; at is reserved
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewGossip(gossipOptions("a", at, at, 1)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the UDP port is taken: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := NewGossip(gossipOptions("a", at, "h1.example:7351", 1)); err == nil ||
		!strings.Contains(err.Error(), "gossip.advertise") {
		t.Errorf("a name is advertised: %v", err)
	}
	g, err := NewGossip(gossipOptions("a", at, at, 1))
	if err != nil {
		t.Fatalf("the port was not given back: %v", err)
	}
	if err := g.Leave(); err != nil {
		t.Error(err)
	}
}
