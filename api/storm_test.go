package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm/eventring"
)

// follower reads a stream of events to the last one, or pages of them.
type follower struct {
	http.ResponseWriter
	began       time.Time
	seen        int           // events
	first, last time.Duration // after which it had the first of them, and all
	stop        context.CancelFunc
}

// Write implements io.Writer.
func (f *follower) Write(p []byte) (int, error) {
	n := bytes.Count(p, []byte(`"id":"`))
	if f.seen == 0 && n > 0 {
		f.first = time.Since(f.began)
	}
	if f.seen += n; f.seen >= storm {
		f.last = time.Since(f.began)
		f.stop()
	}
	return len(p), nil
}

func (f *follower) Flush() {}

const storm = 8600 // events that readers are behind

// readers come again at once.
type readers struct {
	readers, sources int
	stream           bool
	query            string
	least            time.Duration // it lasts so long: more at once would keep the log waiting
}

// After a change of leader all readers of events come again at once, with thousands of
// events to catch up. They have the first ones soon and all in the end, each in its turn,
// and take no place of those who ask for something else.
func TestAStormOfReadersTakesNoPlaces(t *testing.T) {
	for name, c := range map[string]readers{
		"streams from many":         {1000, 1000, true, "", 15 * time.Second},
		"streams from one":          {600, 1, true, "", 10 * time.Second},
		"streams of one kind":       {100, 10, true, "&kind=warning", time.Second},
		"pages":                     {300, 300, false, "", 4 * time.Second},
		"pages of a node, from one": {300, 1, false, "&node=00000000-0000-4000-8000-000000000001", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, c.test)
		})
	}
}

func (c readers) test(t *testing.T) {
	const firstWithin, allWithin, listWithin = 3 * time.Second, 90 * time.Second, 100 * time.Millisecond
	l := newEventLog(t)
	hub := events.NewHub(l)
	after := l.last()
	l.storm()
	i := &Inspector{Service: &fake{}, Auth: NoAuth(), MaxLimit: 1, ClusterReads: ClusterReads{Events: hub}}
	i.Logger = slog.New(slog.DiscardHandler)
	h := i.Handler()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	all := make([]*follower, c.readers)
	var following sync.WaitGroup
	for n := range all {
		f := &follower{ResponseWriter: httptest.NewRecorder(), began: time.Now()}
		all[n] = f
		mine, stop := context.WithCancel(ctx)
		f.stop = stop
		following.Go(func() {
			from := fmt.Sprintf("10.0.%d.%d:1", n%c.sources>>8, n%c.sources&255)
			f.follow(mine, h, c.stream, after, c.query, from)
		})
	}
	for range 100 {
		began := time.Now()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/v1/rules", http.NoBody)
		r.RemoteAddr = "192.0.2.1:1"
		h.ServeHTTP(w, r)
		if took := time.Since(began); w.Code != http.StatusOK || took > listWithin {
			t.Errorf("storm-lists: a list is answered %d after %v", w.Code, took)
		}
		time.Sleep(100 * time.Millisecond) // in a bubble
	}
	following.Wait()
	var first, last time.Duration
	for _, f := range all {
		first, last = max(first, f.first), max(last, f.last)
		if f.seen != storm && !strings.Contains(c.query, "node") {
			t.Errorf("storm-ends: a reader saw %d events of %d", f.seen, storm)
			break
		}
	}
	if last < c.least {
		t.Errorf("storm-paced: all had all events after %v, want %v at least", last, c.least)
	}
	if first > firstWithin || last > allWithin {
		t.Errorf("storm-ends: each had its first event after %v, and all events after %v", first, last)
	}
	hub.Close()
}

// storm commits as many events.
func (l *eventLog) storm() {
	const text = "Another program changed the rules of the PXE filter on h1, time %d; they were rebuilt."
	for n := range storm / 50 {
		texts := make([]string, 50)
		for i := range texts {
			texts[i] = fmt.Sprintf(text, 50*n+i)
		}
		l.report(eventring.TopicWarning, texts...)
	}
}

// follow reads until it has seen all, or is told to stop.
func (f *follower) follow(ctx context.Context, h http.Handler, stream bool, after, query, from string) {
	for ctx.Err() == nil {
		r := httptest.NewRequestWithContext(ctx, "GET", "/v1/events?after="+after+query, http.NoBody)
		r.RemoteAddr = from
		if stream {
			r.Header.Set("Accept", "text/event-stream")
			h.ServeHTTP(f, r)
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			return
		}
		text := w.Body.String()
		_, _ = f.Write(w.Body.Bytes())
		_, last, _ := strings.Cut(text, `"last":"`)
		last, _, _ = strings.Cut(last, `"`)
		if last == after {
			return
		}
		after = last
	}
}
