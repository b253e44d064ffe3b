//go:build e2e

package labtest

import (
	"fmt"
	"testing"
	"time"
)

// golden replays recordings of the original through three peers, every request
// through another, and wants no difference.
func golden(t *testing.T, ironic *Ironic) {
	s := NewHosts(t).Introspecting(ironic.Addr)
	profile := "" // in force
	// "listing" wants a cluster that knows no node, so it comes first.
	for _, name := range []string{"listing", "start", "start-states", "abort", "timeout"} {
		recorded, err := ReadGolden(name)
		if err != nil {
			t.Fatal(err)
		}
		env := recorded.Profile.env()
		switch now := fmt.Sprint(env); {
		case len(s.Peers) == 0:
			s.furnishWith(env)
			s.Trio()
			profile = now
		case now != profile:
			s.Reconfigure(env...)
			profile = now
		}
		ironic.Wipe()
		began := time.Now()
		diffs, compared := recorded.Replay(s.Peers, ironic)
		t.Logf("%-14s %3d answers compared, %d differ, %v", name, compared, len(diffs), time.Since(began).Round(time.Second))
		for _, d := range diffs {
			t.Error(d)
		}
	}
}

// env is the profile as a peer's environment.
func (p GoldenProfile) env() []string {
	limit := 1000
	if p.APIMaxLimit > 0 {
		limit = p.APIMaxLimit
	}
	return []string{
		fmt.Sprintf("TRIVET_INSPECTION_TIMEOUT=%gs", p.Timeout),
		fmt.Sprintf("TRIVET_INSPECTION_CLEAN_UP_PERIOD=%gs", p.CleanUpPeriod),
		fmt.Sprintf("TRIVET_INSPECTION_API_MAX_LIMIT=%d", limit),
	}
}

// furnishWith adds env to what peers get that are added from now on.
func (s *SiteLab) furnishWith(env []string) {
	before := s.furnish
	s.furnish = func(p *Peer) {
		before(p)
		p.Env = append(p.Env, env...)
	}
}
