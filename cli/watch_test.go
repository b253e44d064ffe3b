package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// eventPeers are peers that tell the same events, as long as they live. A watch that
// asks for more than there are ends.
type eventPeers struct {
	mu     sync.Mutex
	all    []client.Event
	status string                        // of every node, JSON
	boot   string                        // of every node, JSON; "": the servers are older
	waits  string                        // what a node waits for; "": the peer is of an earlier release
	dead   map[string]bool               // by host
	asked  map[string]int                // questions that were answered, by host
	before func(host, after string)      // runs before each answer
	reset  map[string]*client.EventReset // by position
	end    context.CancelFunc            // called by a question for what is to come
}

// RoundTrip implements http.RoundTripper.
func (e *eventPeers) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	host, after := r.URL.Hostname(), r.URL.Query().Get("after")
	if e.before != nil {
		e.before(host, after)
	}
	if e.dead[host] {
		return nil, syscall.ECONNREFUSED
	}
	e.asked[host]++
	text, status := e.status, http.StatusOK
	switch {
	case strings.HasSuffix(r.URL.Path, "/waits") && e.waits == "":
		text, status = `{"error":{"message":"no such path"}}`, http.StatusNotFound
	case strings.HasSuffix(r.URL.Path, "/waits"):
		text = e.waits
	}
	if strings.HasSuffix(r.URL.Path, "/v1/events") {
		text = e.page(after, r.URL.Query().Get("node"), r.URL.Query().Get("wait") != "")
	}
	if strings.HasSuffix(r.URL.Path, "/boot") {
		if text = e.boot; text == "" {
			status, text = http.StatusNotFound, `{"error":{"message":"404 Not Found"}}`
		}
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(text))}, nil
}

// page answers with up to two events after a position.
func (e *eventPeers) page(after, node string, follows bool) string {
	page := client.EventPage{Events: []client.Event{}, Last: after, Reset: e.reset[after]}
	at := 0
	for i, one := range e.all {
		if one.ID == after {
			at = i + 1
		}
	}
	for _, one := range e.all[at:] {
		if len(page.Events) == 2 && node == "" {
			break
		}
		page.Last = one.ID
		if node == "" || node == one.Node {
			page.Events = append(page.Events, one)
		}
	}
	if len(page.Events) == 0 && follows {
		e.end()
	}
	text, err := json.Marshal(page)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func event(n int, action, text string) client.Event {
	return client.Event{
		ID: fmt.Sprintf("1-%d-0", n), Index: uint64(n), Kind: "introspection", Action: action, Peer: "h1", Node: id("n1"),
		Text:   text,
		Time:   time.Date(2000, 1, 1, 0, 0, n, 0, time.UTC).Format(time.RFC3339Nano),
		Fields: map[string]string{"cause": "start"},
	}
}

func newEventPeers(events ...client.Event) *eventPeers {
	return &eventPeers{all: events, dead: make(map[string]bool), asked: make(map[string]int), end: func() {}}
}

// watches runs a command against the peers, until the watch has seen all there is.
func watches(t *testing.T, e *eventPeers, args ...string) (out, talk string, code int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.end = cancel
	var o, w bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &o, Err: &w, Wall: time.Now, Random: zeroes{},
		Transport: e, Env: []string{"TRIVET_CONFIG=" + filepath.Join(t.TempDir(), "none.yaml")}}}
	code = p.run(ctx, append(args, "--server", "http://h1:5050,http://h2:5050"))
	return o.String(), w.String(), code
}

