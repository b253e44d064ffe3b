//go:build e2e

package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/netns"
	"github.com/trivet-ha/trivet/test/testwait"
)

// cable joins two new hosts by an interface called pxe on each.
func cable(t *testing.T) (a, b *netns.Host) {
	t.Helper()
	a, b = netns.New(t), netns.New(t)
	a.Cable("pxe", b, "pxe")
	return a, b
}

// rawServer is a DHCP server on a packet socket of h, which no rule of INPUT
// stops: it answers every request that comes, after the frames that it is to
// send before. It ends with the test.
func rawServer(t *testing.T, h *netns.Host, before ...[]byte) {
	t.Helper()
	index := h.Link("pxe").Attrs().Index
	var socket rawsocket.Socket
	h.Do(func() (err error) {
		socket, err = rawsocket.Open(index, unix.ETH_P_IP, nil)
		return err
	})
	var work sync.WaitGroup
	t.Cleanup(func() { work.Wait(); socket.Close() })
	work.Go(func() {
		err := socket.Listen(t.Context(), time.Minute, func(frame []byte) bool {
			if len(frame) != 342 || frame[42] != bootRequest {
				return false
			}
			for _, f := range slices.Concat(before, [][]byte{offered(frame)}) {
				if err := socket.Send(f); err != nil {
					t.Error(err)
				}
			}
			return false
		})
		if !errors.Is(err, context.Canceled) { // as the test's context is before it is cleaned up
			t.Errorf("the server ended: %v", err)
		}
	})
}

// offered answers a request as the server 192.0.2.5.
func offered(request []byte) []byte {
	message := slices.Clone(request[42:])
	message[0] = bootReply
	copy(message[atCookie+len(cookie):], "\x35\x01\x02\x36\x04\xc0\x00\x02\x05\xff")
	frame := append(bytes.Repeat([]byte{0xff}, 6), "\x52\x54\x00\x00\x00\x09\x08\x00"...)
	none, all := netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255")
	return append(frame, datagram(netip.AddrPortFrom(none, serverPort), netip.AddrPortFrom(all, clientPort), 64,
		message)...)
}

func testFrom(ctx context.Context, h *netns.Host) (servers []Server, err error) {
	p := New(Options{Interface: "pxe", Random: strings.NewReader("xid."), Logger: slog.New(slog.DiscardHandler)})
	err = h.Try(func() (err error) {
		servers, err = p.Test(ctx)
		return err
	})
	return servers, err
}

func TestServerOnARawSocketIsFound(t *testing.T) {
	a, b := cable(t)
	foreign := offered(discover(testMAC(t), 7))
	tagged := slices.Insert(offered(discover(testMAC(t), binary.BigEndian.Uint32([]byte("xid.")))), 12, 0x81, 0, 0, 200)
	tagged[11] = 10 // of another server, in a VLAN
	rawServer(t, b, foreign, tagged, []byte(strings.Repeat("noise ", 20)))
	want := []Server{{Address: netip.MustParseAddr("192.0.2.5"), MAC: "52:54:00:00:00:09"}}
	// The server is a part of this process, which a busy machine may keep waiting.
	testwait.Within(t, time.Minute, "the server is found, and nothing else", func() error {
		servers, err := testFrom(t.Context(), a)
		if err == nil && !slices.Equal(servers, want) {
			err = fmt.Errorf("server-of-this-network: found %v, want %v", servers, want)
		}
		return err
	})
}

// Its own host's server is not what a peer tests.
func TestOwnServerIsNotTested(t *testing.T) {
	a, _ := cable(t)
	rawServer(t, a)
	if servers, err := testFrom(t.Context(), a); err != nil || len(servers) > 0 {
		t.Errorf("found %v, %v", servers, err)
	}
}

func TestSilenceIsSilence(t *testing.T) {
	a, b := cable(t)
	if servers, err := testFrom(t.Context(), a); err != nil || len(servers) > 0 {
		t.Errorf("found %v, %v", servers, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := testFrom(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("a test that is over: %v", err)
	}
	b.Change("pxe", netlink.LinkSetDown)
	if _, err := testFrom(t.Context(), b); err == nil || !strings.Contains(err.Error(), "pxe is down") {
		t.Errorf("an interface that is down: %v", err)
	}
}
