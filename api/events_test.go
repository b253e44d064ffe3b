package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/internal/httpserver"
	"github.com/trivet-ha/trivet/test/testwait"
)

// eventLog is a log to which a test commits events.
type eventLog struct {
	t       testing.TB
	mu      sync.Mutex
	state   *fsm.State
	session fencing.Token
	changed chan struct{} // closed by the next commit
}

func newEventLog(t testing.TB) *eventLog {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", CACert: []byte("-----BEGIN CERTIFICATE-----\n"),
		CAKey:     []byte("-----BEGIN PRIVATE KEY-----\n"),
		GossipKey: []byte(strings.Repeat("k", 32)),
		Member:    membership.Member{ID: "a", Name: "h1", Address: "h1:7350", Version: fsm.Version},
	}, time.UnixMilli(begun))
	if err != nil {
		t.Fatal(err)
	}
	l := &eventLog{t: t, state: state, changed: make(chan struct{})}
	l.session = l.commit(fsm.Header{}, membership.OpenSession{Peer: "a", Boot: "1", Version: fsm.Version})
	return l
}

// Changed implements events.Log.
func (l *eventLog) Changed() (fsm.View, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.View(), l.changed
}

func (l *eventLog) last() string {
	v, _ := l.Changed()
	return v.Events().Last().String()
}

func (l *eventLog) commit(h fsm.Header, c fsm.Command) fencing.Token {
	l.t.Helper()
	h.WallMillis = begun
	data, err := fsm.Encode(h, c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	res := l.state.Apply(fsm.Entry{Index: l.state.View().Index() + 1, Term: 2, Data: data})
	if res.Code != fsm.OK {
		l.t.Fatalf("%v: %s", fsm.KindOf(c), res.Message)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return res.Token
}

// report commits one event for each text.
func (l *eventLog) report(topic eventring.Topic, texts ...string) {
	l.t.Helper()
	var c fsm.ReportEvents
	for _, text := range texts {
		c.Reports = append(c.Reports, eventring.Report{Topic: topic, Action: "seen", Text: text})
	}
	l.commit(fsm.Header{Session: l.session}, c)
}

// eventAPI returns the API of a peer with events, for admin and the reader ann.
func eventAPI(t testing.TB, hub *events.Hub) http.Handler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	return (&Inspector{Service: &fake{}, Auth: readerAuth(t, log), MaxLimit: 1,
		ClusterReads: ClusterReads{Events: hub}, Logger: log,
		StaleFor: func() time.Duration { return 0 }}).Handler()
}

// eventPage is the answer in JSON.
type eventPage struct {
	Events []events.Event `json:"events"`
	Last   string         `json:"last"`
	Reset  *events.Reset  `json:"reset"`
}

func eventsOf(t *testing.T, h http.Handler, who, query string) (page eventPage, status int) {
	t.Helper()
	r := httptest.NewRequest("GET", "/v1/events"+query, http.NoBody)
	r.Header.Set("Authorization", who)
	w := httptest.NewRecorder()
	checked(t, h).ServeHTTP(w, r)
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
	}
	return page, w.Code
}

func sentences(page eventPage) (out []string) {
	for _, e := range page.Events {
		out = append(out, e.Text)
	}
	return out
}

// TestEventsAsJSON reads pages, each from where the one before ended, as who may and
// as who may not.
func TestEventsAsJSON(t *testing.T) {
	l := newEventLog(t)
	hub := events.NewHub(l)
	defer hub.Close()
	h := eventAPI(t, hub)
	begin := l.last()
	l.report(eventring.TopicWarning, "One.", "Two.", "Three.")
	l.report(eventring.TopicAudit, "Ann called.")
	for _, c := range []struct{ who, query, want string }{
		{asReader, "?after=" + begin, "[One. Two. Three.]"},
		{asAdmin, "?after=" + begin, "[One. Two. Three. Ann called.]"},
		{asAdmin, "?after=" + begin + "&kind=audit,filter&kind=pxe", "[Ann called.]"},
		{asReader, "?after=" + begin + "&kind=audit", "[]"},
		{asAdmin, "?after=0", "[h1 joined the cluster, at h1:7350. h1 is connected. One. Two. Three. Ann called.]"},
		{asAdmin, "?limit=2", "[Three. Ann called.]"},
		{asReader, "?after=" + begin + "&wait=10ms&node=" + node, "[]"},
	} {
		page, status := eventsOf(t, h, c.who, c.query)
		if got := fmt.Sprint(sentences(page)); got != c.want || status != http.StatusOK || page.Reset != nil ||
			page.Last != l.last() {
			t.Errorf("GET /v1/events%s: %d %s, last %s, reset %v; want %s, last %s", c.query, status, got, page.Last, page.Reset,
				c.want, l.last())
		}
	}
	var got []string
	for after := begin; len(got) < 4; {
		page, _ := eventsOf(t, h, asAdmin, "?limit=1&after="+after)
		if len(page.Events) != 1 {
			t.Fatalf("a page of 1 after %s has %d", after, len(page.Events))
		}
		got, after = append(got, page.Events[0].Text), page.Last
	}
	if fmt.Sprint(got) != "[One. Two. Three. Ann called.]" {
		t.Errorf("page by page: %q", got)
	}
}

