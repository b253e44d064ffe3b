package dev

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// script answers the calls of a client one after the other, whichever peer
// they go to: "METHOD status body", or "METHOD cut".
type script struct {
	t *testing.T

	mu    sync.Mutex
	lines []string
	hosts []string // that were asked, in order
}

// ServeHTTP implements http.Handler.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = append(s.hosts, r.Host)
	if len(s.lines) == 0 {
		s.t.Errorf("unexpected %s %s", r.Method, r.URL)
		panic(http.ErrAbortHandler)
	}
	method, answer, _ := strings.Cut(s.lines[0], " ")
	s.lines = s.lines[1:]
	if method != r.Method {
		s.t.Errorf("%s %s, want %s", r.Method, r.URL, method)
	}
	if answer == "cut" {
		panic(http.ErrAbortHandler)
	}
	var status int
	var body string
	if _, err := fmt.Sscanf(answer, "%d", &status); err != nil {
		s.t.Errorf("line %q: %v", answer, err)
	}
	_, body, _ = strings.Cut(answer, " ")
	w.WriteHeader(status)
	if _, err := w.Write([]byte(body)); err != nil {
		s.t.Error(err)
	}
}

// scripted returns a client of three peers that follow one script.
func scripted(t *testing.T, lines ...string) (*client, *script) {
	s := &script{t: t, lines: lines}
	var servers []string
	for range size {
		srv := httptest.NewServer(s)
		t.Cleanup(srv.Close)
		servers = append(servers, srv.URL)
	}
	c := newClient(servers)
	c.http.Transport = &http.Transport{DisableKeepAlives: true} // else a GET that was cut is repeated
	return c, s
}

func TestStart(t *testing.T) {
	const begun, old = `GET 200 {"state":"starting","started_at":"2"}`, `GET 200 {"state":"error","started_at":"1"}`
	for _, c := range []struct {
		name, before string
		lines        []string
		err          string // within the error, "" for none
	}{
		{"taken", "", []string{"POST 202 {}"}, ""},
		{"taken by the next peer", "", []string{"POST 503 {}", "GET 404 {}", "POST 202 {}"}, ""},
		{"answer lost, start taken", "", []string{"POST cut", begun}, ""},
		{"answer lost, start lost", "", []string{"POST cut", "GET 404 {}", "POST 202 {}"}, ""},
		{"second start lost", "1", []string{"POST cut", old, "POST 202 {}"}, ""},
		{"second start taken", "1", []string{"POST cut", begun}, ""},
		{"no answer at first", "", []string{"POST 503 {}", "GET 503 {}", "GET cut", "GET 503 {}", "GET 404 {}", "POST 202 {}"}, ""},
		{"refused", "", []string{`POST 400 {"error":{"message":"wrong state"}}`}, "400 wrong state"},
		{"status refused", "", []string{"POST cut", `GET 400 {"error":{"message":"no"}}`}, "400 no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, s := scripted(t, c.lines...)
			err := client.start(t.Context(), "n", c.before)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if len(s.lines) > 0 {
				t.Errorf("never asked: %v", s.lines)
			}
		})
	}
}

func TestCallsGoToPeersInTurn(t *testing.T) {
	c, s := scripted(t, "POST 202 {}", "POST 202 {}", "POST 202 {}", "POST 503 {}", "GET 404 {}", "POST 202 {}")
	for range 4 {
		if err := c.start(t.Context(), "n", ""); err != nil {
			t.Fatal(err)
		}
	}
	if s.hosts[0] == s.hosts[1] || s.hosts[1] == s.hosts[2] || s.hosts[0] == s.hosts[2] {
		t.Errorf("three starts at %v", s.hosts[:3])
	}
	if s.hosts[3] == s.hosts[5] {
		t.Errorf("the peer that said 503 was asked again: %v", s.hosts[3:])
	}
}

func TestListTakesAllPages(t *testing.T) {
	page := make([]string, pageSize)
	for i := range page {
		page[i] = fmt.Sprintf(`{"uuid":"%d","state":"finished","error":null}`, i)
	}
	c, s := scripted(t, `GET 200 {"introspection":[`+strings.Join(page, ",")+`]}`, "GET 503 {}", `GET 200 {"introspection":[{"uuid":"last"}]}`)
	list, err := c.list(t.Context())
	if err != nil || len(list) != pageSize+1 || list[pageSize].UUID != "last" || len(s.lines) > 0 {
		t.Errorf("%d entries, %v", len(list), err)
	}
}

func TestPortsAreFreeAndDistinct(t *testing.T) {
	ports, err := freePorts(9, strings.NewReader("seed"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, p := range ports {
		if seen[p] || free(p) != nil {
			t.Errorf("%s of %v", p, ports)
		}
		seen[p] = true
	}
	if _, err := freePorts(1, strings.NewReader("")); err == nil {
		t.Error("no randomness, no error")
	}
}
