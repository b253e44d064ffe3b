package api

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// limitedAPI is an API with the limits of the defaults, behind which f is.
func limitedAPI(t testing.TB, f *fake, logger *slog.Logger) http.Handler {
	i := &Inspector{
		Service: f, Auth: NoAuth(), MaxLimit: 1, Logger: logger,
		Callbacks: CallbackLimit{Rate: 10, Burst: 500}, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	return checked(t, i.Handler())
}

// callFrom sends a callback from an address; headers come in pairs.
func callFrom(h http.Handler, address string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/v1/continue", strings.NewReader("{}"))
	r.RemoteAddr = address
	for n := 0; n+1 < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// callTogether sends so many callbacks from an address at once, and returns how many were
// answered with which status.
func callTogether(h http.Handler, n int, address string, headers ...string) map[int]int {
	var mu sync.Mutex
	var calling sync.WaitGroup
	answered := make(map[int]int)
	for range n {
		calling.Go(func() {
			w := callFrom(h, address, headers...)
			mu.Lock()
			defer mu.Unlock()
			answered[w.Code]++
			if after, err := strconv.Atoi(w.Header().Get("Retry-After")); w.Code == 503 &&
				(err != nil || after < 1 || after > 21) {
				answered[-1]++ // without a time to come again
			}
		})
	}
	calling.Wait()
	return answered
}

// Whoever must come again is counted, each time: the log has one line of a source.
func TestThrottledCallbacksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		h := (&Inspector{
			Service: &fake{}, Auth: NoAuth(), Logger: slog.New(slog.DiscardHandler),
			Callbacks: CallbackLimit{Rate: 1, Burst: 2, Refused: func() { told.Add(1) }},
		}).Handler()
		if answered := callTogether(h, 50, "192.0.2.1:1024"); told.Load() != int64(answered[503]) || answered[503] < 28 {
			t.Errorf("%d callbacks were told to come again, answers %v", told.Load(), answered)
		}
	})
}

// A rack of 200 machines behind one address boots at once, every machine calls
// twice, and then goes on at the rate: what comes on top waits for as long as its ramdisk
// does, and is told when to come again when that would take longer.
func TestARackBehindOneAddressPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		h := limitedAPI(t, &fake{}, slog.New(slog.NewTextHandler(&logged, nil)))
		began := time.Now()
		if answered := callTogether(h, 500, "192.0.2.1:1024"); answered[200] != 500 || time.Since(began) > 0 {
			t.Fatalf("callback-burst: %v in %v", answered, time.Since(began))
		}
		logged.Reset()
		answered := callTogether(h, 400, "192.0.2.1:1024")
		if took := time.Since(began); answered[200] < 170 || answered[200] > 210 || answered[503] != 400-answered[200] ||
			answered[-1] > 0 || took > admission.CallbackWait {
			t.Errorf("callback-waits: over the limit: %v in %v; a ramdisk takes a 4xx for final", answered, took)
		}
		if lines := strings.Count(logged.String(), "level=WARN"); lines != 1 ||
			!strings.Contains(logged.String(), "source=192.0.2.1/32") {
			t.Errorf("%d refusals left %d lines: %s", answered[503], lines, logged.String())
		}
		began = time.Now()
		if w := callFrom(h, "192.0.2.2:1024"); w.Code != 200 || time.Since(began) > 0 {
			t.Errorf("a neighbour: %d after %v", w.Code, time.Since(began))
		}
	})
}

func TestWhatOneSourceIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limitedAPI(t, &fake{}, slog.New(slog.DiscardHandler))
		use := func(n int, address string, headers ...string) (waits bool) {
			began := time.Now()
			for range n {
				if code := callFrom(h, address, headers...).Code; code != 200 {
					t.Errorf("%s: %d", address, code)
				}
			}
			return time.Since(began) > 0
		}
		for _, c := range []struct {
			name, address string
			headers       []string
			want          bool // it waits
		}{
			{"fill a /64", "[2001:db8::1]:1", nil, true},
			{"its neighbour in it", "[2001:db8::ffff:2]:1", nil, true},
			{"another /64", "[2001:db8:0:1::1]:1", nil, false},
			{"an address, mapped", "[::ffff:192.0.2.9]:1", nil, true},
			{"the same as it is", "192.0.2.9:1", nil, true},
			{"this host", "127.0.0.1:1", nil, false},
			{"a proxy here, for a machine", "127.0.0.1:1", []string{"X-Forwarded-For", "10.0.0.1, 192.0.2.77"}, true},
			{"that machine", "192.0.2.77:1", nil, true},
			{"whom it claims to stand for", "10.0.0.1:1", nil, false},
			{"who may not say for whom", "198.51.100.1:1", []string{"X-Forwarded-For", "203.0.113.5"}, true},
			{"whom that one named", "203.0.113.5:1", nil, false},
			{"nonsense in the header", "127.0.0.1:1", []string{"X-Forwarded-For", "unknown"}, false},
		} {
			n := 1
			if c.want && !strings.Contains(c.name, "neighbour") && !strings.HasPrefix(c.name, "the same") &&
				!strings.HasPrefix(c.name, "that machine") {
				n = 501
			}
			if got := use(n, c.address, c.headers...); got != c.want {
				t.Errorf("%s: waits %v, want %v", c.name, got, c.want)
			}
		}
	})
}

// One that sends all it may, slowly, leaves as much to all others.
func TestOneSourceCannotHoldAllMemory(t *testing.T) {
	synctest.Test(t, oneSourceHoldsAll)
}

func oneSourceHoldsAll(t *testing.T) {
	b := newBodies()
	from := visitors(2)
	read := func(of netip.Prefix) (func(), error) {
		r := httptest.NewRequest("POST", "/", io.LimitReader(zeros{}, MaxDocument))
		_, release, err := b.receive(httptest.NewRecorder(), r, &sender{source: of}, MaxDocument, nil)
		return release, err
	}
	var held []func()
	var err error
	for err == nil && len(held) < 100 {
		var release func()
		release, err = read(from[0])
		held = append(held, release)
	}
	if status(err) != 503 || b.Held() > admission.BodiesOfSource {
		t.Errorf("%v, %d bytes held", err, b.Held())
	}
	release, err := read(from[1])
	if err != nil {
		t.Errorf("a neighbour: %v", err)
	}
	for _, release := range append(held, release) {
		release()
	}
	if b.Held() != 0 {
		t.Errorf("%d bytes are still counted", b.Held())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
