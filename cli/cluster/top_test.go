package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/client"
)

// topTime is when the golden files were made.
func topTime() time.Time { return time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC) }

// topStatus is a cluster whose leader was lost a while ago and is back.
func topStatus() api.Status {
	var s api.Status
	s.Name, s.ID, s.Cluster, s.Version, s.Health = "h3", "id-3", "c", "v0.3.0", api.Degraded
	s.Role, s.Leader, s.Token, s.Term, s.Ready = "follower", "h2", 4711, 7, true
	s.LeaderSince = topTime().Add(-2 * time.Minute).Format(time.RFC3339)
	s.Quorum = api.Quorum{Voters: 3, Live: 3, Need: 2, CanLose: 1, HasWrite: true}
	s.HeardBy = "h2"
	for n := 1; n <= 3; n++ {
		s.Peers = append(s.Peers, api.Peer{Name: fmt.Sprintf("h%d", n), ID: fmt.Sprintf("id-%d", n),
			Version: "v0.3.0", Voter: true,
			Leader: n == 2, Self: n == 3, Contact: api.Contact{Live: true}})
	}
	s.PXE = api.PXEService{Guarded: true, OpenOn: []string{"h2"},
		Since: topTime().Add(-115 * time.Second).Format(time.RFC3339)}
	s.FloatingIP = &api.AddressHolder{Address: "192.0.2.10", Holder: "h2"}
	s.Introspections = map[string]int{"waiting": 38, "processing": 3, "finished": 120, "error": 1}
	s.Warnings = []api.Warning{{Code: "ironic_unreachable", Severity: api.SeverityDegraded, Hosts: []string{"h1"},
		Text: "Ironic does not answer: connection\x1b[31m refused", Remedy: "check ironic.endpoint and the network to it"}}
	return s
}

// topEvents are those that led there.
func topEvents() []client.Event {
	var out []client.Event
	add := func(ago time.Duration, kind, action, peer, text string) {
		n := len(out) + 1
		out = append(out, client.Event{ID: fmt.Sprintf("1-%d-0", n), Index: uint64(n), Kind: kind, Action: action, Peer: peer,
			Text: text, Time: topTime().Add(-ago).Format(time.RFC3339Nano)})
	}
	add(270*time.Second, "member", "connected", "h1", "h1 is connected.")
	add(268*time.Second, "member", "connected", "h2", "h2 is connected.")
	add(266*time.Second, "member", "connected", "h3", "h3 is connected.")
	add(265*time.Second, "leadership", "acquired", "h1", "h1 leads.")
	add(264*time.Second, "pxe", "opened", "h1", "The PXE service is open on h1.")
	add(120*time.Second, "leadership", "acquired", "h2", "h2 leads.")
	add(115*time.Second, "pxe", "lapsed", "h1",
		"The PXE service of h1 was closed by its kernel at the latest.")
	add(115*time.Second, "pxe", "opened", "h2", "The PXE service is open on h2.")
	add(110*time.Second, "member", "lost", "h1", "h1 was lost.")
	add(60*time.Second, "member", "connected", "h1", "h1 is connected.")
	for n := range 30 {
		add(time.Duration(50-n)*time.Second, "introspection", "waiting", "h2",
			fmt.Sprintf("node-%d waits for its ramdisk.", n+1))
	}
	add(9*time.Second, "introspection", "error", "h2", "node-7 failed: \x1b[2J\u202eIntrospection\ntimeout 机器.")
	return out
}

// topPeers serve them, as long as they live.
type topPeers struct {
	mu     sync.Mutex
	status api.Status
	events []client.Event
	dead   map[string]bool // by host
	asked  []time.Time     // each question that was answered
	broken bool            // the status panics
}

