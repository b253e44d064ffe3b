package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// processing is a service that takes as long as a peer does: it computes for a large
// document in a place for those, and then waits for the log and a worker.
type processing struct {
	*fake
	computes, waits time.Duration
}

func (p processing) Continue(ctx context.Context, body []byte) (string, error) {
	err := admission.Of(ctx).Document(ctx, func() error {
		time.Sleep(p.computes) // in a bubble
		return nil
	})
	if err != nil {
		return "", err
	}
	time.Sleep(p.waits) // in a bubble
	return node, nil
}

// expectedMAC is the MAC of a machine under introspection; others are unknown.
func expectedMAC(n int) string { return fmt.Sprintf("52:54:c1:00:%02x:%02x", n>>8, n&255) }

func expected(beginning []byte) (string, bool) {
	_, mac, ok := bytes.Cut(beginning, []byte(`"52:54:c1`))
	if !ok {
		return "", false
	}
	return string(mac[:9]), true
}

// agents are ramdisks that call together, as ironic-python-agent does.
type agents struct {
	h       http.Handler
	size    int
	sources int
	named   bool // the document begins with the machine's MAC

	mu    sync.Mutex
	taken [6]int // at which attempt; 0: at none
	said  map[string]int
}

// post sends a document once. A body of one sender after the other is read.
func (a *agents) post(n int, body io.Reader) (status int, took time.Duration) {
	r := httptest.NewRequest("POST", "/v1/continue", body)
	r.ContentLength = int64(a.size)
	r.RemoteAddr = fmt.Sprintf("10.1.%d.%d:1024", n%a.sources>>8, n%a.sources&255)
	w := httptest.NewRecorder()
	began := time.Now()
	a.h.ServeHTTP(w, r)
	return w.Code, time.Since(began)
}

// call is the callback of one machine: five attempts, repeated after 5xx alone; no answer
// within 30 s is final.
func (a *agents) call(n int) {
	head := `{"inventory":{"interfaces":[`
	if a.named {
		head += `{"mac_address":"` + expectedMAC(n) + `"}`
	}
	for attempt, pause := range []time.Duration{5, 5, 6, 12, 0} {
		status, took := a.post(n, io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, int64(a.size-len(head)))))
		if a.note(attempt+1, status, took) {
			return
		}
		time.Sleep(pause * time.Second) // in a bubble
	}
	a.note(0, 200, 0)
}

func (a *agents) note(attempt, status int, took time.Duration) (over bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case took > 29*time.Second:
		a.said["late"]++
		attempt = 0
	case status != 200:
		a.said[fmt.Sprint(status)]++
		return status < 500
	}
	a.taken[attempt]++
	return true
}

// strangers post documents of no machine that is expected, again and again, until stop.
func (a *agents) strange(stop context.Context, flood *sync.WaitGroup, count, sources int, slow bool) {
	for n := range count {
		flood.Go(func() {
			for stop.Err() == nil {
				ends := &ending{body: make(chan struct{})}
				body := io.Reader(&stalled{4 << 10, ends.body})
				if !slow {
					body = io.LimitReader(zeros{}, int64(a.size))
				}
				r := httptest.NewRequest("POST", "/v1/continue", body)
				r.ContentLength = MaxDocument
				if !slow {
					r.ContentLength = int64(a.size)
				}
				r.RemoteAddr = fmt.Sprintf("10.1.%d.%d:1024", n%sources>>8, n%sources&255)
				time.AfterFunc(10*time.Second, ends.end) // as the server does with one that sends nothing
				a.h.ServeHTTP(deadlined{httptest.NewRecorder(), ends}, r)
			}
		})
	}
}

