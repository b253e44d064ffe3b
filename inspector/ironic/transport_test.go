package ironic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/test/testwait"
)

// hasty is the configuration of a client that tries once.
func hasty(url string) config.Ironic {
	c := conf(url)
	c.Retries = 0
	return c
}

// TestConnectionsThatEndedAreNotUsed lets the service end those that rest.
func TestConnectionsThatEndedAreNotUsed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		f := serve(t, answer{200, aNode})
		server := httptest.NewServer(f)
		client := hasty(server.URL)
		if secure {
			server.Close()
			server = httptest.NewTLSServer(f)
			client = trusting(t, hasty(server.URL), server)
		}
		t.Cleanup(server.Close)
		c := dial(t, client)
		for range 3 {
			if _, err := c.Node(t.Context(), node1); err != nil {
				t.Fatalf("TLS %v: %v", secure, err)
			}
			server.CloseClientConnections()
			for _, rests := range c.now.Load().transport.idle { // one call at a time: nobody else looks
				for _, c := range rests {
					awaitEnd(t, c)
				}
			}
		}
	}
}

// awaitEnd waits until a connection's end has come.
func awaitEnd(t *testing.T, c *conn) {
	t.Helper()
	testwait.Until(t, "a connection that the service closed ends here", func() bool { return !c.quiet() })
}

// TestLongRestEndsAConnection looks at who is open after the time for which a
// connection may rest.
func TestLongRestEndsAConnection(t *testing.T) {
	f := serve(t, answer{200, aNode})
	c := dial(t, hasty(f.URL))
	if _, err := c.Node(t.Context(), node1); err != nil {
		t.Fatal(err)
	}
	resting := c.now.Load().transport.idle[f.URL]
	if len(resting) != 1 {
		t.Fatalf("%d connections rest, want 1", len(resting))
	}
	first := resting[0]
	first.since = first.since.Add(-idleConn)
	if _, err := c.Node(t.Context(), node1); err != nil {
		t.Fatal(err)
	}
	if next := c.now.Load().transport.idle[f.URL]; len(next) != 1 || next[0] == first {
		t.Errorf("the connection that rested too long was used")
	}
	if _, err := first.wire.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is open: %v", err)
	}
}

func TestClosedClientKeepsNothing(t *testing.T) {
	f := serve(t, answer{200, aNode})
	c := dial(t, hasty(f.URL))
	for range 2 {
		if _, err := c.Node(t.Context(), node1); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if n := len(c.now.Load().transport.idle); n != 0 {
			t.Errorf("connections to %d services rest", n)
		}
	}
	if busy := len(c.now.Load().transport.slots); busy != 0 {
		t.Errorf("%d connections are busy", busy)
	}
}

// raw answers each request with bytes as they are.
func raw(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, answer) // the client may have had enough
		_ = conn.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestHeaders(t *testing.T) {
	good := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(aNode), aNode)
	hint := "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
	for _, test := range []struct{ name, answer, want string }{
		{"without a length", "HTTP/1.0 200 OK\r\n\r\n" + aNode, ""},
		{"after hints", strings.Repeat(hint, maxHints) + good, ""},
		{"after too many", strings.Repeat(hint, maxHints+1) + good, "no end of answers"},
		{"large", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader/2) + good[15:], ""},
		{"too large", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHeader), "header is larger than"},
		{"nothing", "", "closed before the answer"},
		{"something else", "SSH-2.0-OpenSSH_9.2\r\n", "malformed"},
	} {
		c := dial(t, hasty(raw(t, test.answer)))
		_, err := c.Node(t.Context(), node1)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if busy := len(c.now.Load().transport.slots); busy != 0 {
			t.Errorf("%s: %d connections are busy", test.name, busy)
		}
	}
}

// A caller that has left before a connection is there has nothing sent for it,
// however many rest.
func TestCallerThatLeftSendsNothing(t *testing.T) {
	f := serve(t, answer{202, ""})
	c := dial(t, conf(f.URL))
	if err := c.SetPower(t.Context(), node1, PowerOff); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 2000 { // which of what is ready a select takes is chance
		if err := c.SetPower(gone, node1, PowerReboot); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v", err)
		}
	}
	if n := len(f.seen()); n != 1 {
		t.Errorf("caller-left: %d requests were sent", n-1)
	}
}

// What stands in front of Ironic excuses itself with 200 and a page: nothing was done, and nothing is judged.
func TestPageIsNoAnswer(t *testing.T) {
	url := raw(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 6\r\n\r\n<html>")
	c := dial(t, conf(url))
	_, unread := c.Node(t.Context(), node1)
	_, untaken := c.Continue(t.Context(), InbandCall{Body: []byte("{}")})
	for what, err := range map[string]error{
		"power": c.SetPower(t.Context(), node1, PowerReboot), "node": unread, "document": untaken,
		"port": c.DeletePort(t.Context(), port1),
	} {
		if !Unjudged(err) || !strings.Contains(err.Error(), "a page of HTML") {
			t.Errorf("ironic-page: of a call for a %s it says %v, and that it is judged", what, err)
		}
	}
	if busy := len(c.now.Load().transport.slots); busy != 0 {
		t.Errorf("ironic-page: %d connections are busy", busy)
	}
}
