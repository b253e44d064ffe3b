package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// checkFuzzed looks at an answer to anything.
func checkFuzzed(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Body.Len() == 0 {
		return
	}
	var e struct {
		Error *struct{ Message *string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Code >= 300 && (e.Error == nil || e.Error.Message == nil) {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// unknownLength hides the length of a body: it comes in chunks.
type unknownLength struct{ io.Reader }

func TestBodiesOfCallbacks(t *testing.T) {
	f := &fake{}
	srv := httptest.NewServer(checked(t, public(f, NoAuth())))
	defer srv.Close()
	for _, c := range []struct {
		name   string
		size   int
		chunks bool
		status int
	}{
		{"empty", 0, false, 200},
		{"30 KB", 30_000, false, 200},
		{"30 KB in chunks", 30_000, true, 200},
		{"just not too large", MaxDocument, false, 200},
		{"just not too large, in chunks", MaxDocument, true, 200},
		{"one byte too large", MaxDocument + 1, false, 413},
		{"one byte too large, in chunks", MaxDocument + 1, true, 413},
		{"twice as large", 2 * MaxDocument, false, 413},
		{"twice as large, in chunks", 2 * MaxDocument, true, 413},
	} {
		f.bodies = nil
		text := strings.Repeat("x", c.size)
		var body io.Reader = strings.NewReader(text)
		if c.chunks {
			body = unknownLength{body}
		}
		resp, err := http.Post(srv.URL+"/v1/continue", "text/plain", body)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		said, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != c.status {
			t.Errorf("%s: %d %s %v, want %d", c.name, resp.StatusCode, said, err, c.status)
		}
		if c.status == 200 && (len(f.bodies) != 1 || f.bodies[0] != text) {
			t.Errorf("%s: the service was given something else", c.name)
		}
		if c.status == 413 && (f.bodies != nil || !strings.Contains(string(said), "8 MiB")) {
			t.Errorf("%s: %s, given to the service %d times", c.name, said, len(f.bodies))
		}
	}
}

// A client that waits to be told to send is told not to.
func TestTooLargeIsSaidBeforeItIsSent(t *testing.T) {
	srv := httptest.NewServer(checked(t, public(&fake{}, NoAuth())))
	defer srv.Close()
	status := raw(t, srv,
		"POST /v1/continue HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n")
	if !strings.Contains(status, " 413 ") {
		t.Errorf("%q", status)
	}
}

// raw sends bytes and returns the first line that comes back.
func raw(t *testing.T, srv *httptest.Server, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// A body that trickles in ends, and not as a refusal, which a ramdisk takes for
// final; work that takes longer than a body may is not cut by that.
func TestSlowBodies(t *testing.T) {
	for _, c := range []struct {
		name, sent, want string
		work             time.Duration
	}{
		{"slow body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", " 503 ", 0},
		{"slow and too large", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nabc", " 413 ", 0},
		{"slow work", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", " 200 ", 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			name, work := c.name, c.work
			b := newBodies()
			i := &Inspector{Auth: NoAuth(), Service: &fake{}, Logger: slog.New(slog.DiscardHandler)}
			e := echo.New()
			e.HTTPErrorHandler = i.render
			e.POST("/", func(c echo.Context) error {
				_, release, err := b.readBody(c, MaxDocument)
				defer release()
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(c.Request().Context(), work)
				defer cancel()
				<-ctx.Done()
				if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("%s: the request was given up: %v", name, ctx.Err())
				}
				return c.NoContent(http.StatusOK)
			})
			if status := piped(t, e, c.sent); !strings.Contains(status, c.want) {
				t.Errorf("%s: %q", c.name, status)
			}
			if b.Held() != 0 {
				t.Errorf("%s: %d bytes are still counted", c.name, b.Held())
			}
		})
	}
}

// piped sends bytes to a server in this bubble and returns the first line that
// comes back.
func piped(t *testing.T, h http.Handler, text string) string {
	t.Helper()
	client, server := net.Pipe()
	ln := &one{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	ln.conn <- server
	srv := httpserver.New(httpserver.Options{Handler: h, Logger: slog.New(slog.DiscardHandler), Limits: httpserver.Limits{
		Header: time.Minute, Idle: time.Minute, Body: time.Minute, Stall: 10 * time.Second, BodyStep: 1, Write: time.Minute,
		Conns: 1, Share: 1,
	}})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	if _, err := io.WriteString(client, text); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(client).ReadString('\n')
	if err := errors.Join(err, client.Close(), srv.Close()); err != nil {
		t.Fatal(err)
	}
	<-served
	time.Sleep(time.Second) // in a bubble: net/http lingers on a connection it gives up
	return line
}

// one is a listener with one connection.
type one struct {
	conn   chan net.Conn
	closed chan struct{} // closed by Close
	once   sync.Once
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conn:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *one) Addr() net.Addr { return &net.TCPAddr{} }

// Many at once are told to come again before they take the memory; what they
// held is free again.
func TestAllBodiesTogetherAreBounded(t *testing.T) { synctest.Test(t, allBodiesTogether) }

func allBodiesTogether(t *testing.T) {
	b := newBodies()
	full := make([]func(), 0, admission.AllBodies/MaxDocument)
	read := func(size int) (release func(), err error) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", size)))
		_, release, err = b.readBody(echo.New().NewContext(r, httptest.NewRecorder()), MaxDocument)
		return release, err
	}
	var err error
	for err == nil {
		var release func()
		release, err = read(MaxDocument)
		full = append(full, release)
	}
	if status(err) != 503 || b.Held() > admission.AllBodies+2*MaxDocument {
		t.Errorf("%v with %d bytes held", err, b.Held())
	}
	for _, release := range full {
		release()
		release() // once too often is nothing
	}
	if b.Held() != 0 {
		t.Errorf("%d bytes are still counted", b.Held())
	}
	release, err := read(1000)
	defer release()
	if err != nil || b.Held() != 1001 {
		t.Errorf("%v, %d bytes for 1000", err, b.Held())
	}
}

// newBodies is the room for bodies of a peer of its own.
func newBodies() bodies { return bodies{admission.NewController().Bodies()} }
