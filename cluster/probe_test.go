package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/test/testwait"
)

// answerLimit bounds what a test on real sockets waits for.
const answerLimit = 10 * time.Second

// TestProbesOverTheWire: a report arrives, an older peer's refusal is sign of life,
// and after a probe without an answer the next one dials.
func TestProbesOverTheWire(t *testing.T) {
	f := newFixture(t)
	r := newRoom(t)
	r.leader = "h1"
	contacts := NewContacts(ContactOptions{Self: "h1", Log: r, Prober: r})
	var mode atomic.Value
	mode.Store("answer")
	var conns atomic.Int64
	var seen sync.Map // of far ends
	addr := f.serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, known := seen.LoadOrStore(req.RemoteAddr, true); !known {
			conns.Add(1)
		}
		switch mode.Load() {
		case "answer":
			ContactHandler(contacts, func() json.RawMessage { return nil }).ServeHTTP(w, req)
		case "older":
			http.NotFound(w, req)
		case "hang":
			testwait.Rest(req.Context(), answerLimit)
		}
	}))
	line := NewLine(f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	defer line.Close()
	h1 := membership.Member{ID: "h1", Name: "h1", Address: addr}
	probe := func(limit time.Duration) (Report, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return line.Probe(ctx, h1)
	}
	for range 3 {
		if got, err := probe(testwait.Bound(answerLimit)); err != nil || !got.Leading || len(got.Contacts) != 3 {
			t.Fatalf("report %+v, %v", got, err)
		}
	}
	mode.Store("older")
	if got, err := probe(testwait.Bound(answerLimit)); err != nil || got.Leading {
		t.Errorf("a peer that does not know the question: %+v, %v, want sign of life and no report", got, err)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for four probes, want one", n)
	}
	mode.Store("hang")
	if _, err := probe(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a peer that hangs: %v", err)
	}
	mode.Store("answer")
	if _, err := probe(testwait.Bound(answerLimit)); err != nil {
		t.Errorf("after a probe without an answer: %v", err)
	}
	if n := conns.Load(); n != 2 {
		t.Errorf("redials-after-silence: %d connections, want a new one after the probe without an answer", n)
	}
}

// TestRedial: raft's connections and dials to a peer that began before its silence
// end; later ones, and those to others, stay.
func TestRedial(t *testing.T) {
	f := newFixture(t)
	addr := f.serve(t, http.NotFoundHandler())
	own, err := NewPort(t.Context(), "127.0.0.1:0", f.access(t, pki.PeerIdentity(clusterID, "h1", 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	dial := func() net.Conn {
		conn, err := own.DialPeer(t.Context(), "h1", addr)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	dialled := make(chan error, 1)
	go func() {
		_, err := own.DialPeer(t.Context(), "h1", mute.Addr().String())
		dialled <- err
	}()
	accepted, err := mute.Accept() // the dial is under way
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	old := dial()
	failed := time.Now()
	fresh := dial()
	own.Redial("h9", failed)
	if !open(old) {
		t.Error("redial: a connection to another peer was closed")
	}
	own.Redial("h1", failed)
	if open(old) {
		t.Error("redial: a connection of before the silence is still open")
	}
	if !open(fresh) {
		t.Error("redial: a connection of after the silence was closed")
	}
	if err := testwait.Receive(t, dialled, "the dial under way ends"); !errors.Is(err, context.Canceled) {
		t.Errorf("redial: the dial under way was not ended: %v", err) // past handshakeLimit it ends by itself
	}
	if err := errors.Join(old.Close(), fresh.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if n := len(own.redial.attempts); n != 0 {
		t.Errorf("redial: %d connections are still kept note of", n)
	}
}

// open reports whether this end of a connection was not closed.
func open(conn net.Conn) bool {
	return !errors.Is(conn.SetReadDeadline(time.Time{}), net.ErrClosed)
}
