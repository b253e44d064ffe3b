//go:build e2e

package labtest

import (
	"bytes"
	"errors"
	"fmt"
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

// goldenUUIDs begins the UUIDs of the recorded nodes, otherUUIDs those of the same
// nodes enrolled again.
const goldenUUIDs, otherUUIDs = "00000000-0000-4000-8000-", "00000000-0000-4000-9000-"

// goldenInARow plays all recordings one after the other on one cluster that is
// never restarted, and then once more, with the same machines and the same bytes
// under other UUIDs, as when nodes are deleted and enrolled again. The cluster
// keeps the records, data and deliveries of all earlier ones. No answer may
// differ from those of a fresh cluster.
func goldenInARow(t *testing.T, ironic *openstack.Ironic) {
	g := newGoldenLab(New(t).Introspecting(ironic.Addr))
	all := recordings(t)
	g.configure(all[0].Profile)
	for _, recorded := range append(all, enrolledAgain(all)...) {
		g.reload(recorded.Profile)
		g.abort()
		g.replays(t, ironic, recorded)
	}
}

// enrolledAgain returns the recordings with other UUIDs for all nodes, but for two:
// "listing" wants a cluster that knows no node, and a discovered node has the
// same UUID each time, made of its MACs.
func enrolledAgain(all []Golden) (out []Golden) {
	for _, g := range all {
		if g.Name == "listing" || g.Name == "discovery" {
			continue
		}
		lines := make([][]byte, len(g.lines))
		for i, line := range g.lines {
			lines[i] = bytes.ReplaceAll(line, []byte(goldenUUIDs), []byte(otherUUIDs))
		}
		out = append(out, Golden{Name: g.Name, Profile: g.Profile, lines: lines})
	}
	return out
}

// abort ends the introspections that a recording left under way. They would
// match the machines of the next ones, as in the original.
func (g *goldenLab) abort() {
	g.t.Helper()
	g.Eventually(endLimit, "no introspection is under way", func() error {
		var list struct{ Introspection []openstack.Report }
		if err := g.call(g.Peers[0], "GET", "/v1/introspection", &list); err != nil {
			return err
		}
		for _, r := range list.Introspection {
			if !r.Finished {
				return errors.Join(fmt.Errorf("%s is %s", r.UUID, r.State),
					g.call(g.Peers[0], "POST", "/v1/introspection/"+r.UUID+"/abort", nil))
			}
		}
		return nil
	})
}

// reload puts another profile in force without a restart.
func (g *goldenLab) reload(profile GoldenProfile) {
	g.t.Helper()
	if g.profile.same(profile) {
		return
	}
	g.profile = profile
	for _, p := range g.Peers {
		g.imports(p)
		p.Must("config", "reload", p.On())
	}
}
