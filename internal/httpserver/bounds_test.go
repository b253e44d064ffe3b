package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// limits are those of a server in a bubble.
var limits = Limits{
	Header: 10 * time.Second, Idle: 2 * time.Minute, Body: time.Minute, Stall: 10 * time.Second, BodyStep: 1000,
	Write: 20 * time.Second, Conns: 8, Share: 4,
}

// pipes is a listener whose callers are in this process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{} // closed by Close
	once   sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial serves h, as long as the test runs, and returns a connection to it.
func dial(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := New(Options{Handler: h, Limits: limits, Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	client, server := net.Pipe()
	ln.conns <- server // in a bubble
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) { // in a bubble
			t.Error(err)
		}
		time.Sleep(time.Second) // in a bubble: net/http lingers on a connection it gives up
	})
	return client
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// answer reads a status line, or why there is none.
func answer(c net.Conn) string {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	return resp.Status
}

// TestParameters: a query of many parameters is refused before they are parsed.
func TestParameters(t *testing.T) {
	for n, want := range map[int]string{maxParameters: "200 OK", maxParameters + 1: "400 Bad Request"} {
		synctest.Test(t, func(t *testing.T) {
			c := dial(t, func(http.ResponseWriter, *http.Request) {})
			send(t, c, "GET /?"+strings.Repeat("a&", n-1)+"a HTTP/1.1\r\nHost: x\r\n\r\n")
			if got := answer(c); got != want {
				t.Errorf("query-parameters: %d of them: %s, want %s", n, got, want)
			}
		})
	}
}

// TestUnsentBody: the server waits no longer for a body that its handler does not read.
func TestUnsentBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, func(http.ResponseWriter, *http.Request) {})
		began := time.Now()
		send(t, c, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
		if got, took := answer(c), time.Since(began); got != "200 OK" || took != limits.Stall {
			t.Errorf("unsent-body: %s after %v, want 200 OK after %v", got, took, limits.Stall)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("unsent-body: the connection stays open: %v", err)
		}
	})
}

// TestBodies: a body that arrives may take its time, one that stalls is cut.
func TestBodies(t *testing.T) {
	for _, c := range []struct {
		name  string
		piece int // each second
		after time.Duration
		end   error
	}{
		{"it stalls", 0, limits.Stall, os.ErrDeadlineExceeded},
		{"it trickles", 99, limits.Stall, os.ErrDeadlineExceeded},
		{"it is slow", 130, 20 * time.Second, nil},
		{"it is slow for too long", 130, limits.Body, os.ErrDeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			var took time.Duration
			var failed error
			size := 20 * c.piece
			if c.end != nil {
				size = 100_000
			}
			conn := dial(t, func(_ http.ResponseWriter, r *http.Request) {
				began := time.Now()
				_, failed = io.Copy(io.Discard, r.Body)
				took = time.Since(began)
			})
			send(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size))
			for sent := 0; c.piece > 0 && sent < size; sent += c.piece {
				time.Sleep(time.Second) // in a bubble
				if _, err := conn.Write(make([]byte, c.piece)); err != nil {
					break // it was cut
				}
			}
			got := answer(conn)
			if !errors.Is(failed, c.end) || took != c.after {
				t.Errorf("body-pace: %s: %v after %v (answer %s), want %v after %v", c.name, failed, took, got, c.end, c.after)
			}
		})
	}
}

// TestWorkIsNoDelayOfTheBody: neither what is done before a body is read nor the
// wait for the answer counts.
func TestWorkIsNoDelayOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * limits.Body) // in a bubble
			text, err := io.ReadAll(r.Body)
			if err != nil || string(text) != "abc" {
				t.Errorf("%q %v", text, err)
			}
			select {
			case <-r.Context().Done():
				t.Errorf("the request was given up: %v", r.Context().Err())
			case <-time.After(2 * limits.Body): // in a bubble
			}
		})
		send(t, c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
		if got := answer(c); got != "200 OK" {
			t.Error(got)
		}
	})
}