// The watch goes on at another peer when one is lost, and while none answers it asks
// again: each event is one line, once. What a machine wrote steers no terminal.
func TestWatchGoesOnAtAnotherPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hostile := "Introspection failed: \x1b[2J\u202e<script>\nnext."
		e := newEventPeers(event(1, "starting", "One."), event(2, "waiting", "Two."), event(3, "processing", "Three."),
			event(4, "error", hostile), event(5, "starting", "Five."))
		away := 0
		e.before = func(host, after string) {
			switch {
			case after == "1-2-0": // h1 is lost after the first page
				e.dead["h1"] = true
			case after == "1-4-0": // then h2, for a minute
				away++
				e.dead["h2"] = away < 40
			}
		}
		out, talk, code := watches(t, e, "watch")
		const want = "2000-01-01T00:00:01.000Z  introspection  One.\n2000-01-01T00:00:02.000Z  introspection  Two.\n2000-01-01T00:00:03.000Z  introspection  Three.\n" +
			"2000-01-01T00:00:04.000Z  introspection  Introspection failed:  [2J <script> next.\n2000-01-01T00:00:05.000Z  introspection  Five.\n"
		if out != want || code != term.ExitOK {
			t.Errorf("exit %d, printed:\n%q\nwant:\n%q", code, out, want)
		}
		if !strings.Contains(talk, "no peer answers; asking again") || !strings.Contains(talk, "a peer answers again") ||
			strings.Count(talk, "\n") != 2 {
			t.Errorf("it said: %s", talk)
		}
		if e.asked["h1"] == 0 || e.asked["h2"] == 0 {
			t.Errorf("asked were %v", e.asked)
		}
	})
}

// Events that are gone are told of, also when no peer answered meanwhile: then no event counts as
// not missed.
func TestWatchTellsOfAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEventPeers(event(1, "starting", "One."), event(2, "waiting", "Two."), event(7, "finished", "Seven."))
		e.reset = map[string]*client.EventReset{"1-2-0": {First: "1-7-0", Reason: "the\x1b ring has moved on"}}
		tries := 0
		e.before = func(_, after string) {
			if after == "1-2-0" {
				tries++
			}
			away := after == "1-2-0" && tries < 40
			e.dead["h1"], e.dead["h2"] = away, away
		}
		out, talk, code := watches(t, e, "watch", "-o", "json")
		if code != term.ExitOK || strings.Count(out, "\n") != 3 || !strings.Contains(out, `"id":"1-7-0"`) {
			t.Errorf("exit %d, printed:\n%s", code, out)
		}
		if !strings.Contains(talk, "events before 1-7-0 are gone: the  ring has moved on") {
			t.Errorf("it said: %s", talk)
		}
		if !strings.Contains(talk, "no peer answers") || strings.Contains(talk, "no event was missed") {
			t.Errorf("missed-events-are-told: it said: %s", talk)
		}
		for _, args := range [][]string{{"watch", "-o", "yaml"}, {"watch", "--lines", "-1"}} {
			if _, _, code := watches(t, e, args...); code != term.ExitUsage {
				t.Errorf("%v: exit %d", args, code)
			}
		}
		if out, _, code := watches(t, e, "watch", "--once", "-n", "1"); code != term.ExitOK || strings.Count(out, "\n") != 1 {
			t.Errorf("--once: exit %d, printed %q", code, out)
		}
	})
}

