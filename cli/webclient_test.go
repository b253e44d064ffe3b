package cli

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
)

// virtual runs a test in virtual time. The process's signal loop, once started,
// runs for ever, and must not be born in the bubble.
func virtual(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR2)
	signal.Stop(c)
	synctest.Test(t, f)
}

// What package client promises at most.
const (
	readTry     = 12 * time.Second
	readTimeout = 40 * time.Second
	actTimeout  = 90 * time.Second
	deadTimeout = 3 * time.Second
)

// three is --server for three peers.
const three = "--server=http://h1:5050,http://h2:5050,http://h3:5050"

// TestRefusals: the contract's statuses become exit codes, with the text.
func TestRefusals(t *testing.T) {
	cases := []struct {
		status, code int
		message      string
	}{
		{400, term.ExitUsage, "Bad request: Limit cannot be negative"},
		{400, term.ExitConflict, "Can not transition from state 'starting' on event 'start' (no defined transition)"},
		{400, term.ExitConflict, `Invalid provision state for introspection: "active", valid states are "[]"`},
		{401, term.ExitNotAuthorised, "Authentication required"},
		{403, term.ExitNotAuthorised, "Access denied by policy"},
		{404, term.ExitNotFound, "Node n was not found in Ironic"},
		{406, term.ExitUsage, "Unsupported API version 1.19"},
		{409, term.ExitConflict, "Node is locked, please, retry later"},
		{500, term.ExitFailed, "Internal server error"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.status, " ", c.message), func(t *testing.T) {
			asked := 0
			h1 := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; say(w, c.status, c.message) })
			trivetOn(t.Context(), hosts{"h1:5050": h1}, "", "introspection", "abort", "n", three).want(t, c.code,
				"n: "+c.message)
			if asked != 1 {
				t.Errorf("asked %d times: a refusal is final", asked)
			}
		})
	}
}

// TestOtherServers: a server that cannot serve is passed over, and the one that
// could is asked first from then on.
func TestOtherServers(t *testing.T) {
	faults := map[string]func(http.ResponseWriter, *http.Request) bool{
		"503": unavailable, "cut": cut, "slow": hang,
		"502": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(502); return true },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				bad, good := newFakeAPI(), newFakeAPI()
				bad.before = fault
				good.add("n", 0)
				began := time.Now()
				network := hosts{"h2:5050": bad, "h3:5050": good} // h1 is down
				trivetOn(t.Context(), network, "", "introspection", "show", "n", three).want(t, 0, id("n"))
				if took := time.Since(began); took > readTry+time.Second {
					t.Errorf("it took %v", took)
				}
				asked := "GET /v1/introspection" // and the good one for a name
				if good.count(asked) != 1 || bad.count("GET") == 0 || bad.count("GET") > 2 || good.count("GET") != 2 {
					t.Errorf("asked the good one %d times, the bad one %d times", good.count("GET"), bad.count("GET"))
				}
			})
		})
	}
}

// TestElection: an answer that comes within its timeout is waited for, and a
// server's wish is heeded.
func TestElection(t *testing.T) {
	virtual(t, func(t *testing.T) {
		api := newFakeAPI()
		api.add("n", 0)
		api.before = first(12, "GET", unavailable)
		began := time.Now()
		trivetOn(t.Context(), hosts{"h1:5050": api, "h2:5050": api, "h3:5050": api}, "", "introspection", "show", "n",
			three).want(t, 0, id("n"))
		if took := time.Since(began); took < 4*time.Second || took > 8*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestNoAnswer: every way of not answering has a bound, an exit code, and a hint.
func TestNoAnswer(t *testing.T) {
	api := func(fault func(http.ResponseWriter, *http.Request) bool) *fakeAPI {
		f := newFakeAPI()
		f.before = fault
		return f
	}
	cases := []struct {
		name    string
		verb    string
		network hosts
		code    int
		limit   time.Duration
		text    string
	}{
		{"no quorum", "show", hosts{"h1:5050": api(unavailable), "h2:5050": api(hang)}, term.ExitNoLeader, readTimeout,
			"--stale"},
		{"no quorum, start", "start", hosts{"h1:5050": api(unavailable)}, term.ExitNoLeader, actTimeout, "look with"},
		{"slow", "show", hosts{"h1:5050": api(hang)}, term.ExitOutcomeUnknown, readTimeout,
			"http://h1:5050: context deadline exceeded"},
		{"slow, start", "start", hosts{"h1:5050": api(hang)}, term.ExitOutcomeUnknown, actTimeout,
			"look before you repeat it"},
		{"cut, abort", "abort", hosts{"h1:5050": api(cut)}, term.ExitOutcomeUnknown, actTimeout, "look before you repeat it"},
		{"down", "show", hosts{}, term.ExitFailed, 2 * deadTimeout, "http://h3:5050: dial tcp: connection refused"},
		{"down, start", "start", hosts{}, term.ExitFailed, 2 * deadTimeout, "name peers that run"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				began := time.Now()
				trivetOn(t.Context(), c.network, "", "introspection", c.verb, "n", three).want(t, c.code, c.text)
				if took := time.Since(began); took > c.limit {
					t.Errorf("it took %v, more than %v", took, c.limit)
				}
			})
		})
	}
}

