package cluster

import (
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// What 'config check' and 'init' take for a host's name no member of a cluster
// refuses at a join, nor does the log; and the other way round.
func TestHostNamesOfTheConfigurationJoin(t *testing.T) {
	for _, name := range []string{
		"h", "h1", "H1.example.org", "a_b-c", strings.Repeat("a", 63), strings.Repeat("a", 64),
		strings.Repeat("a", 31) + "." + strings.Repeat("b", 32),
		strings.Repeat("a", 65), "", ".", "..", "-a", "a-", "a.", ".a", "_a", "a_", "a b", "a/b", "\u00e4", "a\n",
	} {
		conf, err := config.Load(config.Sources{Flags: map[string]string{"name": name}, HostName: name})
		configured := err == nil && conf.Name == name && name != ""
		said := (&Admission{}).checkHost(JoinRequest{Name: name}) // without an address, which is looked at next
		if joins := said != nil && !strings.Contains(said.Error(), "host name"); joins != configured {
			t.Errorf("name-limit: %q is configured: %v, joins: %v (%v; %v)", name, configured, joins, err, said)
		}
		member := membership.PutMember{
			Member: membership.Member{ID: "id-1", Name: name, Address: "192.0.2.1:7350", Version: fsm.Version}}
		if err := member.Validate(); configured && err != nil {
			t.Errorf("name-limit: %q is configured, and the log does not take it: %v", name, err)
		}
	}
}
