package cluster

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
	"github.com/trivet-ha/trivet/test/testwait"
)

// raft's protocol is closed to a caller without a certificate, and to one whose
// certificate is another peer's than the one that is called.
func TestRaftDemandsTheRightCertificate(t *testing.T) {
	f := newFixture(t)
	port, err := NewPort(t.Context(), "127.0.0.1:0", f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := port.Serve(NewRoutes(&served{view: f.View(), leads: true}, admission.NewController()),
		admission.NewController(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	accepted := make(chan string, 4)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for conn, peer, err := port.AcceptPeer(); err == nil; conn, peer, err = port.AcceptPeer() {
			accepted <- peer
			_ = conn.Close()
		}
	})

	// A client hears of the refusal when it reads: its own handshake ends first.
	anonymous := &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{protocolRaft}}
	conn, err := dialTLS(t.Context(), HostNetwork{}, port.Addr().String(), anonymous)
	if err == nil {
		if err := conn.SetDeadline(time.Now().Add(testwait.Bound(testwait.Limit))); err != nil {
			t.Fatal(err)
		}
		var alert *net.OpError // crypto/tls exports no type of an alert that was received
		if _, err := io.ReadFull(conn, make([]byte, 1)); !errors.As(err, &alert) || alert.Op != "remote error" {
			t.Errorf("raft-needs-a-certificate: a caller without one reads %v, want the alert of a refusal", err)
		}
		_ = conn.Close()
	}

	other := f.access(t, pki.PeerIdentity(clusterID, "h2", 1))
	var wrong *pki.WrongPeerError
	if c, err := other.dial(t.Context(), "h3", port.Addr().String(), protocolRaft); !errors.As(err, &wrong) {
		t.Errorf("raft-needs-the-peer: h1 answered a call of h3: %v", err)
		if err == nil {
			_ = c.Close()
		}
	}
	good, err := other.dial(t.Context(), "h1", port.Addr().String(), protocolRaft)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	if peer := testwait.Receive(t, accepted, "the connection of a member"); peer != "h2" {
		t.Errorf("raft-needs-a-certificate: raft was given a connection of %q", peer)
	}
	if err := port.Close(); err != nil {
		t.Error(err)
	}
	accepting.Wait()
	if n := len(accepted); n > 0 {
		t.Errorf("raft-needs-a-certificate: raft was given %d connections more", n)
	}
}
