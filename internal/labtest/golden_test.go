//go:build e2e

package labtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// golden replays every recording of the original through three peers, each
// request through another, and wants no difference.
func golden(t *testing.T, ironic *Ironic) {
	g := newGoldenLab(New(t).Introspecting(ironic.Addr))
	for _, recorded := range recordings(t) {
		g.configure(recorded.Profile)
		ironic.Wipe()
		g.forget()
		began := time.Now()
		diffs, compared := recorded.Replay(g.SiteLab, ironic)
		t.Logf("%-24s %3d answers compared, %d differ, %v", recorded.Name, compared, len(diffs), time.Since(began).Round(100*time.Millisecond))
		for _, d := range diffs {
			t.Error(d)
		}
	}
}

// recordings reads all there are, those of one profile together. "listing" comes
// first: it wants a cluster that knows no node.
func recordings(t *testing.T) []Golden {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recording: %v", err)
	}
	var all []Golden
	for _, file := range files {
		recorded, err := ReadGolden(strings.TrimSuffix(filepath.Base(file), ".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, recorded)
	}
	slices.SortStableFunc(all, func(a, b Golden) int {
		if first := rank(a) - rank(b); first != 0 {
			return first
		}
		return strings.Compare(a.Profile.conf("", ""), b.Profile.conf("", ""))
	})
	return all
}

func rank(g Golden) int {
	if g.Name == "listing" {
		return 0
	}
	return 1
}
