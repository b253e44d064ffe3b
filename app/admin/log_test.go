package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/internal/logs"
	"github.com/trivet-ha/trivet/internal/redact"
)

// logging is a host whose clock is one second after that of the host before.
func logging(n int) *Logs {
	l := &Logs{Peer: fmt.Sprintf("h%d", n), ID: fmt.Sprintf("id-%d", n),
		Recent:   logs.NewRing(64<<10, fmt.Sprintf("boot%d", n)),
		Redactor: func() *redact.Redactor { return redact.New("quiet word") }}
	l.Ask = func(context.Context, string) []Answer { return nil }
	return l
}

func (l *Logs) write(second int, level slog.Level, request, text string) {
	at := time.Date(2000, 1, 1, 0, 0, second, 0, time.UTC)
	l.Recent.Add(logs.Line{Time: at, Level: level, Request: logs.Request{ID: request},
		Text: fmt.Sprintf("time=%s level=%s %s\n", at.Format(time.RFC3339), level, text)})
}

// asking has the first host ask the others by their own routes; down are those that are silent.
func asking(hosts []*Logs, down map[string]bool) {
	hosts[0].Ask = func(_ context.Context, path string) (all []Answer) {
		for _, h := range hosts[1:] {
			a := Answer{Name: h.Peer, ID: h.ID, Err: errors.New("it is silent")}
			if !down[h.Peer] {
				e := echo.New()
				h.peerRoutes(e)
				w := httptest.NewRecorder()
				e.ServeHTTP(w, httptest.NewRequest("GET", path, http.NoBody))
				a.Body, a.Err = w.Body.Bytes(), nil
			}
			all = append(all, a)
		}
		return all
	}
}

// readLog asks a host for the log of all.
func readLog(t *testing.T, l *Logs, query url.Values) (LogPage, int) {
	t.Helper()
	c := &Control{Logs: *l, Logger: slog.New(slog.DiscardHandler)}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/log?"+query.Encode(), http.NoBody))
	var page LogPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	return page, w.Code
}

func shownLines(p LogPage) string {
	var out []string
	for _, l := range p.Lines {
		out = append(out, l.Peer+" "+l.Text)
	}
	return strings.Join(out, "|")
}

// All peers' lines come by time, without secrets, and each once: also those of a peer that
// was silent meanwhile, and of one that was started again.
func TestLogOfAllPeers(t *testing.T) {
	hosts := []*Logs{logging(1), logging(2), logging(3)}
	down := make(map[string]bool)
	asking(hosts, down)
	hosts[0].write(1, slog.LevelInfo, "req-1", "msg=one")
	hosts[2].write(2, slog.LevelWarn, "req-1", `msg=two password="quiet word"`)
	hosts[1].write(3, slog.LevelInfo, "req-2", "msg=three")
	page, code := readLog(t, hosts[0], nil)
	if got := shownLines(page); code != http.StatusOK ||
		got != `h1 msg=one|h3 msg=two password="`+redact.Redacted+`"|h2 msg=three` || len(page.Hosts) != 3 {
		t.Errorf("log-of-all-peers: %d %s", code, got)
	}
	if l := page.Lines[1]; l.Level != "WARN" || l.Request != "req-1" || l.Time != "2000-01-01T00:00:02.000000Z" {
		t.Errorf("log-of-all-peers: %+v", l)
	}
	for query, want := range map[string]string{"request=req-1&level=warn": "h3", "request=req-2": "h2", "request=req": "",
		"level=warn": "h3", "level=error": "", "limit=1": "h2"} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		one, _ := readLog(t, hosts[0], values)
		if got := shownLines(one); !strings.HasPrefix(got, want) || want == "" && got != "" || strings.Contains(got, "|") {
			t.Errorf("log-of-a-request: %s: %s", query, got)
		}
	}

	down["h2"] = true
	hosts[1].write(4, slog.LevelInfo, "", "msg=four")
	after, _ := readLog(t, hosts[0], url.Values{"after": {page.Last}})
	if got := shownLines(after); got != "" || after.Hosts[1].Error != "it is silent" {
		t.Errorf("log-of-a-silent-peer: %s, %+v", got, after.Hosts)
	}
	down["h2"] = false
	hosts[2].Recent = logs.NewRing(64<<10, "boot3again")
	hosts[2].write(5, slog.LevelInfo, "", "msg=five")
	again, _ := readLog(t, hosts[0], url.Values{"after": {after.Last}})
	if got := shownLines(again); got != "h2 msg=four|h3 msg=five" {
		t.Errorf("log-goes-on: %s", got)
	}
	if last, _ := readLog(t, hosts[0], url.Values{"after": {again.Last}}); len(last.Lines) != 0 {
		t.Errorf("log-goes-on: twice: %s", shownLines(last))
	}
}

// What a host sends is less than a peer reads of an answer, whatever was logged.
func TestLogAnswerIsBounded(t *testing.T) {
	l := logging(1)
	l.Recent = logs.NewRing(8<<20, "boot1")
	for n := range 4000 {
		l.write(n%60, slog.LevelInfo, "", strings.Repeat("<", 900)) // each is six bytes of JSON
	}
	e := echo.New()
	l.peerRoutes(e)
	for _, after := range []string{"", "id-1:boot1-0"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", PathPeerLog+"?limit=100000&after="+after, http.NoBody))
		const read = 1 << 20 // package cluster, maxWords
		if n := w.Body.Len(); n > read || n < 100<<10 {
			t.Errorf("log-answer-is-bounded: %d bytes after %q", n, after)
		}
	}
	for _, query := range []string{"level=loud", "limit=0", "limit=x", "after=x",
		"after=" + strings.Repeat("a:b,", 2000)} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if _, code := readLog(t, l, values); code != http.StatusBadRequest {
			t.Errorf("%.40s: %d", query, code)
		}
	}
	l.Recent = nil
	if page, _ := readLog(t, l, nil); len(page.Hosts) != 1 || !strings.Contains(page.Hosts[0].Error, "keeps no lines") {
		t.Errorf("no lines are kept: %+v", page)
	}
}
