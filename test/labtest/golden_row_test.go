//go:build e2e

package labtest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
)

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
