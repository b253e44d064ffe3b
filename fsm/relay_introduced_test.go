package fsm

import (
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/relays"
)

// What the peer that accepted a document learned of its own attempt holds until a leader tries,
// and once; before log version 3 it is not in the log.
func TestRelayIntroduced(t *testing.T) {
	for outcome, want := range map[relays.Outcome]relays.Relay{
		relays.OutcomeTaken: {State: relays.Taken, Node: nodeB}, relays.OutcomeLost: {State: relays.Pending, Doubt: true},
		relays.OutcomeAgain: {State: relays.Pending}, relays.OutcomeRefused: {}, relays.OutcomeAbsent: {},
	} {
		r := leading(t)
		of := relayedOf(t, r.must(relays.Accept{Document: pack(t, "d"), Timeout: time.Minute, Tried: relays.OutcomeLost}))
		c := relays.Introduced{Sequence: of.Sequence, Try: 1, Outcome: outcome, Reason: "because", Node: want.Node}
		r.must(c)
		got, kept := r.view().Relay(of.Sequence)
		if kept != (want.State != 0) || got.State != want.State || got.Doubt != want.Doubt && got.State == relays.Pending ||
			got.Node != want.Node {
			t.Errorf("introduced: outcome %d: %+v", outcome, got)
		}
		if got.State == relays.Pending {
			r.tried(of)
		}
		c.Outcome = relays.OutcomeTaken
		if res := r.do(Header{}, c); res.Code != Conflict && (res.Code != NotFound || kept) {
			t.Errorf("introduced: outcome %d, and a late word: %v", outcome, res)
		}
		r.older("a", 2)
		if err := r.view().Admits(c); err == nil || !strings.Contains(err.Error(), "log version 3") {
			t.Errorf("introduced: %v", err)
		}
	}
}
