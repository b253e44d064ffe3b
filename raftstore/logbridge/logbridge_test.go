package logbridge

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

const id = "0190a1b2-0000-7000-8000-000000000002"

func names() []string { return []string{id, "h2"} }

// Raft calls a duration "time"; a record that had two of them would be no JSON that
// every reader accepts.
func TestNoKeyStandsTwice(t *testing.T) {
	var out bytes.Buffer
	New(slog.New(slog.NewJSONHandler(&out, nil)), names).Warn("failed to contact", "server-id", raft.ServerID(id), "time", time.Second)
	line := out.String()
	if strings.Count(line, `"time":`) != 1 || !strings.Contains(line, `"peer":"h2","silent_for":1000000000`) || !strings.Contains(line, `"msg":"raft: failed to contact"`) {
		t.Errorf("logged %s", line)
	}
}

func TestKeysAreOursAndPeersHaveNames(t *testing.T) {
	var out bytes.Buffer
	log := New(slog.New(slog.NewTextHandler(&out, nil)), names)
	log.Error("failed to heartbeat to", "peer", raft.ServerAddress(id+"@192.0.2.2:7350"), "backoff time", 250*time.Millisecond, "error", errors.New("dial "+id+"@192.0.2.2:7350: refused"))
	log.Error("failed to appendEntries to", "peer", raft.Server{ID: id, Address: "x"}, "next", uint64(7))
	log.Error("odd", "last-leader-id", id, "peer")
	_, text, _ := strings.Cut(out.String(), "level=")
	for _, want := range []string{
		`WARN msg="raft: failed to heartbeat to" peer=h2@192.0.2.2:7350 backoff_time=250ms err="dial h2@192.0.2.2:7350: refused"`,
		`msg="raft: failed to appendEntries to" peer=h2 next=7`,
		`msg="raft: odd" last_leader_id=h2` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, id) {
		t.Errorf("peer-has-a-name: an ID is in\n%s", text)
	}
}
