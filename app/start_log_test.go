package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/test/testwait"
)

// A log is opened only under an identity of its own cluster and incarnation: the two
// may differ where a founding was cut off, or files were copied.
func TestLogOfAnotherIncarnationIsNotOpened(t *testing.T) {
	for what, change := range map[string]func(id *datadir.Identity){
		"another incarnation": func(id *datadir.Identity) { id.Incarnation++ },
		"another cluster":     func(id *datadir.Identity) { id.Cluster = "00000000-0000-4000-8000-000000000001" },
	} {
		s := newStartable(t)
		text, err := os.ReadFile(filepath.Join(s.data.PeerDir(), "peer.json"))
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := s.data.Load()
		if err != nil {
			t.Fatal(err)
		}
		changed := id
		change(&changed)
		was, is := []byte(`"`+id.Cluster+`"`), []byte(`"`+changed.Cluster+`"`)
		text = bytes.Replace(text, was, is, 1)
		text = bytes.Replace(text, []byte(`"incarnation": 1`),
			[]byte(`"incarnation": `+string('0'+byte(changed.Incarnation))), 1)
		if err := os.WriteFile(filepath.Join(s.data.PeerDir(), "peer.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		peer, err := New(t.Context(), s.o)
		if err == nil {
			err = peer.Stop(t.Context())
			t.Errorf("log-of-another: %s: it was opened (%v)", what, err)
			continue
		}
		if !strings.Contains(err.Error(), "the log is of cluster") {
			t.Errorf("log-of-another: %s: %v", what, err)
		}
	}
}

// TestLogStoreIsChangedByARestart starts a peer with either raft.log_store in turn: it
// goes on with the log that it has.
func TestLogStoreIsChangedByARestart(t *testing.T) {
	s := newStartable(t)
	var last uint64
	for _, store := range []string{"wal", "bolt", "wal"} {
		s.o.Config.Raft.LogStore = store
		peer, err := New(t.Context(), s.o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testwait.Bound(testwait.Limit))
		err = peer.Ready(ctx)
		now := peer.core.Store.View().Index()
		_, statErr := os.Stat(filepath.Join(s.data.RaftDir(), "wal-0"))
		if err := errors.Join(err, peer.Stop(ctx)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if now <= last {
			t.Errorf("log-store-changed: with %s the log ends at %d, and ended at %d", store, now, last)
		}
		if there := statErr == nil; there != (store == "wal") {
			t.Errorf("log-store-changed: the write-ahead log with %s: %v", store, statErr)
		}
		last = now
	}
}