// RoundTrip implements http.RoundTripper.
func (p *topPeers) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead[r.URL.Hostname()] {
		return nil, syscall.ECONNREFUSED
	}
	if p.broken {
		panic("a slip")
	}
	body, header := p.answer(r)
	p.asked = append(p.asked, time.Now())
	return &http.Response{StatusCode: http.StatusOK, Header: header, Request: r,
		Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// answer is what a peer says. Its clock stands still.
func (p *topPeers) answer(r *http.Request) ([]byte, http.Header) {
	header := http.Header{"Content-Type": {"application/json"}, "Date": {topTime().Format(http.TimeFormat)}}
	var out any
	switch {
	case strings.HasSuffix(r.URL.Path, "/status"):
		s := p.status
		s.Name = "h3"
		if host := r.URL.Hostname(); strings.HasPrefix(host, "h") {
			s.Name = host
		}
		out = s
	case r.URL.Query().Get("after") != "":
		out = client.EventPage{Events: []client.Event{}, Last: r.URL.Query().Get("after")}
	default:
		out = client.EventPage{Events: p.events, Last: p.events[len(p.events)-1].ID}
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return text, header
}

// goldenTop compares what a terminal shows with a golden file.
func goldenTop(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("top-looks-so: %v; %s is not what is shown; UPDATE_GOLDEN=1 writes it, look at the difference:\n%s", err,
			file, got)
	}
}

// page is the text of what is shown, without the blanks at the end of rows.
func page(lines []line, cols int) string {
	var out strings.Builder
	for _, row := range markedRows(lines, cols, term.Style{}) {
		out.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	return out.String()
}

func topBoard() *board {
	b := new(board)
	b.learn(topStatus(), topTime(), topTime())
	b.happen(topEvents())
	return b
}

// The same golden files are compared with what a real terminal shows in TestTopInTmux.
func TestTopShowsTheCluster(t *testing.T) {
	for name, key := range map[string]string{"": "", "help": "?"} {
		for _, size := range [][2]int{{80, 24}, {200, 50}} {
			b := topBoard()
			b.press(key)
			lines := b.view(size[0], size[1], topTime())
			if len(lines) != size[1] {
				t.Errorf("%d rows of %d", len(lines), size[1])
			}
			goldenTop(t, fmt.Sprintf("top%s-%dx%d.golden", name, size[0], size[1]), page(lines, size[0]))
		}
	}
}

// Whatever the size, no row is too much, and nothing of the network steers the terminal.
func TestTopFitsEachTerminal(t *testing.T) {
	b := topBoard()
	for n := range 9 {
		b.status.Peers = append(b.status.Peers,
			api.Peer{Name: fmt.Sprintf("\x1b[2Jhost-with-a-long-name-%d", n)})
		b.status.Warnings = append(b.status.Warnings, api.Warning{Text: "w\u009b1m"})
	}
	for cols := 1; cols < 230; cols += 19 {
		for rows := 1; rows < 70; rows += 3 {
			for _, l := range b.view(cols, rows, topTime()) {
				for _, s := range l {
					if s.text != term.Printable(s.text) {
						t.Fatalf("top-shows-nothing-unescaped: %q", s.text)
					}
				}
			}
			if lines := b.view(cols, rows, topTime()); len(lines) > max(rows, 2) {
				t.Errorf("top-fits: %d rows of %d, %d columns", len(lines), rows, cols)
			}
		}
	}
}

// Stale and old answers are told as such.
func TestTopTellsWhatIsOld(t *testing.T) {
	b := topBoard()
	shows := func(wall time.Time, want ...string) {
		t.Helper()
		got := page(b.view(80, 24, wall), 80)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("top-tells-its-age: no %q in\n%s", text, got)
			}
		}
	}
	b.miss("no server answered: \x1b[2J refused", topTime().Add(time.Second))
	shows(topTime().Add(5*time.Second),
		"NO PEER ANSWERS for 4s; asking again. What follows is as of 5s ago.", "refused")
	s := topStatus()
	s.Name, s.StaleMS, s.AsOfMS = "h1", 12_000, 3000
	b.learn(s, topTime(), topTime())
	shows(topTime().Add(time.Second), "STALE: h1 hears of no leader; its state is as of 12s ago.", "###???",
		"Who answers is as of 3s ago.",
		"h3 did not answer; h1 does since 1s ago.")
	b.learn(topStatus(), topTime().Add(time.Hour), topTime()) // this host's clock is an hour behind
	shows(topTime(), "13:00:00Z")
	if b = new(board); !strings.Contains(page(b.view(80, 24, topTime()), 80), "asking the peers") {
		t.Error("before the first answer nothing is said")
	}
}

func TestTopKeys(t *testing.T) {
	b := topBoard()
	press := func(keys ...string) string {
		for _, key := range keys {
			if b.press(key) {
				t.Errorf("top-keys: %v ends it", keys)
			}
		}
		got := page(b.view(80, 24, topTime()), 80)
		_, below, _ := strings.Cut(got, "EVENTS")
		return below
	}
	typed := []string{"/", "N", "q", term.KeyRubOut, "o", "D", "e", "-", "7"}
	if got := press(typed...); !strings.Contains(got, `2 of 41 hold "NoDe-7"`) {
		t.Errorf("top-filters: %s", got)
	}
	if got := press(term.KeyEnter); strings.Count(got, "node-7") != 2 || strings.Contains(got, "node-8") {
		t.Errorf("top-filters: %s", got)
	}
	for range 2 * maxFilter {
		press("/", term.KeyEscape)
	}
	newest := press()
	below := press(term.KeyDown, term.KeyDown)
	if !strings.Contains(below, "2 newer above") || below == newest {
		t.Errorf("top-scrolls: %s", below)
	}
	e := topEvents()[40]
	e.ID, e.Index = "1-99-0", 99
	b.happen([]client.Event{e, e})
	if got := press(); strings.ReplaceAll(got, "3 newer", "2 newer") != below {
		t.Errorf("top-stays-where-it-is: %s\nwas\n%s", got, below)
	}
	oldest := press(term.KeyEnd)
	if got := press(term.KeyPageDown, term.KeyDown); got != oldest || !strings.Contains(got, "h1 is connected.") {
		t.Errorf("top-scrolls: beyond the oldest: %s", got)
	}
	if got := press(term.KeyHome); strings.Contains(got, "newer above") {
		t.Errorf("top-scrolls: home: %s", got)
	}
	if !b.press("q") || !b.press(term.KeyInterrupt) {
		t.Error("top-keys: q and Ctrl-C do not end it")
	}
	b.press("/")
	if b.press("q") || !b.press(term.KeyInterrupt) {
		t.Error("top-keys: while a filter is typed q is a letter, and Ctrl-C ends it")
	}
}

