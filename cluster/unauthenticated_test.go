package cluster

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// handed is a listener with one connection.
type handed struct {
	net.Listener
	conn net.Conn
}

// Accept implements net.Listener.
func (h handed) Accept() (net.Conn, error) { return h.conn, nil }

// Nothing is read of a connection to the peers' port, and so no handshake begins, before
// it is the turn of its source. A member's host does not wait with others.
func TestHandshakesWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		by := admission.NewController()
		for begun := time.Now(); time.Since(begun) == 0; { // until the source has used its pace up
			if err := by.Connect(t.Context(), netip.Prefix{}, false, admission.ByTLS); err != nil {
				t.Fatal(err)
			}
		}
		client, server := net.Pipe() // of no address, which is a source, too
		s := newStrangers(handed{conn: server}, func(netip.Addr) bool { return false })
		s.by = by
		conn, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = client.Write([]byte("x")) }() // it is read below
		began := time.Now()
		if _, err := conn.Read(make([]byte, 1)); err != nil || time.Since(began) == 0 {
			t.Errorf("handshake-pace: a source that began too many connections waits %v: %v", time.Since(began), err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Connections of members' hosts have room that strangers cannot take.
func TestMembersHostsHaveRoomOfTheirOwn(t *testing.T) {
	member := netip.Addr{} // that of a pipe
	known := false
	s := newStrangers(nil, func(at netip.Addr) bool { return known && at == member })
	s.by = admission.NewController()
	open := func() net.Conn {
		_, server := net.Pipe()
		s.Listener = handed{conn: server}
		conn, err := s.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	known = true
	mine := open()
	known = false
	for range 2 * maxStrangers {
		open()
	}
	if err := mine.SetDeadline(time.Time{}); err != nil {
		t.Errorf("member-room: strangers took the room of a member's connection: %v", err)
	}
	if s.open[true].Idle() != 1 || s.open[false].Idle() != maxStrangers {
		t.Errorf("member-room: %d connections of members and %d of strangers", s.open[true].Idle(), s.open[false].Idle())
	}
}
