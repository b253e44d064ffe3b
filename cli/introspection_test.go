package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// nodeRun is a row that a script reads.
type nodeRun struct {
	Node       string       `json:"node"`
	Result     string       `json:"result"`
	UUID       string       `json:"uuid"`
	Error      string       `json:"error"`
	StartedAt  *client.Time `json:"started_at"`
	FinishedAt *client.Time `json:"finished_at"`
}

// callsAtOnce is how many questions are under way together.
const callsAtOnce = 16

// rowsOf decodes what start and abort print with -o json.
func rowsOf(t *testing.T, s spoken) map[string]nodeRun {
	t.Helper()
	var rows []nodeRun
	if err := json.Unmarshal([]byte(s.out), &rows); err != nil {
		t.Fatalf("%v: %q", err, s.out)
	}
	out := make(map[string]nodeRun)
	for _, r := range rows {
		out[r.Node] = r
	}
	return out
}

// TestWaitForMany: each node gets its result, through a failover of the peer
// that was asked and a while without any leader; the exit code is that of the
// first that failed.
func TestWaitForMany(t *testing.T) {
	virtual(t, func(t *testing.T) {
		api := newFakeAPI()
		network := hosts{"h1:5050": api, "h2:5050": api}
		began := time.Now()
		api.before = func(w http.ResponseWriter, r *http.Request) bool {
			switch since := time.Since(began); {
			case since > 10*time.Second && since < 70*time.Second:
				return unavailable(w, r)
			case since > 5*time.Second && r.URL.Host == "h1:5050":
				return cut(w, r)
			}
			return false
		}
		var names []string
		for i := range 1200 {
			names = append(names, fmt.Sprint("n", i))
		}
		in := strings.Join(names, "\n") + "\nnobody bad1 n7 bad2\n"
		s := trivetOn(t.Context(), network, in, "introspection", "start", "--wait", "-o", "json", "-", three)
		s.want(t, term.ExitNotFound, "3 of 1203 nodes failed; the first is nobody: Node nobody was not found in Ironic",
			"trivet: 1200 finished, 2 failed, 1 refused, in 1m")
		rows := rowsOf(t, s)
		if r := rows["n1199"]; r.Result != "finished" || r.UUID != id("n1199") ||
			r.FinishedAt.Sub(r.StartedAt.Time).Round(time.Second) != 30*time.Second || r.Error != "" {
			t.Errorf("%+v", r)
		}
		if r := rows["bad2"]; r.Result != "failed" || r.Error != "Ramdisk reported error: \x1b[31mno\ndisk" {
			t.Errorf("%+v", r)
		}
		if r := rows["nobody"]; r.Result != "refused" || r.UUID != "" {
			t.Errorf("%+v", r)
		}
		if n := api.count("POST"); n != 1203 {
			t.Errorf("%d starts for 1203 nodes", n)
		}
		if n := api.count("GET"); n > 1202+200 {
			t.Errorf("%d reads: many nodes are looked for in the listing", n)
		}
		for _, line := range []string{"trivet: 1 of 1203 done: 1202 starting, 1 refused (0s)",
			"1202 waiting, 1 refused; no server answered: "} {
			if !strings.Contains(s.talk, line) {
				t.Errorf("said %q: want %q", s.talk, line)
			}
		}
		if n := strings.Count(s.talk, "\n"); n > 25 {
			t.Errorf("%d lines of talk", n)
		}
	})
}

func startAndWait(ctx context.Context, api *fakeAPI, words ...string) spoken {
	return trivetOn(ctx, hosts{"127.0.0.1:5050": api}, "",
		append([]string{"introspection", "start", "--wait"}, words...)...)
}

// TestWaitEndsWhileStarting interrupts the command while most starts hang.
func TestWaitEndsWhileStarting(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := newFakeAPI()
		f.takes = time.Minute
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			return !strings.Contains(r.URL.Path, "good") && hang(w, r)
		}
		names := []string{"good"}
		for i := range 2 * callsAtOnce {
			names = append(names, fmt.Sprint("n", i))
		}
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { stop(errors.New("interrupted")) })
		s := startAndWait(ctx, f, append(names, "-o", "json")...)
		s.want(t, term.ExitOutcomeUnknown)
		got := make(map[string]int)
		for _, r := range rowsOf(t, s) {
			got[r.Result]++
		}
		if got["unfinished"] != 1 || got["unknown"] != callsAtOnce || got["not_asked"] != callsAtOnce {
			t.Errorf("%v", got)
		}
	})
}

