package httpserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// waiting is a listener whose connections begin when they are let.
func waiting(begin func(context.Context, netip.Addr) error) (*listener, *pipes) {
	ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	return New(Options{Handler: http.NotFoundHandler(), Limits: limits, Begin: begin,
		Logger: slog.New(slog.DiscardHandler)}).bound(ln), ln
}

// connect returns both ends of a connection that was accepted, and the channel of what
// its first read returned.
func connect(t *testing.T, l *listener, ln *pipes) (client, server net.Conn, read <-chan error) {
	t.Helper()
	client, accepted := net.Pipe()
	go func() { ln.conns <- accepted }() // in a bubble
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := server.Read(make([]byte, 16))
		done <- err
	}()
	return client, server, done
}

// Nothing is read of a connection before its turn, and none that is refused is read.
func TestAConnectionWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan error, 1)
		l, ln := waiting(func(context.Context, netip.Addr) error { return <-turn }) // in a bubble
		for _, refused := range []error{nil, admission.ErrBusy} {
			client, server, read := connect(t, l, ln)
			go func() { _, _ = io.WriteString(client, "G") }() // a refused one is closed below
			synctest.Wait()
			if len(read) > 0 {
				t.Fatalf("begin-turn: a connection is read before its turn: %v", <-read)
			}
			turn <- refused                              // in a bubble
			if err := <-read; !errors.Is(err, refused) { // in a bubble
				t.Errorf("begin-turn: refused with %v, the first read: %v", refused, err)
			}
			if err := errors.Join(server.Close(), client.Close()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A connection that gives its place to another waits no longer.
func TestASurplusConnectionWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, ln := waiting(func(ctx context.Context, _ netip.Addr) error {
			<-ctx.Done()
			return ctx.Err()
		})
		var first <-chan error
		for n := range limits.Share + 1 {
			client, server, read := connect(t, l, ln)
			if n == 0 {
				first = read
			}
			t.Cleanup(func() { _, _ = client.Close(), server.Close() }) // the first is closed
		}
		synctest.Wait()
		if len(first) == 0 {
			t.Error("begin-ends: the oldest connection gave way and still waits for its turn")
		}
	})
}

// Where lines of a body end is as it was when each byte of it was looked at.
func TestTheEndOfABodyIsFollowed(t *testing.T) {
	for text, filled := range map[string]bool{"": true, "x": true, "\r": true, "\n": false, "\r\n": false,
		"x\r\n\r\r": false, "\nx\r": true, "\n\rx": true, "x\n": false} {
		c := &conn{filled: true}
		if !c.scan([]byte(text)) || c.filled != filled {
			t.Errorf("body-lines: after %q the present line is filled: %v", text, c.filled)
		}
	}
}
