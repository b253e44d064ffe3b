package ironic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatIsTriedAgain gives every status to every kind of call.
func TestWhatIsTriedAgain(t *testing.T) {
	for _, k := range calls {
		if strings.HasPrefix(k.name, "ping") || k.name == "delete no port" || k.name == "remove no trait" {
			continue
		}
		for status, again := range map[int]bool{400: false, 401: false, 403: false, 404: false, 405: false, 406: false,
			409: true, 413: false,
			429: true, 500: true, 501: false, 502: true, 503: true, 504: true, 507: false} {
			t.Run(fmt.Sprintf("%s %d", k.name, status), func(t *testing.T) {
				f := serve(t, fault(status, "because"), k.answer)
				got := k.do(t.Context(), dial(t, conf(f.URL)))
				err, failed := got[len(got)-1].(error)
				want := 1
				if k.name == "power" && (status == 500 || status == 502 || status == 504) {
					again = false // it may have been reset
				}
				if again || k.name == "patch node" && status == 400 { // it reads whether what it removes is gone
					want = 2
				}
				if n := len(f.seen()); n != want || failed == again {
					t.Errorf("%d tries, error %v", n, err)
				}
				if failed && asIronic(t, err).Status != status {
					t.Errorf("error is %v", err)
				}
			})
		}
	}
}

// TestTriesEnd counts the tries of a call that never succeeds.
func TestTriesEnd(t *testing.T) {
	f := serve(t, fault(503, "busy"))
	for _, retries := range []int{0, 1, 4} {
		before := len(f.seen())
		c := conf(f.URL)
		c.Retries = retries
		err := dial(t, c).SetPower(t.Context(), node1, PowerOff)
		if n := len(f.seen()) - before; n != retries+1 || err == nil || err.Error() != "busy" {
			t.Errorf("%d retries: %d tries, %v", retries, n, err)
		}
	}
}

// TestBrokenAnswers cuts connections before, within and after the header.
func TestBrokenAnswers(t *testing.T) {
	for _, part := range []string{"", "HTTP/1.1 200 OK\r\nContent-Le",
		"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"uuid\":"} {
		tries := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries == 2 {
				_, _ = io.WriteString(w, aNode) // the client checks
				return
			}
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, part) // the client checks
			_ = conn.Close()
		}))
		node, err := dial(t, conf(server.URL)).Node(t.Context(), node1)
		server.Close()
		if err != nil || node.UUID != node1 || tries != 2 {
			t.Errorf("after %q: %d tries, %v", part, tries, err)
		}
	}
}

// TestDoneIsDone breaks the answer to a power call after its status: to switch
// once more would be wrong.
func TestDoneIsDone(t *testing.T) {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries++
		w.Header().Set("Content-Length", "500")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "{") // and no more: the server closes the connection
	}))
	t.Cleanup(server.Close)
	if err := dial(t, conf(server.URL)).SetPower(t.Context(), node1, PowerReboot); err != nil || tries != 1 {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// network is an http.RoundTripper in the place of one.
type network func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r) }

// over returns a client whose requests go to n, with the default times.
func over(t *testing.T, n network) *Client {
	t.Helper()
	c := conf("http://ironic")
	s, err := newSessions(c, n)
	if err != nil {
		t.Fatal(err)
	}
	l := &line{sessions: s, retries: 5, interval: time.Second, timeout: 30 * time.Second, random: strings.NewReader("")}
	return l.client(nil)
}

func says(a answer) *http.Response {
	return &http.Response{StatusCode: a.status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(a.body))}
}

func TestTimesOfTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		c := over(t, func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(begin))
			return says(fault(409, "locked")), nil
		})
		err := c.SetPower(t.Context(), node1, PowerOff)
		if e := asIronic(t, err); e.Status != 409 || fmt.Sprint(at) != "[0s 1s 2s 3s 4s 5s]" {
			t.Errorf("tries at %v: %v", at, err)
		}
	})
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := over(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		})
		_, err := c.Node(t.Context(), node1)
		e := asIronic(t, err)
		if took := time.Since(begin); took != 6*30*time.Second+5*time.Second {
			t.Errorf("took %v", took)
		}
		if e.Error() != "no answer from Ironic: nothing came within 30s (6 tries)" || !Unjudged(err) ||
			errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		begin = time.Now()
		err = c.Ping(t.Context())
		if took := time.Since(begin); took != pingTimeout || !Unjudged(err) {
			t.Errorf("ping took %v: %v", took, err)
		}
	})
}

// TestCallerLeaves ends the caller's context during a try and between two.
func TestCallerLeaves(t *testing.T) {
	for _, after := range []time.Duration{time.Second / 2, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			slow := true
			c := over(t, func(r *http.Request) (*http.Response, error) {
				if slow = !slow; slow {
					<-r.Context().Done()
					return nil, context.Cause(r.Context())
				}
				return says(fault(503, "busy")), nil
			})
			begin := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(after, cancel)
			_, err := c.Node(ctx, node1)
			if took := time.Since(begin); took != after || !errors.Is(err, context.Canceled) {
				t.Errorf("after %v of %v: %v", took, after, err)
			}
			if Unjudged(err) != (after < time.Second) {
				t.Errorf("after %v: %v is taken for Ironic's silence, or Ironic's 503 is not", after, err)
			}
		})
	}
}

func TestCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := over(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, context.Cause(r.Context())
		})
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		begin := time.Now()
		_, err := c.Node(ctx, node1)
		if took := time.Since(begin); took != 7*time.Second || !errors.Is(err, context.DeadlineExceeded) ||
			!Unjudged(err) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// A reset that Ironic may have carried out goes out once: its answer is lost, on a connection or
// in a gateway, and the machine's boot device may be for one boot. To switch off is repeated.
func TestResetIsNotRepeated(t *testing.T) {
	for target, want := range map[string]int{PowerReboot: 1, PowerOff: 2} {
		tries := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries == 1 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusAccepted)
		}))
		err := dial(t, conf(server.URL)).SetPower(t.Context(), node1, target)
		server.Close()
		if tries != want || (err == nil) == (want == 1) || want == 1 && !Unknown(err) {
			t.Errorf("reset-repeated: %s: %d tries, %v", target, tries, err)
		}
	}
}

// What changes something is tried again after a reading of its own: none before the first try,
// which its caller made, and one before each other. What the reading finds ends the call.
func TestFurtherTriesAreReread(t *testing.T) {
	inUse := errors.New("another user has it")
	for _, k := range calls {
		if k.name == "delete no port" || k.name == "remove no trait" || strings.HasPrefix(k.name, "ping") {
			continue
		}
		reads := 0
		f := serve(t, fault(409, "locked"), fault(409, "locked"), k.answer)
		ctx := WithReread(t.Context(), func(context.Context) error { reads++; return nil })
		changes := !strings.HasPrefix(k.line, "GET ")
		k.do(ctx, dial(t, conf(f.URL)))
		if n := len(f.seen()); changes != (reads == 2) || !changes && reads > 0 || n != 3 {
			t.Errorf("reread: %s: %d readings for %d tries", k.name, reads, n)
		}
		if !changes {
			continue
		}
		f = serve(t, fault(409, "locked"), k.answer)
		got := k.do(WithReread(t.Context(), func(context.Context) error { return inUse }), dial(t, conf(f.URL)))
		err, _ := got[len(got)-1].(error)
		if n := len(f.seen()); n != 1 || !errors.Is(err, inUse) {
			t.Errorf("reread: %s: %d tries, %v", k.name, n, err)
		}
	}
}