// A page waits for the first event, and for no longer than it was asked to.
func TestEventsWait(t *testing.T) {
	l := newEventLog(t)
	hub := events.NewHub(l)
	defer hub.Close()
	h := eventAPI(t, hub)
	answered := make(chan eventPage, 1)
	go func() {
		page, _ := eventsOf(t, h, asReader, "?wait=40s&after="+l.last())
		answered <- page
	}()
	testwait.Until(t, "the call follows the events", func() bool { return hub.Readers() == 1 })
	l.report(eventring.TopicWarning, "It came.")
	if page := testwait.Receive(t, answered, "the event"); fmt.Sprint(sentences(page)) != "[It came.]" {
		t.Errorf("the page has %q", sentences(page))
	}
}

func TestEventsAreRefused(t *testing.T) {
	l := newEventLog(t)
	hub := events.NewHub(l)
	h := eventAPI(t, hub)
	for query, want := range map[string]int{
		"?after=x": 400, "?after=1-2": 400, "?kind=x": 400, "?node=x": 400, "?wait=x": 400, "?wait=-1s": 400, "?limit=0": 400,
		"?limit=x":      400,
		"?after=99-1-0": 503, "": 200,
	} {
		if _, status := eventsOf(t, h, asReader, query); status != want {
			t.Errorf("GET /v1/events%s: %d, want %d", query, status, want)
		}
	}
	if _, status := eventsOf(t, h, "", ""); status != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", status)
	}
	hub.Close()
	if _, status := eventsOf(t, h, asReader, "?after=0"); status != http.StatusServiceUnavailable {
		t.Errorf("a peer that stops answers %d", status)
	}
}

// stream is a client of a stream.
type stream struct {
	t    *testing.T
	in   *bufio.Scanner
	body io.Closer
}

