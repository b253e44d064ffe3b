package host

import (
	"context"
	"slices"
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
	for _, server := range g.servers {
		text, err := runCommand(ctx, path, "show", server, unitFilter, "--property=LoadState,After")
		if err != nil {
			g.gap("dhcp", err.Error())
			return
		}
		if isEarly(string(text)) {
			g.facts.DHCP.Early = append(g.facts.DHCP.Early, server)
		}
	}
}

// unitFilter shuts the PXE filter when the host boots.
const unitFilter = "trivet-firewall.service"

// isEarly reads what 'systemctl show' prints of a DHCP server and of unitFilter, and reports whether the former does
// not wait for the latter. A host without that unit has another way.
func isEarly(text string) bool {
	server, filter, _ := strings.Cut(text, "\n\n")
	if unitOf(filter).Load != "loaded" {
		return false
	}
	for line := range strings.Lines(server) {
		if after, ok := strings.CutPrefix(line, "After="); ok {
			return !slices.Contains(strings.Fields(after), unitFilter)
		}
	}
	return true
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