// A history names each step with its entry, peer and duration, and what comes next.
func TestNodeHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := event(3, "starting", "Another node.")
		other.Node = id("n2")
		e := newEventPeers(event(1, "starting", "Began."), event(2, "waiting", "Was told to boot."), other,
			event(9, "processing", "Called."), event(12, "error", "Failed."))
		e.status = fmt.Sprintf(
			`{"uuid":%q,"state":"error","error":"Introspection timeout","started_at":"2000-01-01T00:00:01","finished_at":"2000-01-01T00:00:12","finished":true,"links":[]}`,
			id("n1"))
		out, talk, code := watches(t, e, "node", "history", id("n1"))
		want := []string{
			"TIME                      INDEX  STEP        CAUSE  PEER  FOR",
			"2000-01-01T00:00:01.000Z  1      starting    start  h1    1s",
			"2000-01-01T00:00:02.000Z  2      waiting     start  h1    7s",
			"2000-01-01T00:00:09.000Z  9      processing  start  h1    3s",
			"2000-01-01T00:00:12.000Z  12     error       start  h1    -",
			"", "It failed: Introspection timeout",
			"What to do: the machine did not call in time: 'trivet firewall explain " + id("n1") +
				"' says whether it may boot; look at its console; then 'trivet introspection start " + id("n1") + "'", "",
		}
		if out != strings.Join(want, "\n") || code != term.ExitOK {
			t.Errorf("exit %d, %s, printed:\n%s\nwant:\n%s", code, talk, out, strings.Join(want, "\n"))
		}
		e.all = e.all[:2]
		e.status = fmt.Sprintf(
			`{"uuid":%q,"state":"waiting","error":null,"started_at":"2000-01-01T00:00:01","finished_at":null,"finished":false,"links":[]}`,
			id("n1"))
		if out, _, code := watches(t, e, "node", "history", id("n1")); code != term.ExitOK ||
			!strings.HasSuffix(out, "\nThe node is waiting.\n") {
			t.Errorf("a peer of an earlier release: exit %d, printed:\n%s", code, out)
		}
		e.waits = `{"waits":[{"kind":"introspection/waiting","subject":"node n1","count":1,"waits_for":"its machine, to post its data",` +
			`"since":"2000-01-01T00:00:01Z","until":"2000-01-01T00:15:01Z","then":"it ends in error","do":"look at its console"}]}`
		time.Sleep(time.Minute) // in a bubble
		const told = "\nThe node is waiting.\nnode n1 waits for its machine, to post its data; since 2000-01-01T00:00:01Z (59s); " +
			"until 2000-01-01T00:15:01Z (in 14m1s): it ends in error.\nWhat to do: look at its console\n"
		if out, _, _ := watches(t, e, "node", "history", id("n1")); !strings.HasSuffix(out, told) {
			t.Errorf("printed:\n%s\nwant at its end:\n%s", out, told)
		}
		out, _, _ = watches(t, e, "node", "history", id("n1"), "-o", "json")
		var h struct {
			Steps    []struct{ Seconds float64 }
			WaitsFor string `json:"waits_for"`
		}
		if err := json.Unmarshal([]byte(out), &h); err != nil || len(h.Steps) != 2 || h.Steps[1].Seconds != 58 ||
			!strings.Contains(h.WaitsFor, "post its data") {
			t.Errorf("%v, under way: %+v", err, h)
		}
	})
}

// What was heard of a machine's boot stands among the states, by time, and what stopped it below,
// with what to do in the place of the general advice. What a machine wrote steers no terminal.
func TestNodeHistoryHasTheBoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEventPeers(event(1, "starting", "Began."), event(2, "waiting", "Was told to boot."),
			event(50, "error", "Failed."))
		e.status = fmt.Sprintf(
			`{"uuid":%q,"state":"error","error":"Introspection timeout","started_at":"2000-01-01T00:00:01","finished_at":"2000-01-01T00:00:50","finished":true,"links":[]}`,
			id("n1"))
		e.boot = fmt.Sprintf(`{"node":%q,"state":"error","awaited":false,"steps":[
			{"time":"2000-01-01T00:00:20.000Z","until":"2000-01-01T00:00:32.100Z","count":4,"peer":"h2","kind":"asked","text":"asked for an address by DHCP, 4 times in 12.1s"},
			{"time":"2000-01-01T00:00:33.000Z","until":"2000-01-01T00:00:33.000Z","count":1,"peer":"h2","kind":"offered","text":"was offered 192.0.2.60, to fetch \u001b[31mx.efi"}],
			"findings":[{"code":"not-fetched","text":"it asked for no file","remedy":"UDP 69 must be open"},
			{"code":"foreign-server","text":"another one offered","remedy":"switch it off"}]}`, id("n1"))
		out, talk, code := watches(t, e, "node", "history", id("n1"))
		want := []string{
			"TIME                      INDEX  STEP                                            CAUSE  PEER  FOR",
			"2000-01-01T00:00:01.000Z  1      starting                                        start  h1    1s",
			"2000-01-01T00:00:02.000Z  2      waiting                                         start  h1    48s",
			"2000-01-01T00:00:20.000Z  -      asked for an address by DHCP, 4 times in 12.1s  boot   h2    12s",
			"2000-01-01T00:00:33.000Z  -      was offered 192.0.2.60, to fetch  [31mx.efi     boot   h2    -",
			"2000-01-01T00:00:50.000Z  50     error                                           start  h1    -",
			"", "It failed: Introspection timeout",
			"What to do: UDP 69 must be open; then 'trivet introspection start " + id("n1") + "'",
			"not-fetched: it asked for no file",
			"foreign-server: another one offered", "  switch it off", "",
		}
		if out != strings.Join(want, "\n") || code != term.ExitOK || talk != "" {
			t.Errorf("exit %d, %s, printed:\n%s\nwant:\n%s", code, talk, out, strings.Join(want, "\n"))
		}
	})
}