// TestAnswers: an answer that is taken slowly is whole, one that is not taken ends.
func TestAnswers(t *testing.T) {
	const size = 4 * writePiece
	serve := func(t *testing.T) (net.Conn, *error) {
		var failed error
		c := dial(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, failed = w.Write(make([]byte, size))
		})
		send(t, c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		return c, &failed
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := serve(t)
		resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		began, got := time.Now(), 0
		for step := make([]byte, writePiece/2); err == nil; {
			time.Sleep(limits.Write/2 - time.Second) // in a bubble
			var n int
			n, err = io.ReadFull(resp.Body, step)
			got += n
		}
		if got != size || time.Since(began) < 3*limits.Write {
			t.Errorf("slow-answer: %d of %d bytes after %v: %v", got, size, time.Since(began), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, failed := serve(t)
		time.Sleep(limits.Write + time.Millisecond) // in a bubble
		synctest.Wait()
		if !errors.Is(*failed, os.ErrDeadlineExceeded) {
			t.Errorf("unread-answer: after %v: %v", limits.Write, *failed)
		}
	})
}

// TestHeads: the lines of each head are bounded, however they arrive, and nothing
// else is counted.
func TestHeads(t *testing.T) {
	head := func(lines int) string {
		return "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n" + strings.Repeat("a:\r\n", lines-3) + "\r\n"
	}
	lines := strings.Repeat("\r\n", 2000)
	for _, c := range []struct {
		name string
		sent []string
		want string
	}{
		{"as many as allowed", []string{head(maxHeaderLines) + lines}, "200 OK"},
		{"one too many", []string{head(maxHeaderLines+1) + lines}, "431 Request Header Fields Too Large"},
		{"without an end", []string{"GET / HTTP/1.1\r\nHost: x\r\n", strings.Repeat("a:\n", 101)},
			"431 Request Header Fields Too Large"},
		{"the second one, after empty lines", []string{head(60) + lines, "\r\n\r\n" + head(101)}, "200 OK"},
		{"each by itself", []string{head(60) + lines, head(60) + lines}, "200 OK"},
		{"in pieces", []string{head(60)[:7], head(60)[7:] + lines[:9], lines[9:]}, "200 OK"},
		{"the second one", []string{head(60) + lines, head(101)}, "200 OK"},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := dial(t, func(_ http.ResponseWriter, r *http.Request) {
				if n, err := io.Copy(io.Discard, r.Body); n != r.ContentLength && r.ContentLength > 0 {
					t.Errorf("%s: %d bytes of a body: %v", c.name, n, err)
				}
			})
			go func() {
				for _, text := range c.sent {
					if _, err := io.WriteString(conn, text); err != nil {
						return // it was refused
					}
				}
			}()
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.Status != c.want {
				t.Fatalf("header-lines: %s: %v %v, want %s", c.name, resp, err, c.want)
			}
			if second := map[string]string{"each by itself": "200 OK", "the second one": "431",
				"the second one, after empty lines": "431"}[c.name]; second != "" {
				resp, err := http.ReadResponse(in, nil)
				if err != nil || !strings.HasPrefix(resp.Status, second) {
					t.Errorf("header-lines: %s: %v %v, want %s", c.name, resp, err, second)
				}
			}
		})
	}
}

// TestWaitingForRoomIsNoDelayOfTheBody: a body whose reader stops for others has its time
// when it goes on.
func TestWaitingForRoomIsNoDelayOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		conn := dial(t, func(_ http.ResponseWriter, r *http.Request) {
			_, failed = io.ReadFull(r.Body, make([]byte, 10))
			time.Sleep(2 * limits.Body) // in a bubble
			_, err := io.Copy(io.Discard, r.Body)
			failed = errors.Join(failed, err)
		})
		send(t, conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n0123456789")
		time.Sleep(2*limits.Body + limits.Stall/2) // in a bubble
		_, sent := conn.Write([]byte("0123456789"))
		if got := answer(conn); got != "200 OK" || failed != nil || sent != nil {
			t.Errorf("body-waits: %s, %v, %v", got, failed, sent)
		}
	})
}

// TestWhenARequestArrived: the first of a connection with it, however long that waits for
// its turn; a further one when it comes.
func TestWhenARequestArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived := make(chan time.Time, 2)
		began := time.Now()
		conn := dial(t, func(_ http.ResponseWriter, r *http.Request) { arrived <- Arrived(r.Context()) })
		for _, want := range []time.Duration{0, 2 * time.Second} {
			time.Sleep(time.Second) // in a bubble
			send(t, conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if got := answer(conn); got != "200 OK" {
				t.Fatal(got)
			}
			if at := <-arrived; at.Sub(began) != want { // in a bubble
				t.Errorf("request-arrived: after %v, want %v", at.Sub(began), want)
			}
		}
	})
}
