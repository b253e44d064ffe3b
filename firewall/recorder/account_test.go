package recorder

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/boots"
)

// A step names another DHCP server as one, and the peers' own by its address.
func TestSentenceNamesTheServer(t *testing.T) {
	for foreign, want := range map[bool]string{
		false: "was offered 192.0.2.9 by 192.0.2.1, without a boot file",
		true:  "was offered 192.0.2.9 by another DHCP server, 192.0.2.1 from 52:54:00:00:00:09, without a boot file",
	} {
		if got := Sentence(boots.Step{Kind: boots.Offered, Address: "192.0.2.9", Server: "192.0.2.1",
			ServerMAC: "52:54:00:00:00:09", Foreign: foreign}); got != want {
			t.Errorf("foreign %v: it says %q, want %q", foreign, got, want)
		}
	}
}
