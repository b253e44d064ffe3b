package hooks

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
)

func TestTheExampleWritesALine(t *testing.T) {
	var log strings.Builder
	i := &fakeIronic{node: ironic.Node{UUID: nodeA, Provision: "active"}}
	task := inspector.NewTask(parsed(t, `{}`), i.node, i)
	task.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	wantProblem(t, example{}.After(t.Context(), task), "")
	if got := log.String(); !strings.Contains(got, nodeA) || !strings.Contains(got, "provision_state=active") ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("the log says %s", got)
	}
	wantCalls(t, i)
}
