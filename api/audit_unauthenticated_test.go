package api

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer may be written by handlers of many requests.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) lines(t testing.TB) []auditLine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return auditLines(t, &b.text)
}

// Requests without credentials leave few lines, however many they are, and each
// request of a user who logged in has its own.
func TestUnauthenticatedRequestsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a minute's worth of lines is left at once
		log := new(lockedBuffer)
		h := (&Inspector{Service: &fake{}, Auth: testAuth(t), MaxLimit: 1,
			Logger: slog.New(slog.NewJSONHandler(log, nil))}).Handler()
		post := func(from string, prove func(*http.Request)) int {
			r := httptest.NewRequest("POST", statusPath, nil)
			r.RemoteAddr = from + ":1024"
			prove(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		const connections, each, users = 8, 300, 30
		var all sync.WaitGroup
		for n := range connections {
			from := []string{"127.0.0.2", "127.0.0.3"}[n%2]
			all.Go(func() {
				for range each {
					if code := post(from, func(*http.Request) {}); code != 401 {
						t.Errorf("without credentials: %d", code)
					}
				}
			})
		}
		for range users {
			if code := post("127.0.0.2", func(r *http.Request) { r.SetBasicAuth("admin", "secret") }); code != 202 {
				t.Errorf("with credentials: %d", code)
			}
		}
		all.Wait()
		counts := make(map[string]int)
		for _, l := range log.lines(t) {
			counts[l.Who+" "+l.From]++
		}
		if counts["admin 127.0.0.2"] != users {
			t.Errorf("%d requests of the user left %d lines", users, counts["admin 127.0.0.2"])
		}
		if n := counts["unauthenticated 127.0.0.2"] + counts["unauthenticated 127.0.0.3"]; n == 0 || n > 2*unprovedPerSource {
			t.Errorf("fills-the-log: %d requests without credentials left %d lines, want at most %d", connections*each, n,
				2*unprovedPerSource)
		}
	})
}

// What got no line is counted by source, in a line a minute; the table is bounded.
func TestUnauthenticatedRequestsAreCountedBySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(lockedBuffer)
		i := &Inspector{Service: &fake{}, Auth: testAuth(t), MaxLimit: 1, Logger: slog.New(slog.NewJSONHandler(log, nil))}
		h := i.Handler()
		post := func(from netip.Addr) {
			r := httptest.NewRequest("POST", statusPath, nil)
			r.RemoteAddr = netip.AddrPortFrom(from, 1024).String()
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		for range 1000 {
			post(netip.MustParseAddr("192.0.2.1"))
		}
		for n := range 3000 {
			post(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 0, byte(n >> 8), byte(n), 15: 1}))
		}
		if n := len(log.lines(t)); n != unprovedInAll {
			t.Errorf("%d lines, want %d", n, unprovedInAll)
		}
		time.Sleep(unprovedEvery)
		synctest.Wait()
		counts := log.repeated(t)
		if len(counts) != unprovedNamed+1 || counts["192.0.2.1/32"] != 1000-unprovedPerSource {
			t.Errorf("counts are %v", counts)
		}
		total := 0
		for _, n := range counts {
			total += n
		}
		if total != 4000-unprovedInAll {
			t.Errorf("%d of 4000 requests are counted, and %d have a line", total, unprovedInAll)
		}
		post(netip.MustParseAddr("192.0.2.1"))
		time.Sleep(2 * unprovedEvery)
		synctest.Wait()
		if n := len(log.lines(t)); n != unprovedInAll+unprovedNamed+1+1 {
			t.Errorf("%d lines: a request in the next minute has one of its own", n)
		}
	})
}

// repeated returns the counts by source.
func (b *lockedBuffer) repeated(t testing.TB) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := make(map[string]int)
	for line := range bytes.Lines(b.text.Bytes()) {
		var l struct {
			Audit struct {
				From     string
				Repeated int
			}
		}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		if l.Audit.Repeated > 0 {
			counts[l.Audit.From] = l.Audit.Repeated
		}
	}
	return counts
}
