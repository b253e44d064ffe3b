package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/accept"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// taking notes what it is asked to import.
type taking struct {
	records []accept.Foreign
	rules   []string
	checks  int
}

func (i *taking) ImportRecord(_ context.Context, f accept.Foreign, check bool) (accept.Import, error) {
	i.note(check)
	i.records = append(i.records, f)
	return accept.Import{Created: true, Documents: 2, Expires: time.Hour, Hidden: true}, nil
}

func (i *taking) ImportRule(_ context.Context, id string, body []byte, check bool) (accept.Import, error) {
	i.note(check)
	i.rules = append(i.rules, id+" "+string(body))
	return accept.Import{Kept: "x"}, nil
}

func (i *taking) note(check bool) {
	if check {
		i.checks++
	}
}

const (
	recordToImport = `{"uuid":"u","state":"error","error":"e","started_at":"2026-11-20T20:35:26.405493Z","finished_at":"2026-11-20T20:36:00Z","manage_boot":true,"processed":{"b": "<", "a":1.50}}`
	ruleToImport   = `{"uuid":"a0000000-0000-4000-8000-000000000001","actions":[{"action":"fail","message":"x"}]}`
)

func TestImportsAreRead(t *testing.T) {
	to := &taking{}
	control := (&Control{Import: to, Logger: slog.New(slog.DiscardHandler)}).Handler()
	w := send(control, "POST", pathImportRecords, recordToImport)
	var out ImportResult
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil ||
		out != (ImportResult{Created: true, Documents: 2, ExpiresAfter: "1h0m0s", DataHidden: true}) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f := to.records[0]
	if f.Node != "u" || f.State != introspection.NodeError || f.Error != "e" || f.Started.UnixMicro()%1000 != 493 ||
		!f.ManageBoot || f.Unprocessed != nil || string(f.Processed) != `{"b": "<", "a":1.50}` {
		t.Errorf("%+v", f)
	}
	if w := send(control, "POST", pathImportRules+"?check=1", ruleToImport); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `"kept":"x"`) || to.checks != 1 {
		t.Errorf("%d %s, %d checks", w.Code, w.Body, to.checks)
	}
	if !strings.HasPrefix(to.rules[0], "a0000000-0000-4000-8000-000000000001 {") {
		t.Errorf("%s", to.rules[0])
	}
}

func TestImportsAreRefused(t *testing.T) {
	control := (&Control{Import: &taking{}, Logger: slog.New(slog.DiscardHandler)}).Handler()
	for name, c := range map[string]struct {
		path, body string
		status     int
	}{
		"state":        {pathImportRecords, `{"uuid":"u","state":"asleep"}`, 400},
		"field":        {pathImportRecords, `{"uid":"u"}`, 400},
		"large record": {pathImportRecords, `{"uuid":"` + strings.Repeat("x", maxImportBody) + `"}`, 413},
		"no rule":      {pathImportRules, `[]`, 400},
		"no action":    {pathImportRules, `{"uuid":"a0000000-0000-4000-8000-000000000001"}`, 400},
		"no UUID":      {pathImportRules, `{"actions":[{"action":"fail","message":"x"}]}`, 400},
		"large rule":   {pathImportRules, `{"description":"` + strings.Repeat("x", api.MaxRuleBody) + `"}`, 413},
	} {
		if w := send(control, "POST", c.path, c.body); w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if w := send((&Control{Logger: slog.New(slog.DiscardHandler)}).Handler(), "POST", pathImportRules,
		ruleToImport); w.Code != http.StatusConflict {
		t.Errorf("where nothing is introspected: %d %s", w.Code, w.Body)
	}
}

// An import is told in the log, a check of one is not.
func TestChecksAreNotAudited(t *testing.T) {
	var log bytes.Buffer
	control := (&Control{Import: &taking{}, Logger: slog.New(slog.NewJSONHandler(&log, nil))}).Handler()
	for _, path := range []string{pathImportRecords, pathImportRules} {
		send(control, "POST", path+"?check=1", recordToImport)
	}
	if log.Len() != 0 {
		t.Errorf("a check: %s", log.String())
	}
	send(control, "POST", pathImportRecords, recordToImport)
	if !strings.Contains(log.String(), "audit") {
		t.Errorf("an import: %s", log.String())
	}
}
