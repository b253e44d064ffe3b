//go:build e2e

package labtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/testenv"
)

// golden replays every recording of the original through three peers, each
// request through another, and wants no difference.
func golden(t *testing.T, ironic *openstack.Ironic) {
	g := newGoldenLab(New(t).Introspecting(ironic.Addr))
	for _, recorded := range recordings(t) {
		g.configure(recorded.Profile)
		g.replays(t, ironic, recorded)
	}
}

// replays plays a recording, and wants no difference but those that are meant.
func (g *goldenLab) replays(t *testing.T, ironic *openstack.Ironic, recorded Golden) {
	t.Helper()
	ironic.Wipe()
	g.forget()
	began := time.Now()
	diffs, compared := recorded.Replay(g.SiteLab, ironic)
	t.Logf("%-24s %3d answers compared, %d differ, %v", recorded.Name, compared, len(diffs),
		time.Since(began).Round(100*time.Millisecond))
	for i := range diffs {
		diffs[i] = strings.ReplaceAll(diffs[i], otherUUIDs, goldenUUIDs) // as the list of departures has them
	}
	for _, d := range expected(t, recorded.Name, diffs) {
		t.Error(d)
	}
}

// departure is a difference that is meant.
type departure struct{ recording, difference string }

// departures lists them. The contract says that power is left alone where the
// client manages the boot; the recorded server forgot, at the callback, who did.
func departures() []departure {
	return []departure{
		{"unmanaged-cycle",
			"seq 9 ironic-node  /v1/nodes/00000000-0000-4000-8000-000007000000: /power_state is <nil>, want power off"},
	}
}

// expected takes the differences that are meant out of those of a recording.
// Each must be there, so that the list stays true.
func expected(t *testing.T, recording string, diffs []string) []string {
	t.Helper()
	for _, d := range departures() {
		if d.recording != recording {
			continue
		}
		i := slices.Index(diffs, d.recording+" "+d.difference)
		if i < 0 {
			t.Errorf("%s no longer differs in %q: strike it from the list", recording, d.difference)
			continue
		}
		diffs = slices.Delete(diffs, i, i+1)
	}
	return diffs
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
		testenv.Must(t, err)
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
