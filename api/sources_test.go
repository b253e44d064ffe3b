package api

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
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

// Whoever must come again is counted, each time: the log has one line of a source.
func TestThrottledCallbacksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		h := (&Inspector{
			Service: &fake{}, Auth: NoAuth(), Logger: slog.New(slog.DiscardHandler),
			Callbacks: CallbackLimit{Rate: 1, Burst: 2, Refused: func() { told++ }},
		}).Handler()
		for range 5 {
			callFrom(h, "192.0.2.1:1024")
		}
		if told != 3 {
			t.Errorf("%d callbacks were told to come again, want 3", told)
		}
	})
}

// A rack of 200 machines behind one address boots at once, every machine calls
// twice, and then goes on at the rate; what comes on top is told when to come
// again and is never refused for good.
func TestARackBehindOneAddressPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		h := limitedAPI(t, &fake{}, slog.New(slog.NewTextHandler(&logged, nil)))
		for n := range 400 {
			if w := callFrom(h, fmt.Sprintf("192.0.2.1:%d", 1024+n)); w.Code != 200 {
				t.Fatalf("callback %d: %d %s", n, w.Code, w.Body)
			}
		}
		for range 100 {
			callFrom(h, "192.0.2.1:1024")
		}
		logged.Reset()
		for range 50 {
			w := callFrom(h, "192.0.2.1:1024")
			after, err := strconv.Atoi(w.Header().Get("Retry-After"))
			if w.Code != http.StatusServiceUnavailable || err != nil || after < 1 || after > 10 {
				t.Fatalf("over the limit: %d %s, Retry-After %q: a ramdisk takes a 4xx for final", w.Code, w.Body, w.Header().Get("Retry-After"))
			}
		}
		if lines := strings.Count(logged.String(), "\n"); lines != 1 || !strings.Contains(logged.String(), "source=192.0.2.1/32") {
			t.Errorf("50 refusals left %d lines: %s", lines, logged.String())
		}
		if w := callFrom(h, "192.0.2.2:1024"); w.Code != 200 {
			t.Errorf("a neighbour: %d", w.Code)
		}
		time.Sleep(time.Second)
		passed := 0
		for range 50 {
			if callFrom(h, "192.0.2.1:1024").Code == 200 {
				passed++
			}
		}
		if passed != 10 {
			t.Errorf("%d passed after a second, want 10", passed)
		}
	})
}

func TestWhatOneSourceIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limitedAPI(t, &fake{}, slog.New(slog.DiscardHandler))
		use := func(n int, address string, headers ...string) (last int) {
			for range n {
				last = callFrom(h, address, headers...).Code
			}
			return last
		}
		for _, c := range []struct {
			name, address string
			headers       []string
			want          int
		}{
			{"fill a /64", "[2001:db8::1]:1", nil, 503},
			{"its neighbour in it", "[2001:db8::ffff:2]:1", nil, 503},
			{"another /64", "[2001:db8:0:1::1]:1", nil, 200},
			{"an address, mapped", "[::ffff:192.0.2.9]:1", nil, 503},
			{"the same as it is", "192.0.2.9:1", nil, 503},
			{"this host", "127.0.0.1:1", nil, 200},
			{"a proxy here, for a machine", "127.0.0.1:1", []string{"X-Forwarded-For", "10.0.0.1, 192.0.2.77"}, 503},
			{"that machine", "192.0.2.77:1", nil, 503},
			{"whom it claims to stand for", "10.0.0.1:1", nil, 200},
			{"who may not say for whom", "198.51.100.1:1", []string{"X-Forwarded-For", "203.0.113.5"}, 503},
			{"whom that one named", "203.0.113.5:1", nil, 200},
			{"nonsense in the header", "127.0.0.1:1", []string{"X-Forwarded-For", "unknown"}, 200},
		} {
			n := 1
			if c.want == 503 && !strings.Contains(c.name, "neighbour") && !strings.HasPrefix(c.name, "the same") && !strings.HasPrefix(c.name, "that machine") {
				n = 501
			}
			if got := use(n, c.address, c.headers...); got != c.want {
				t.Errorf("%s: %d, want %d", c.name, got, c.want)
			}
		}
	})
}

// One that sends all it may, slowly, leaves as much to all others.
func TestOneSourceCannotHoldAllMemory(t *testing.T) {
	b := newBodies()
	from := visitors(2)
	read := func(of netip.Prefix) (func(), error) {
		r := httptest.NewRequest("POST", "/", io.LimitReader(zeros{}, MaxDocument))
		_, release, err := b.readOf(echo.New().NewContext(r, httptest.NewRecorder()), of)
		return release, err
	}
	var held []func()
	var err error
	for err == nil && len(held) < 100 {
		var release func()
		release, err = read(from[0])
		held = append(held, release)
	}
	if status(err) != 503 || b.Held() > maxDocuments/2+2*MaxDocument {
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
