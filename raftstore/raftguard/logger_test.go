package raftguard

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

const loggedID = "0190a1b2-0000-7000-8000-000000000002"

func loggedNames() []string { return []string{loggedID, "h2"} }

// Raft calls a duration "time"; a record that had two of them would be no JSON that
// every reader accepts.
func TestNoKeyStandsTwice(t *testing.T) {
	var out bytes.Buffer
	NewLogger(slog.New(slog.NewJSONHandler(&out, nil)), loggedNames).Warn("failed to contact", "server-id",
		raft.ServerID(loggedID), "time", time.Second)
	line := out.String()
	if strings.Count(line, `"time":`) != 1 || !strings.Contains(line, `"peer":"h2","silent_for":1000000000`) ||
		!strings.Contains(line, `"msg":"raft: failed to contact"`) {
		t.Errorf("logged %s", line)
	}
}

func TestKeysAreOursAndPeersHaveNames(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(slog.New(slog.NewTextHandler(&out, nil)), loggedNames)
	log.Error("failed to heartbeat to", "peer", raft.ServerAddress(loggedID+"@192.0.2.2:7350"), "backoff time",
		250*time.Millisecond, "error", errors.New("dial "+loggedID+"@192.0.2.2:7350: refused"))
	log.Error("failed to appendEntries to", "peer", raft.Server{ID: loggedID, Address: "x"}, "next", uint64(7))
	log.Error("odd", "last-leader-id", loggedID, "peer")
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
	if strings.Contains(text, loggedID) {
		t.Errorf("peer-has-a-name: an ID is in\n%s", text)
	}
}
