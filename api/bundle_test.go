package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/trivet-ha/trivet/internal/supportbundle"
)

// talkative has one file.
type talkative string

func (f talkative) Bundle() []supportbundle.File {
	return []supportbundle.File{{Name: "log.txt", Text: string(f)}, {Name: "gone.txt", Error: "not kept"}}
}

// standsAs is a peer that knows its name.
type standsAs string

func (s standsAs) Status() Status { return Status{Name: string(s), ID: "id-" + string(s)} }
func (standsAs) Peers() []Peer    { return nil }

// witnesses are three other peers, of which one answers.
type witnesses struct{}

func (witnesses) Ask(ctx context.Context, path string) []Answer {
	w := httptest.NewRecorder()
	BundleHandler(talkative("of h3")).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
	answers := []Answer{
		{Name: "h3", ID: "id-h3", Body: w.Body.Bytes()}, {Name: "h1", ID: "id-h1", Err: errors.New("ask h1: connection refused")},
		{Name: "h4", ID: "id-h4", Body: []byte("<html>")},
	}
	if _, bounded := ctx.Deadline(); !bounded {
		answers[0].Err = errors.New("asked without a bound")
	}
	return answers
}

func TestABundleAsksEveryPeer(t *testing.T) {
	ask := func(path string) []HostFiles {
		w := send((&Control{Local: standsAs("h2"), Bundler: talkative("own"), Others: witnesses{}}).Handler(), "GET", path, "")
		var rows []HostFiles
		if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s: %v", path, w.Code, w.Body, err)
		}
		return rows
	}
	if rows := ask("/v1/debug/bundle"); len(rows) != 1 || !rows[0].Self || rows[0].Files[0].Text != "own" {
		t.Errorf("alone: %+v", rows)
	}
	of := make(map[string]HostFiles)
	for _, row := range ask("/v1/debug/bundle?all=1") {
		of[row.Peer] = row
	}
	if len(of) != 4 || of["h1"].Error != "ask h1: connection refused" || of["h4"].Error == "" || of["h3"].Error != "" ||
		len(of["h3"].Files) != 2 || of["h3"].Files[0].Text != "of h3" || of["h3"].Files[1].Error != "not kept" {
		t.Errorf("all: %+v", of)
	}
}
