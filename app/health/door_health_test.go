package health

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/firewall/probe"
)

func TestDoorWarnings(t *testing.T) {
	const period = 15 * time.Second
	for name, c := range map[string]struct {
		health doorHealth
		codes  []string
		text   string // of the first
	}{
		"all is well":   {health: doorHealth{listed: true, age: period, period: period}},
		"three periods": {health: doorHealth{listed: true, age: 3 * period, period: period}},
		"an old list": {health: doorHealth{listed: true, age: 50 * time.Second, period: period},
			codes: []string{"old_port_list"}, text: "50s old"},
		"a short period":        {health: doorHealth{listed: true, age: 10 * time.Second, period: time.Second}},
		"one list a leadership": {health: doorHealth{listed: true, age: time.Hour}},
		"never listed":          {health: doorHealth{period: period}, codes: []string{"no_port_list"}},
		"refused by Ironic": {health: doorHealth{period: period, listing: errors.New("Ironic refused the credentials")},
			codes: []string{"no_port_list"}, text: "never listed completely: Ironic refused the credentials"},
		"inspections that cannot be read": {
			health: doorHealth{listed: true, unread: errors.New("list the ports of node n7: 500")},
			codes:  []string{"inspections_unread"}, text: "of all nodes: list the ports of node n7: 500"},
		"not programmed": {
			health: doorHealth{listed: true, lists: firewall.ListState{Err: errors.New("no permission")}},
			codes:  []string{"rules_not_programmed"}, text: "no permission"},
		"changed today": {health: doorHealth{listed: true, lists: firewall.ListState{Drift: 2, Drifted: time.Now()}},
			codes: []string{"drift"}, text: "(2 since this peer started)"},
		"changed long ago": {
			health: doorHealth{listed: true, lists: firewall.ListState{Drift: 2, Drifted: time.Now().Add(-2 * time.Hour)}}},
		"an address in conflict": {
			health: doorHealth{listed: true, address: "192.0.2.1",
				guard: firewall.GuardStatus{ConflictMAC: "52:54:00:00:00:09"}}, codes: []string{"address_conflict"},
			text: "52:54:00:00:00:09 answers for the floating IP 192.0.2.1"},
		"two servers": {health: doorHealth{listed: true, pxe: "br-pxe", bypasses: []probe.Server{
			{Address: netip.MustParseAddr("192.0.2.5"), MAC: "52:54:00:00:00:0a"},
			{Address: netip.MustParseAddr("192.0.2.6"), MAC: "52:54:00:00:00:0b"},
		}}, codes: []string{"dhcp_bypass", "dhcp_bypass"}, text: "192.0.2.5 (52:54:00:00:00:0a) answers on br-pxe"},
	} {
		var codes []string
		for _, w := range c.health.warnings() {
			codes = append(codes, w.Code)
			if w.Remedy == "" {
				t.Errorf("%s: no remedy for %s", name, w.Code)
			}
		}
		if !slices.Equal(codes, c.codes) {
			t.Errorf("%s: %v, want %v", name, codes, c.codes)
		} else if len(codes) > 0 && !strings.Contains(c.health.warnings()[0].Text, c.text) {
			t.Errorf("%s: %q, want %q", name, c.health.warnings()[0].Text, c.text)
		}
	}
}

// The alert on an old list goes by the figure, and would fire for ever.
func TestListOfALeadershipIsNotOverdue(t *testing.T) {
	if age := overdue(time.Hour, 0); age != 0 {
		t.Errorf("once-a-leadership: the list is %v overdue where firewall.sync_period is 0", age)
	}
	if age := overdue(time.Hour, 15*time.Second); age != time.Hour {
		t.Errorf("in-periods: %v, want an hour", age)
	}
}

// Where switches hold ports to their MACs no frame is sent from the test's: the probe may be off, and
// doctor says then that it did not look, without a warning.
func TestProbeIsAnOption(t *testing.T) {
	for _, c := range []struct {
		on     bool
		driver string
		probes bool
		gaps   int
	}{
		{true, "nftables", true, 0}, {false, "nftables", false, 1}, {true, host.Noop, false, 0}, {false, host.Noop, false, 0},
	} {
		conf := config.Default()
		conf.Firewall.Probe = c.on
		d := Door{Driver: c.driver, Config: func() config.Config { return conf },
			Probe: NewProbe(conf.Firewall, c.driver, probe.Options{})}
		var facts doctor.Facts
		d.AddTo(&facts)
		if (d.Probe != nil) != c.probes || len(facts.Gaps) != c.gaps || facts.DHCP.SelfTest != "" {
			t.Errorf("probe-option: %+v: probes %t, doctor has %+v", c, d.Probe != nil, facts)
		}
	}
}
