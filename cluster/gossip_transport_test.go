package cluster

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// rss returns the resident memory of this process, in bytes.
func rss(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		testenv.Missing(t, "no /proc here: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func gossipOf(t *testing.T, hosts ...string) *Gossip {
	t.Helper()
	g, err := NewGossip(GossipOptions{ID: "a", Cluster: "c", Incarnation: 1, Listen: testenv.FreePort(t),
		Ring:  Ring{Keys: [][]byte{ringKey(1)}},
		Hosts: func() []string { return hosts }, Newer: func(uint64) {}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Drop() })
	return g
}

// flood opens streams that announce 20 MB under a key that nobody has, and sends
// as much as is taken; it returns how many bytes that was.
func flood(t *testing.T, g *Gossip, streams int) (sent int64) {
	t.Helper()
	const announced = 20_000_000
	head := binary.BigEndian.AppendUint32([]byte{10}, announced) // 10 is an encrypted message
	at := g.list.LocalNode().Address()
	chunk := make([]byte, 64<<10)
	var all sync.WaitGroup
	var mu sync.Mutex
	for range streams {
		all.Go(func() {
			conn, err := net.Dial("tcp", at)
			if err != nil {
				return // refused
			}
			defer conn.Close()
			if conn.SetDeadline(time.Now().Add(testwait.Bound(5*time.Second))) != nil {
				return
			}
			if _, err := conn.Write(head); err != nil {
				return
			}
			for left := announced; left > 0; left -= len(chunk) {
				n, err := conn.Write(chunk)
				mu.Lock()
				sent += int64(n)
				mu.Unlock()
				if err != nil {
					return
				}
			}
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	all.Wait()
	return sent
}

// Sixty streams of 20 MB without the key: strangers' are not read at all,
// members' up to a bound, and memory stays.
func TestGossipFloodIsNotRead(t *testing.T) {
	const streams, most = 60, 64 << 20
	for name, hosts := range map[string][]string{"from strangers": {"192.0.2.1:7351"},
		"from a member's host": {"127.0.0.1:7351"}} {
		t.Run(name, func(t *testing.T) {
			g := gossipOf(t, hosts...)
			runtime.GC()
			before := rss(t)
			highest, stop := before, make(chan struct{})
			var watch sync.WaitGroup
			watch.Go(func() {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						highest = max(highest, rss(t))
					case <-stop:
						return
					}
				}
			})
			flood(t, g, streams)
			close(stop)
			watch.Wait()
			if grown := highest - before; grown > most {
				t.Errorf("gossip-bounded: %d streams made the process grow by %d MiB, at most %d are allowed", streams, grown>>20,
					most>>20)
			}
		})
	}
}

// Streams that say nothing take no other host's place.
func TestGossipStreamsPerHost(t *testing.T) {
	g := gossipOf(t, "127.0.0.1", "127.0.0.2")
	at := g.list.LocalNode().Address()
	for range 3 * maxGossipStreams {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	other, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", at)
	if err != nil {
		testenv.Missing(t, "127.0.0.2 is not an address here: %v", err)
	}
	defer other.Close()
	testwait.Within(t, testwait.Limit, "each host has its streams", func() error {
		one, two := g.net.open.Held(netip.MustParsePrefix("127.0.0.1/32")),
			g.net.open.Held(netip.MustParsePrefix("127.0.0.2/32"))
		if one > maxGossipPerHost {
			t.Fatalf("%d streams of one host, want at most %d", one, maxGossipPerHost)
		}
		if one != maxGossipPerHost || two != 1 {
			return fmt.Errorf("%d streams of one host, %d of the other, want %d and 1", one, two, maxGossipPerHost)
		}
		return nil
	})
}