// TestWaitEnds: a wait that ends before the introspections says that they go
// on, whatever ended it.
func TestWaitEnds(t *testing.T) {
	api := func() *fakeAPI { f := newFakeAPI(); f.takes = time.Minute; return f }
	start := startAndWait
	t.Run("timeout", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			start(t.Context(), api(), "silent1", "n1", "silent2", "--timeout", "90s").want(t, term.ExitOutcomeUnknown,
				"trivet: error: 2 of 3 nodes: it took longer than --timeout 1m30s; the introspection goes on without this command",
				"trivet: 1 finished, 2 unfinished", "'trivet introspection list")
		})
	})
	t.Run("interrupt", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(70*time.Second, func() { stop(errors.New("interrupted")) })
			start(ctx, api(), "silent", "bad").want(t, term.ExitOutcomeUnknown,
				"1 of 2 nodes failed, and 1 introspections go on without this command; the first is silent: interrupted")
		})
	})
	t.Run("not let in any more", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			f, began := api(), time.Now()
			f.before = func(w http.ResponseWriter, _ *http.Request) bool {
				late := time.Since(began) > 20*time.Second
				if late {
					say(w, 401, "Authentication required")
				}
				return late
			}
			start(t.Context(), f, "n1", "n2").want(t, term.ExitNotAuthorised,
				"2 of 2 nodes: Authentication required; the introspection goes on", "'trivet introspection list")
			if took := time.Since(began); took > 40*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	})
	t.Run("deleted", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			f := api()
			time.AfterFunc(20*time.Second, func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.nodes, id("n1"))
			})
			start(t.Context(), f, "n1").want(t, term.ExitNotFound, "n1: Could not find node "+id("n1")+" in cache", "failed")
		})
	})
}

// TestDeadCluster: a thousand nodes do not wait for a dead cluster a thousand
// times.
func TestDeadCluster(t *testing.T) {
	f := newFakeAPI()
	f.before = hang
	for name, network := range map[string]hosts{"down": {}, "hangs": {"127.0.0.1:5050": f}} {
		for _, verb := range []string{"start", "abort"} {
			t.Run(name+", "+verb, func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					var names []string
					for i := range 1000 {
						names = append(names, fmt.Sprint("n", i))
					}
					began := time.Now()
					s := trivetOn(t.Context(), network, strings.Join(names, " "), "introspection", verb, "-")
					code := term.ExitFailed
					if name == "hangs" {
						code = term.ExitOutcomeUnknown
					}
					s.want(t, code, "no server answered")
					if took := time.Since(began); took > actTimeout+time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

// TestOneHangingNode: a node for which the API hangs takes no other with it.
func TestOneHangingNode(t *testing.T) {
	virtual(t, func(t *testing.T) {
		f := newFakeAPI()
		f.before = func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/n0") && hang(w, r)
		}
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("n", i))
		}
		s := trivetOn(t.Context(), hosts{"127.0.0.1:5050": f}, "",
			append([]string{"introspection", "start", "-o", "name"}, names...)...)
		s.want(t, term.ExitOutcomeUnknown, "1 of 100 nodes failed; the first is n0: no server answered")
		if got := strings.Fields(s.out); !slices.Equal(got, names[1:]) {
			t.Errorf("accepted: %q", got)
		}
	})
}

// TestManageBoot is sent when it is not what is usual.
func TestManageBoot(t *testing.T) {
	for flag, want := range map[string]string{"": "/n", "--manage-boot=false": "/n?manage_boot=false",
		"--manage-boot": "/n"} {
		f := newFakeAPI()
		words := []string{"introspection", "start", "n"}
		if flag != "" {
			words = append(words, flag)
		}
		trivetOn(t.Context(), hosts{"127.0.0.1:5050": f}, "", words...).want(t, 0, "accepted")
		if f.asked[0] != "POST /v1/introspection"+want {
			t.Errorf("%s: %q", flag, f.asked)
		}
	}
}