func TestTopKeepsBoundedEvents(t *testing.T) {
	b := new(board)
	for n := range 30 {
		var fresh []client.Event
		for i := range uint64(keptEvents / 10) {
			at := uint64(n)*keptEvents/10 + i
			fresh = append(fresh, client.Event{ID: fmt.Sprint(at), Index: at})
		}
		b.happen(fresh)
	}
	if n := len(b.events); n != keptEvents || b.events[0].Index != 2*keptEvents {
		t.Errorf("top-is-bounded: %d events, the oldest is %d", n, b.events[0].Index)
	}
}

// drawn is a canvas in memory.
type drawn struct {
	keys chan string

	mu     sync.Mutex
	shown  string
	closed bool
	broken error
}

func (d *drawn) Size() (int, int)    { return 80, 24 }
func (d *drawn) Keys() <-chan string { return d.keys }

func (d *drawn) Draw(rows []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shown = strings.Join(rows, "\n")
	return d.broken
}

func (d *drawn) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}

func (d *drawn) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shown
}

// watching runs top against peers until do, which runs in the bubble next to it, returns.
func watching(t *testing.T, p *topPeers, do func(d *drawn)) (*drawn, error) {
	t.Helper()
	web, err := client.New(client.Options{Servers: []string{"http://h1:5050", "http://h2:5050"}, Transport: p, Once: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &drawn{keys: make(chan string)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		do(d)
	}()
	err = live(ctx, &term.Terminal{Wall: time.Now, Out: io.Discard}, web, d)
	cancel()
	<-done // in a bubble
	return d, err
}

// When the peer that is asked is lost top goes on at another; when all are it says so, asks
// again, and at no time more often than once a second for each of its two questions.
func TestTopGoesOnAtAnotherPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &topPeers{status: topStatus(), events: topEvents(), dead: make(map[string]bool)}
		kill := func(hosts ...string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			clear(p.dead)
			for _, h := range hosts {
				p.dead[h] = true
			}
		}
		d, err := watching(t, p, func(d *drawn) {
			for _, step := range []struct {
				dead []string
				want string
			}{
				{nil, "degraded, by h1"},
				{[]string{"h1"}, "h1 did not answer; h2 does since"},
				{[]string{"h1", "h2"}, "NO PEER ANSWERS for "},
				{[]string{"h2"}, "degraded, by h1"},
			} {
				kill(step.dead...)
				time.Sleep(10 * time.Second) // in a bubble
				if got := d.text(); !strings.Contains(got, step.want) {
					t.Errorf("top-goes-on: with %v dead no %q in\n%s", step.dead, step.want, got)
				}
			}
			d.keys <- "q" // in a bubble
		})
		if err != nil || !d.closed {
			t.Errorf("ended with %v, terminal given back: %v", err, d.closed)
		}
		const first = 3 // the two questions for the events to begin with, and one for the status
		within := func(at time.Time) (n int) {
			for _, other := range p.asked {
				if d := other.Sub(at); d >= 0 && d < time.Second {
					n++
				}
			}
			return n
		}
		for _, at := range p.asked {
			if n := within(at); n > first {
				t.Errorf("top-asks-once-a-second: %d questions within a second", n)
			}
		}
	})
}

// The terminal is given back whatever ends top: a refusal, the end of its context, a panic.
func TestTopGivesTheTerminalBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &topPeers{status: topStatus(), events: topEvents()}
		d, err := watching(t, p, func(*drawn) { time.Sleep(3 * time.Second) }) // in a bubble
		if err != nil || !d.closed {
			t.Errorf("top-gives-back: after its context ended: %v, %v", err, d.closed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := &topPeers{broken: true}
		d := new(drawn)
		web, err := client.New(client.Options{Servers: []string{"http://h1:5050"}, Transport: p, Once: true})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if r := recover(); !strings.Contains(fmt.Sprint(r), "a slip") || !d.closed {
					t.Errorf("top-gives-back: after a panic: %v, %v", r, d.closed)
				}
			}()
			err = live(t.Context(), &term.Terminal{Wall: time.Now, Out: io.Discard}, web, d)
			t.Errorf("a panic of what asks is swallowed: %v", err)
		}()
	})
}

func TestTopNeedsATerminal(t *testing.T) {
	p := &term.Terminal{In: strings.NewReader(""), Out: new(bytes.Buffer), Err: io.Discard}
	err := runTop(t.Context(), p, nil, nil)
	var f *term.Failure
	if !errors.As(err, &f) || f.Code != term.ExitUsage || !strings.Contains(f.Hint, "trivet status") {
		t.Errorf("top-needs-a-terminal: %v", err)
	}
}
