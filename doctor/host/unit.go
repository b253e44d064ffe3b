package host

import (
	"context"
	"strings"

	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/internal/program"
)

// unit asks systemd for dnsmasq's service. A host without systemd has none; what
// systemd does not tell is a gap.
func (g *gathering) unit(ctx context.Context) {
	path, err := program.Find("systemctl")
	if err != nil || g.o.Config.Firewall.Driver == "noop" {
		return
	}
	if _, err := (files{}).List("/run/systemd/system"); err != nil {
		return // it is installed, and something else runs this host
	}
	text, err := runCommand(ctx, path, "show", "dnsmasq.service", "--property=LoadState,ActiveState,UnitFileState")
	if err != nil {
		g.gap("dhcp", err.Error())
		return
	}
	g.facts.DHCP.Unit = unitOf(string(text))
}

// unitOf reads what 'systemctl show' prints, a line a property.
func unitOf(text string) *doctor.Unit {
	u := &doctor.Unit{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "LoadState":
			u.Load = value
		case "ActiveState":
			u.Active = value
		case "UnitFileState":
			u.Enabled = value
		}
	}
	return u
}
