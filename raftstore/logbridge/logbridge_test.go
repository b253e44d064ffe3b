package logbridge

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Raft calls a duration "time"; a record that had two of them would be no JSON that
// everybody can read.
func TestNoKeyStandsTwice(t *testing.T) {
	var out bytes.Buffer
	New(slog.New(slog.NewJSONHandler(&out, nil))).Warn("failed to contact", "server-id", "a", "time", 250)
	line := out.String()
	if strings.Count(line, `"time":`) != 1 || !strings.Contains(line, `"lasted":250`) || !strings.Contains(line, `"msg":"raft: failed to contact"`) {
		t.Errorf("logged %s", line)
	}
}
