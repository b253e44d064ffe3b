package api

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/fsm/ruleset"
)

// A dry run ends at the first change that would be refused, and says which and with what the
// change itself would be answered. The state of the fake is that of an old log.
func TestDryRunEndsAtARefusal(t *testing.T) {
	const old = `{"create_rule": ` + anyRule + `}`
	i := &Inspector{Service: &fake{}, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.DiscardHandler)}
	h := checked(t, i.Handler())
	for name, c := range map[string]struct {
		changes         string
		change, refused int // 0: none is refused
		says            string
	}{
		"none":           {"", 0, 0, ""},
		"an old log":     {old + ",{}", 0, 409, "log version"},
		"no rule":        {`{"create_rule": {"actions": []}},` + old, 0, 400, "actions"},
		"no expectation": {`{"put_expectation": {"name": "-"}}`, 0, 400, "name"},
		"no name":        {`{"delete_expectation": "-"}`, 0, 404, "Expectation - was not found"},
		"nothing":        {`{}`, 0, 400, "none of"},
	} {
		w := answer(t, h, "POST", pathDryRun, `{"changes": [`+c.changes+`]}`)
		var out planned
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d %s, %v", name, w.Code, w.Body, err)
			continue
		}
		if (out.Refused != nil) != (c.refused != 0) || out.Refused != nil && (out.Refused.Status != c.refused ||
			out.Refused.Change != c.change || !strings.Contains(out.Refused.Message, c.says)) {
			t.Errorf("dry-run: %s: refused %+v", name, out.Refused)
		}
	}
}

// What is no dry run, or too much of one, is refused.
func TestDryRunIsBounded(t *testing.T) {
	i := &Inspector{Service: &fake{}, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.DiscardHandler)}
	h := checked(t, i.Handler())
	large := fmt.Sprintf(`{"create_rule": {"description": %q}}`, strings.Repeat("x", ruleset.MaxRule))
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"unknown": {`{"changes": [{"start": "node"}]}`, 400}, "a list": {`[]`, 400}, "no JSON": {`x`, 400},
		"many":  {`{"changes": [{}` + strings.Repeat(",{}", MaxDryRunChanges) + `]}`, 400},
		"large": {`{"changes": [` + strings.Repeat(large+",", MaxDryRunBody/len(large)+1) + `{}]}`, 413},
	} {
		if w := answer(t, h, "POST", pathDryRun, c.body); w.Code != c.status {
			t.Errorf("dry-run-bounds: %s: %d %.200s", name, w.Code, w.Body)
		}
	}
}

// bodyFor is a body that is good for a path.
func bodyFor(path string) string {
	if path == pathDryRun {
		return `{"changes": []}`
	}
	return anyRule
}