// TestLostAnswers: what changes a node is done once, also when the answer is
// lost after or before it was done.
func TestLostAnswers(t *testing.T) {
	cases := []struct {
		name          string
		before, after func(http.ResponseWriter, *http.Request) bool
		verb          string
		posts         int
	}{
		{"start done, answer cut", nil, first(1, "POST", cut), "start", 1},
		{"start done, answer late", nil, first(1, "POST", hang), "start", 1},
		{"start done, outcome unknown", nil, first(1, "POST", unavailable), "start", 1},
		{"start not done", first(1, "POST", cut), nil, "start", 2},
		{"start not done, no leader", first(4, "POST", unavailable), nil, "start", 5},
		{"abort done, answer cut", nil, first(1, "POST", cut), "abort", 1},
		{"abort not done", first(1, "POST", unavailable), nil, "abort", 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				api := newFakeAPI()
				api.before, api.after, api.takes = c.before, c.after, 10*time.Minute
				if c.verb == "abort" {
					api.add("n", 5*time.Minute)
				} else {
					api.add("n", time.Hour) // it was introspected before
				}
				trivetOn(t.Context(), hosts{"h1:5050": api, "h2:5050": api}, "", "introspection", c.verb, "n", three).want(t, 0,
					"accepted")
				if got := api.count("POST"); got != c.posts {
					t.Errorf("%d POSTs, want %d: %q", got, c.posts, api.asked)
				}
			})
		})
	}
}

// TestLateStart: a start that arrives after the look makes the repeat refused;
// it is under way all the same.
func TestLateStart(t *testing.T) {
	virtual(t, func(t *testing.T) {
		api := newFakeAPI()
		api.before = first(1, "POST", cut)
		api.after = first(1, "GET", func(http.ResponseWriter, *http.Request) bool { api.add("n", 0); return false })
		trivetOn(t.Context(), hosts{"h1:5050": api}, "", "introspection", "start", "n", three).want(t, 0, "accepted")
	})
}

// TestStrangeAnswers: what is no introspection API is told from one.
func TestStrangeAnswers(t *testing.T) {
	bodies := map[string]string{"page": "<html>\x1b[2J", "object": "{}", "list": "[]", "null": "null", "nothing": ""}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			h := hosts{"h1:5050": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, body)
			})}
			for _, words := range [][]string{{"show", "n"}, {"list"}} {
				trivetOn(t.Context(), h, "", append(append([]string{"introspection"}, words...), three)...).want(t, term.ExitFailed,
					"not that of an introspection API", "!\x1b")
			}
		})
	}
	t.Run("endless", func(t *testing.T) {
		endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}))
		defer endless.Close()
		s := trivetOn(t.Context(), nil, "", "introspection", "data", "save", "n", "--server", endless.URL)
		if s.code != term.ExitFailed || !strings.Contains(s.talk, "longer than 32 MiB") || s.out != "" {
			t.Errorf("exit %d, %d bytes out, said %q", s.code, len(s.out), s.talk)
		}
	})
}

// TestCutDocument: half a document is asked for again, and never written.
func TestCutDocument(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		whole := `{"b":1,"a":[1.50, 2]}`
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		if asked++; asked < 3 {
			whole = whole[:9]
		}
		_, _ = io.WriteString(w, whole)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "data.json")
	trivetOn(t.Context(), nil, "", "introspection", "data", "save", "n", "--file", file, "--server", server.URL).want(t, 0)
	if got, err := os.ReadFile(file); err != nil || string(got) != `{"b":1,"a":[1.50, 2]}` {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRedirects are not followed: a password goes where it was sent.
func TestRedirects(t *testing.T) {
	h := hosts{"h1:5050": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://evil/", http.StatusPermanentRedirect)
	})}
	trivetOn(t.Context(), h, "", "introspection", "list", three).want(t, term.ExitFailed, "answered 308",
		"follows no redirects")
}

