package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// snapshotFile writes the snapshot of a cluster that was just founded.
func snapshotFile(t *testing.T, change func([]byte) []byte) string {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "11111111-2222-4333-8444-555555555555", CACert: []byte("-----BEGIN X"),
		CAKey: []byte("-----BEGIN TOPSECRET"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "a", Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if _, err := state.View().WriteTo(&data); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.snap")
	if err := os.WriteFile(path, change(data.Bytes()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p := &program{Terminal: &term.Terminal{In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		Env: []string{"TRIVET_CONFIG=/dev/null"}, Wall: time.Now, Random: strings.NewReader("")}, exit: func(int) {}}
	code = p.run(context.Background(), args)
	return code, stdout.String(), stderr.String()
}

func TestVerifyTellsWhatIsWrong(t *testing.T) {
	const format = 8 // bytes before it
	for name, test := range map[string]struct {
		change func([]byte) []byte
		code   int
		said   string
	}{
		"whole":        {func(b []byte) []byte { return b }, term.ExitOK, "good"},
		"cut off":      {func(b []byte) []byte { return b[:len(b)/2] }, term.ExitFailed, "cut off"},
		"a bit":        {func(b []byte) []byte { b[len(b)/2] ^= 4; return b }, term.ExitFailed, "damaged"},
		"newer format": {func(b []byte) []byte { b[format]++; return b }, term.ExitUnknownEntry, "upgrade trivet"},
		"another file": {func([]byte) []byte { return []byte("#!/bin/sh\n") }, term.ExitFailed, "not a snapshot"},
		"empty":        {func([]byte) []byte { return nil }, term.ExitFailed, "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			path := snapshotFile(t, test.change)
			code, out, errs := run(t, "snapshot", "verify", path)
			if code != test.code || !strings.Contains(out, test.said) {
				t.Errorf("exit %d, want %d with %q\n%s%s", code, test.code, test.said, out, errs)
			}
			if test.code != term.ExitOK && !strings.Contains(errs, "hint: ") {
				t.Errorf("it does not say what to do: %s", errs)
			}
			if strings.Contains(out+errs, "TOPSECRET") {
				t.Error("a secret is shown")
			}
		})
	}
	good := snapshotFile(t, func(b []byte) []byte { return b })
	missing := filepath.Join(t.TempDir(), "none")
	code, out, _ := run(t, "snapshot", "verify", good, missing, "-o", "json")
	var rows []struct {
		Good    bool
		Content struct {
			Cluster string `json:"cluster_id"`
		}
	}
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	if code != term.ExitUsage || len(rows) != 2 || !rows[0].Good || rows[1].Good || rows[0].Content.Cluster == "" {
		t.Errorf("exit %d, %+v", code, rows)
	}
}

func TestInspectNamesTheCluster(t *testing.T) {
	good := snapshotFile(t, func(b []byte) []byte { return b })
	if code, out, errs := run(t, "snapshot", "inspect", good, "-o", "name"); code != term.ExitOK ||
		out != "11111111-2222-4333-8444-555555555555\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	newer := snapshotFile(t, func(b []byte) []byte { b[8]++; return b })
	if code, _, errs := run(t, "snapshot", "restore", newer); code != term.ExitUnknownEntry ||
		!strings.Contains(errs, "upgrade trivet") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
