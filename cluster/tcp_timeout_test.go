package cluster

import (
	"net"
	"net/http"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/cluster/pki"
)

// userTimeout returns for how long the kernel waits for acknowledgements, in ms.
func userTimeout(t *testing.T, conn net.Conn) (ms int) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var get error
	if err := raw.Control(func(fd uintptr) {
		ms, get = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil || get != nil {
		t.Fatal(err, get)
	}
	return ms
}

// Both ends of HTTP/2 connections end when the other is silent; those that raft
// dials do not, since a follower whose disk hangs takes no data.
func TestSilentConnectionsEnd(t *testing.T) {
	f := newFixture(t)
	addr := f.serve(t, http.NotFoundHandler())
	a := f.access(t, pki.PeerIdentity(clusterID, "h1", 1))
	limit := int(silentLimit.Milliseconds())
	for protocol, want := range map[string]int{protocolHTTP: limit, protocolRaft: 0} {
		conn, err := a.dial(t.Context(), "h1", addr, protocol)
		if err != nil {
			t.Fatal(err)
		}
		if got := userTimeout(t, conn.(*leavingConn).NetConn()); got != want {
			t.Errorf("%s: a dialled connection ends after %d ms of silence, want %d", protocol, got, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}

	ln, err := NewPort(t.Context(), "127.0.0.1:0", a)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	out, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := ln.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if got := userTimeout(t, in.(*strangerConn).Conn); got != limit {
		t.Errorf("an accepted connection ends after %d ms of silence, want %d", got, limit)
	}
}