// TestTrust: a server's certificate is verified, with the CA that was named.
func TestTrust(t *testing.T) {
	api := newFakeAPI()
	server := httptest.NewUnstartedServer(api)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	var dialled atomic.Int64
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			dialled.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	trivetOn(t.Context(), nil, "", "introspection", "list", "--server", server.URL).want(t, term.ExitFailed, "certificate",
		"--cacert")
	if n := dialled.Load(); n > 2 {
		t.Errorf("a stranger was asked %d times", n)
	}
	trivetOn(t.Context(), nil, "", "introspection", "list", "--server", server.URL, "--cacert", ca).want(t, 0, "UUID")
}

// TestCredentials are read from a file alone, and sent with every question.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask says
			t.Fatal(err)
		}
		return path
	}
	h := hosts{"127.0.0.1:5050": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "joe" || password != "a:b c" {
			say(w, 401, "Authentication required")
			return
		}
		answerJSON(w, 200, map[string]any{"introspection": []any{}})
	})}
	list := func(path string) spoken {
		return trivetOn(t.Context(), h, "", "introspection", "list", "--credentials", path)
	}
	list(file("good", "joe:a:b c\n", 0o600)).want(t, 0, "!warning")
	list(file("crlf", "joe:a:b c\r\n", 0o640)).want(t, 0, "!warning")
	list(file("open", "joe:a:b c", 0o604)).want(t, 0, "everybody on this host can read it")
	list(file("wrong", "joe:x\n", 0o600)).want(t, term.ExitNotAuthorised, "Authentication required", "--credentials")
	list(filepath.Join(dir, "missing")).want(t, term.ExitUsage, "no such file")
	for name, text := range map[string]string{"empty": "", "no colon": "joe", "no user": ":x", "two": "joe:a\njim:b\n",
		"long": "joe:" + strings.Repeat("x", 4<<10)} {
		list(file(name, text, 0o600)).want(t, term.ExitUsage, "--credentials")
	}
	trivetOn(t.Context(), h, "", "introspection", "list").want(t, term.ExitNotAuthorised)
}

// TestListing: pages follow each other until there are no more, whatever the
// server's limit is and whatever moves meanwhile.
func TestListing(t *testing.T) {
	many := func() *fakeAPI {
		api := newFakeAPI()
		for i := range 2500 {
			api.add(fmt.Sprint("n", i), time.Duration(i)*time.Minute)
		}
		return api
	}
	list := func(t *testing.T, api *fakeAPI, flags ...string) []string {
		t.Helper()
		s := trivetOn(t.Context(), hosts{"127.0.0.1:5050": api}, "",
			append([]string{"introspection", "list", "-o", "name"}, flags...)...)
		s.want(t, 0)
		return strings.Fields(s.out)
	}
	distinct := func(ids []string) int {
		seen := make(map[string]bool)
		for _, s := range ids {
			seen[s] = true
		}
		return len(seen)
	}
	t.Run("all", func(t *testing.T) {
		api := many()
		if ids := list(t, api); len(ids) != 2500 || distinct(ids) != 2500 || ids[0] != id("n0") || ids[2499] != id("n2499") {
			t.Errorf("%d, %d distinct, first %s", len(ids), distinct(ids), ids[0])
		}
	})
	t.Run("limit", func(t *testing.T) {
		api := many()
		if ids := list(t, api, "--limit", "7"); len(ids) != 7 || api.count("GET") != 1 {
			t.Errorf("%d ids with %d questions", len(ids), api.count("GET"))
		}
		if ids := list(t, api, "--limit", "1001"); distinct(ids) != 1001 {
			t.Errorf("%d ids", len(ids))
		}
	})
	t.Run("state", func(t *testing.T) {
		if ids := list(t, many(), "--state", "starting,waiting"); len(ids) != 1 {
			t.Errorf("%d ids", len(ids))
		}
	})
	t.Run("server's limit", func(t *testing.T) {
		api := many()
		api.maxLimit = 300
		if ids := list(t, api); len(ids) != 2500 || api.count("GET") != 1+9+1 {
			t.Errorf("%d ids with %d questions", len(ids), api.count("GET"))
		}
	})
	t.Run("marker deleted", func(t *testing.T) {
		api := many()
		api.after = first(1, "GET", func(http.ResponseWriter, *http.Request) bool {
			api.mu.Lock()
			defer api.mu.Unlock()
			delete(api.nodes, id("n999"))
			return false
		})
		if ids := list(t, api); len(ids) != 2500 || distinct(ids) != 2500 {
			t.Errorf("%d ids, %d distinct", len(ids), distinct(ids))
		}
	})
	t.Run("marker moved", func(t *testing.T) {
		api := many()
		api.after = first(1, "GET", func(http.ResponseWriter, *http.Request) bool { api.add("n999", 0); return false })
		if ids := list(t, api); len(ids) != 2500 || distinct(ids) != 2500 {
			t.Errorf("%d ids, %d distinct", len(ids), distinct(ids))
		}
	})
}