// listen serves the API as a peer does, and returns its URL.
func listen(t testing.TB, h http.Handler, limits httpserver.Limits) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httpserver.New(httpserver.Options{Handler: h, Limits: limits, Logger: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := testwait.Receive(t, served, "the end of the server"); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func streamLimits() httpserver.Limits {
	return httpserver.Limits{Header: 10 * time.Second, Idle: time.Minute, Body: time.Minute, Stall: 10 * time.Second,
		BodyStep: 1, Write: 500 * time.Millisecond, Conns: 64, Share: 64}
}

func openStream(ctx context.Context, t *testing.T, url, last string) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", asAdmin)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() }) // the test may have ended it
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	return &stream{t, in, resp.Body}
}

// next returns the lines of the next event, without those of comments.
func (s *stream) next() map[string]string {
	s.t.Helper()
	out := make(map[string]string)
	for s.in.Scan() {
		name, value, _ := strings.Cut(s.in.Text(), ": ")
		switch {
		case name == "" && out["data"] != "":
			return out
		case name != "" && !strings.HasPrefix(s.in.Text(), ":"):
			out[name] = value
		}
	}
	return nil
}

// TestEventStream reads a stream, leaves it, and goes on where it ended.
func TestEventStream(t *testing.T) {
	l := newEventLog(t)
	hub := events.NewHub(l)
	defer hub.Close()
	url := listen(t, eventAPI(t, hub), streamLimits()) + "/v1/events"
	s := openStream(t.Context(), t, url, "")
	testwait.Until(t, "the stream is read", func() bool { return hub.Readers() == 1 })
	l.report(eventring.TopicFilter, "One\n<b>.", "Two.")
	var seen []map[string]string
	for range 2 {
		seen = append(seen, s.next())
	}
	if err := s.body.Close(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the reader has left", func() bool { return hub.Readers() == 0 })
	l.report(eventring.TopicFilter, "Three.")
	seen = append(seen, openStream(t.Context(), t, url, seen[1]["id"]).next())
	for n, want := range []string{"One\n<b>.", "Two.", "Three."} {
		var e events.Event
		if err := json.Unmarshal([]byte(seen[n]["data"]), &e); err != nil {
			t.Fatal(err)
		}
		if e.Text != want || e.ID != seen[n]["id"] || seen[n]["event"] != "filter" || strings.Contains(seen[n]["data"], "<") {
			t.Errorf("event %d is %v, want %q", n, seen[n], want)
		}
	}
}

// TestSlowStreamEnds: a client that reads nothing is dropped, and costs no more than
// what its connection buffers; when it comes back it receives a reset, since events are gone.
func TestSlowStreamEnds(t *testing.T) {
	l := newEventLog(t)
	hub := events.NewHub(l)
	defer hub.Close()
	url := listen(t, eventAPI(t, hub), streamLimits()) + "/v1/events"
	begin := l.last()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	openStream(ctx, t, url+"?after="+begin, "") // and does not read
	many := make([]string, fsm.MaxEventReports)
	for i := range many {
		many[i] = strings.Repeat("x", eventring.MaxText)
	}
	for gone := false; !gone; {
		l.report(eventring.TopicFilter, many...)
		v, _ := l.Changed()
		id, err := eventring.ParseID(begin)
		if err != nil {
			t.Fatal(err)
		}
		gone = v.Events().Forgotten().Compare(id) > 0
	}
	testwait.Until(t, "slow-stream: the client that does not read is dropped", func() bool { return hub.Readers() == 0 })
	v, _ := l.Changed()
	back := openStream(t.Context(), t, url, begin)
	if got := back.next(); got["event"] != "reset" ||
		!strings.Contains(got["data"], `"first":"`+v.Events().First().String()+`"`) {
		t.Errorf("slow-stream: it comes back and gets %v, want a reset to %v", got, v.Events().First())
	}
	if got := back.next(); got["id"] != v.Events().First().String() {
		t.Errorf("slow-stream: after the reset comes %s, want %v", got["id"], v.Events().First())
	}
	page, _ := eventsOf(t, eventAPI(t, hub), asAdmin, "?limit=1&after="+begin)
	if page.Reset == nil || page.Reset.First != v.Events().First().String() || len(page.Events) != 1 ||
		page.Events[0].ID != page.Reset.First {
		t.Errorf("as JSON: reset %+v and %d events", page.Reset, len(page.Events))
	}
}

// TestAuditAsEvents: what a caller with good credentials asks to change is an event,
// also when it is refused; a call without credentials is none.
func TestAuditAsEvents(t *testing.T) {
	var told []eventring.Report
	report := func(e eventring.Report) { told = append(told, e) }
	log := slog.New(slog.DiscardHandler)
	noDelay := func() time.Duration { return 0 }
	known := (&Inspector{Service: &fake{}, Auth: readerAuth(t, log), MaxLimit: 1, Report: report, Logger: log,
		StaleFor: noDelay}).Handler()
	open := (&Inspector{Service: &fake{}, Auth: NoAuth(), MaxLimit: 1, Report: report, Logger: log,
		StaleFor: noDelay}).Handler()
	send := func(h http.Handler, method, path, who string) {
		r := httptest.NewRequest(method, path, http.NoBody)
		r.Header.Set("Authorization", who)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	send(known, "POST", statusPath, "")
	send(known, "POST", statusPath, "Basic YWRtaW46d3Jvbmc=") // admin:wrong
	send(known, "POST", "/v1/continue", "")
	send(known, "GET", statusPath, asAdmin)
	send(open, "POST", statusPath, "")
	if len(told) != 0 {
		t.Errorf("audit-events: told of callers who proved nothing: %+v", told)
	}
	send(known, "POST", statusPath, asAdmin)
	send(known, "POST", statusPath, asReader)
	if len(told) != 2 || told[0].Fields["status"] != "202" || told[1].Fields["status"] != "403" {
		t.Fatalf("audit-events: told is %+v", told)
	}
	for n, who := range []string{"admin", "ann"} {
		if err := told[n].Validate(); err != nil || told[n].Topic != eventring.TopicAudit ||
			!strings.HasPrefix(told[n].Text, who+" asked for POST "+statusPath) {
			t.Errorf("audit-events: %+v: %v", told[n], err)
		}
	}
}
