package cluster

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/cli/term"
)

// scripted answers with one page after another, and then refuses.
type scripted struct {
	pages []any // admin.LogPage or error
	asked []url.Values
	at    []time.Time
}

func (s *scripted) Call(_ context.Context, _, path string, _, out any) error {
	_, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	s.asked, s.at = append(s.asked, values), append(s.at, time.Now())
	if len(s.asked) > len(s.pages) {
		return &api.Error{Status: http.StatusBadRequest, Message: "over"}
	}
	switch page := s.pages[len(s.asked)-1].(type) {
	case error:
		return page
	case admin.LogPage:
		*out.(*admin.LogPage) = page
	}
	return nil
}

// The watch asks once a second, from the position that it was given, and prints each line once; also while
// the peer is away. What is missing of a host is said once. What was logged steers no terminal.
func TestWatchLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := []admin.LogHost{{Peer: "h3", ID: "id-3", Error: "it is\nsilent"}}
		s := &scripted{pages: []any{
			admin.LogPage{Lines: []admin.LogLine{
				{Time: "T1", Peer: "h1", Level: "WARN", Request: "req-1", Text: "msg=\x1b[2Jone"},
				{Time: "T2", Peer: "h2", Level: "INFO", Text: "msg=two"}}, Last: "id-1:a-1", Hosts: silent},
			admin.LogPage{Hosts: silent, Last: "id-1:a-2"},
			term.ErrNoPeerHere, term.ErrNoPeerHere,
			admin.LogPage{Hosts: []admin.LogHost{{Peer: "h3", ID: "id-3", Missed: 7}}, Last: "id-1:a-3"},
		}}
		var out, talk bytes.Buffer
		f := &watchFlags{lines: 20, log: logWanted{all: true, request: "req-1", level: "warn"}}
		err := watchLog(t.Context(), &term.Terminal{Out: &out, Err: &talk, Format: "table"}, s, f)
		if err == nil || !strings.Contains(err.Error(), "over") {
			t.Errorf("it ended with %v", err)
		}
		if want := "T1  h1  WARN   msg= [2Jone\nT2  h2  INFO   msg=two\n"; out.String() != want {
			t.Errorf("watch-log: printed %q, want %q", &out, want)
		}
		var after []string
		for i, q := range s.asked {
			if after = append(after, q.Get("after")); q.Get("request") != "req-1" || q.Get("level") != "warn" {
				t.Errorf("watch-log: asked %v", q)
			}
			if i > 0 && s.at[i].Sub(s.at[i-1]) != watchPause {
				t.Errorf("watch-log: asked after %v", s.at[i].Sub(s.at[i-1]))
			}
		}
		if want := "|id-1:a-1|id-1:a-2|id-1:a-2|id-1:a-2|id-1:a-3"; strings.Join(after, "|") != want {
			t.Errorf("watch-log-goes-on: after %q", after)
		}
		for text, times := range map[string]int{"h3 does not tell its log: it is silent": 1, "h3 tells its log again": 1,
			"h3: 7 lines are missing": 1, "the peer does not answer": 1, "the peer answers again": 1} {
			if strings.Count(talk.String(), text) != times {
				t.Errorf("watch-log-tells-of-gaps: %q is not said %d times: %s", text, times, &talk)
			}
		}
	})
}