// TestNoRamdiskFailsForWantOfRoom: those that call together are all taken before they give
// up, from one source and from many, known or not, next to strangers who send and who stall.
func TestNoRamdiskFailsForWantOfRoom(t *testing.T) {
	for _, c := range []struct {
		name             string
		agents, size     int
		sources          int
		named            bool
		strangers, their int // how many, and of how many sources
		slow             bool
		computes         time.Duration // for one document
	}{
		{"one source", 1000, 1 << 20, 1, true, 0, 0, false, 10 * time.Millisecond},
		{"a source each", 1000, 1 << 20, 1000, true, 0, 0, false, 10 * time.Millisecond},
		{"a slow peer", 300, 1 << 20, 1, true, 0, 0, false, 200 * time.Millisecond},
		{"small documents", 2000, 30 << 10, 1, true, 0, 0, false, 0},
		{"the largest documents", 60, MaxDocument, 1, true, 0, 0, false, 60 * time.Millisecond},
		{"unknown machines, one source", 1000, 1 << 20, 1, false, 0, 0, false, 5 * time.Millisecond},
		{"unknown machines, a source each", 1000, 1 << 20, 1000, false, 0, 0, false, 5 * time.Millisecond},
		{"next to strangers of the same source", 300, 1 << 20, 1, true, 300, 1, false, 10 * time.Millisecond},
		{"next to strangers of many sources", 300, 1 << 20, 1, true, 300, 300, false, 10 * time.Millisecond},
		{"next to slow strangers", 300, 1 << 20, 1, true, 500, 250, true, 10 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := &Inspector{
					Service: processing{&fake{}, c.computes, 300 * time.Millisecond}, Auth: NoAuth(), MaxLimit: 1,
					Logger:    slog.New(slog.DiscardHandler),
					Callbacks: CallbackLimit{Rate: 10, Burst: 1000, Expected: expected},
				}
				a := &agents{h: i.Handler(), size: c.size, sources: c.sources, named: c.named, said: make(map[string]int)}
				stop, quiet := context.WithCancel(t.Context())
				var flood, calling sync.WaitGroup
				a.strange(stop, &flood, c.strangers, max(c.their, 1), c.slow)
				synctest.Wait()
				began := time.Now()
				for n := range c.agents {
					calling.Go(func() { a.call(n) })
				}
				calling.Wait()
				took := time.Since(began)
				quiet()
				flood.Wait()
				if a.taken[0] > 0 || a.taken[1]+a.taken[2]+a.taken[3]+a.taken[4]+a.taken[5] != c.agents {
					t.Errorf("ramdisks-pass: of %d, at attempt 1 to 5 %v are taken, and %d never; refusals %v", c.agents, a.taken[1:],
						a.taken[0], a.said)
				}
				t.Logf("%v at the attempts 1 to 5, %v; all in %v", a.taken[1:], a.said, took)
			})
		})
	}
}

// What was not read for want of room counts for no rate: its repeat does.
func TestWhatFoundNoRoomDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &Inspector{Auth: NoAuth(), Service: &fake{}, Logger: slog.New(slog.DiscardHandler),
			Callbacks: CallbackLimit{Rate: 1, Burst: 50}}
		i.Admission = admission.NewController()
		documents := bodies{i.Admission.Bodies()}
		e := NewEcho()
		e.HTTPErrorHandler = i.render
		e.POST("/v1/continue", i.callback(newCallbackRates(i.Callbacks, i.Logger), documents))
		h := Identified(e)
		var held []*admission.Room
		for _, source := range visitors(2) {
			room, err := documents.Reserve(t.Context(), source, false, admission.BodiesOfSource, 0, func() {})
			if err != nil {
				t.Fatal(err)
			}
			room.Settle()
			held = append(held, room)
		}
		a := &agents{h: h, size: 1 << 20, sources: 1, said: make(map[string]int)}
		together := func() (passed int, longest time.Duration) {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					status, took := a.post(1, io.LimitReader(zeros{}, int64(a.size)))
					a.mu.Lock()
					defer a.mu.Unlock()
					if longest = max(longest, took); status == 200 {
						passed++
					}
				})
			}
			all.Wait()
			return passed, longest
		}
		if passed, longest := together(); passed != 0 || longest < admission.CallbackWait-spreadWaits ||
			longest > admission.CallbackWait {
			t.Errorf("room-none: %d passed without room; the longest wait %v", passed, longest)
		}
		for _, room := range held {
			room.Release()
		}
		if passed, longest := together(); passed != 50 || longest > 5*time.Second {
			t.Errorf("room-counts: %d of 50 passed, after %v: their first attempt counted", passed, longest)
		}
	})
}
