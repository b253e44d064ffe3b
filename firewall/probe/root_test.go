//go:build e2e

package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// host is a network namespace without a name and the thread that lives in it:
// when the thread ends, so do the namespace and its links.
type host struct {
	t    *testing.T
	jobs chan func() // closed when the test ends
}

func newHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("it needs root, and CI=true lets nothing be skipped")
		}
		t.Skip("it needs root")
	}
	h := &host{t: t, jobs: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this function
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for job := range h.jobs {
			job()
		}
	}()
	t.Cleanup(func() { close(h.jobs) })
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	return h
}

func (h *host) try(f func() error) error {
	done := make(chan error)
	h.jobs <- func() { done <- f() }
	return <-done
}

func (h *host) do(f func() error) {
	h.t.Helper()
	if err := h.try(f); err != nil {
		h.t.Fatal(err)
	}
}

// cable joins two new hosts by an interface called pxe on each.
func cable(t *testing.T) (*host, *host) {
	t.Helper()
	a, b := newHost(t), newHost(t)
	var there *os.File
	b.do(func() (err error) {
		there, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	defer there.Close()
	a.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pxe"}, PeerName: "pxe", PeerNamespace: netlink.NsFd(there.Fd())})
	})
	for _, h := range []*host{a, b} {
		h.do(func() error {
			link, err := netlink.LinkByName("pxe")
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(link)
		})
	}
	return a, b
}

// rawServer is a DHCP server on a packet socket, which no rule of INPUT stops:
// it answers every request that comes, after the frames that it is to send
// before. It ends with the test.
func (h *host) rawServer(before ...[]byte) {
	h.t.Helper()
	var w wire
	h.do(func() (err error) {
		w, err = openWire("pxe", 0)
		if err != nil {
			return err
		}
		raw, err := w.SyscallConn()
		if err != nil {
			return err
		}
		var refused error
		err = raw.Control(func(fd uintptr) {
			refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		})
		return errors.Join(err, refused)
	})
	done := make(chan struct{})
	h.t.Cleanup(func() { w.interrupt(); <-done; w.Close() })
	go func() {
		defer close(done)
		frame := make([]byte, maxFrame)
		for {
			n, err := w.Read(frame)
			if err != nil {
				return
			}
			if message := frame[:n]; n == 342 && message[42] == bootRequest {
				for _, f := range slices.Concat(before, [][]byte{offered(message)}) {
					if w.send(f) != nil {
						return
					}
				}
			}
		}
	}()
}

// offered answers a request as the server 192.0.2.5.
func offered(request []byte) []byte {
	message := slices.Clone(request[42:])
	message[0] = bootReply
	copy(message[atOptions:], "\x35\x01\x02\x36\x04\xc0\x00\x02\x05\xff")
	frame := append(bytes.Repeat([]byte{0xff}, 6), "\x52\x54\x00\x00\x00\x09\x08\x00"...)
	frame = append(frame, datagram(message)...)
	binary.BigEndian.PutUint16(frame[34:], serverPort)
	binary.BigEndian.PutUint16(frame[36:], clientPort)
	return frame
}

func (h *host) probe(ctx context.Context) (servers []Server, err error) {
	h.t.Helper()
	p := New(Options{Interface: "pxe", Random: strings.NewReader("xid."), Logger: slog.New(slog.DiscardHandler)})
	err = h.try(func() (err error) {
		servers, err = p.test(ctx)
		return err
	})
	return servers, err
}

func TestServerOnARawSocketIsFound(t *testing.T) {
	a, b := cable(t)
	foreign := offered(discover(testMAC(t), 7))
	b.rawServer(foreign, []byte(strings.Repeat("noise ", 20)))
	want := []Server{{Address: netip.MustParseAddr("192.0.2.5"), MAC: "52:54:00:00:00:09"}}
	if servers, err := a.probe(t.Context()); err != nil || !slices.Equal(servers, want) {
		t.Errorf("found %v, %v, want %v", servers, err, want)
	}
}

// Its own host's server is not what a peer tests.
func TestOwnServerIsNotTested(t *testing.T) {
	a, _ := cable(t)
	a.rawServer()
	if servers, err := a.probe(t.Context()); err != nil || len(servers) > 0 {
		t.Errorf("found %v, %v", servers, err)
	}
}

func TestSilenceIsSilence(t *testing.T) {
	a, b := cable(t)
	if servers, err := a.probe(t.Context()); err != nil || len(servers) > 0 {
		t.Errorf("found %v, %v", servers, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.probe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a test that is over: %v", err)
	}
	b.do(func() error {
		link, err := netlink.LinkByName("pxe")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
	if _, err := b.probe(t.Context()); err == nil || !strings.Contains(err.Error(), "pxe is down") {
		t.Errorf("an interface that is down: %v", err)
	}
}
