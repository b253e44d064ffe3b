package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/sandbox/site"
)

// TestWhatCannotBeIsRefused: before anything starts.
func TestWhatCannotBeIsRefused(t *testing.T) {
	full := t.TempDir()
	if err := os.Mkdir(filepath.Join(full, "something"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"-nodes 0", 2, "error: -nodes 0: it is 1 to 10000"},
		{"-nodes 3 -silent 4", 2, "error: -silent 4: it is 0 to the number of nodes, 3"},
		{"-kill-leader-every 10ms", 2, "error: -kill-leader-every 10ms: it is at least 1s, or 0s"},
		{"-for -1s", 2, "error: -for -1s: it is at least 1s, or 0s"},
		{"-data-dir x", 2, "not defined"},
		{"-dir " + full, 1, "is not empty: name a directory"},
	} {
		var out, said strings.Builder
		if code := run(t.Context(), strings.Fields(c.args), &out, &said); code != c.code ||
			!strings.Contains(said.String(), c.says) || out.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, said.String(), out.String())
		}
	}
}

// TestRunOfASecond: every node is introspected, the last line sums up, and the directory
// that was named is kept.
func TestRunOfASecond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	var out, said strings.Builder
	code := run(t.Context(), []string{"-nodes", "3", "-silent", "0", "-for", "1s", "-dir", dir}, &out, &said)
	var sum site.Summary
	if err := json.Unmarshal([]byte(out.String()), &sum); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	sum.SlowestPXEGapMS = 0 // not 0 when another peer was elected
	if code != 0 || sum != (site.Summary{Accepted: 3, Finished: 3}) ||
		!strings.Contains(said.String(), "peer1  http://127.0.0.1:") {
		t.Errorf("exit %d, %+v: %s", code, sum, said.String())
	}
	for _, name := range []string{"peers.log", "peer1", "peer2", "peer3"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
