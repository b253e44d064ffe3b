package doctor

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

// unitDnsmasq is dnsmasq's service on every distribution that packages it.
const unitDnsmasq = "dnsmasq.service"

// Unit is how systemd sees a service.
type Unit struct {
	Load    string `json:"load"`    // loaded, not-found, masked, …
	Active  string `json:"active"`  // active, inactive, failed, …
	Enabled string `json:"enabled"` // enabled, disabled, masked, …; "" if it is not there
}

// judgeDHCP looks at a host that filters DHCP: it may lead, and then it alone
// answers machines.
func judgeDHCP(f Facts) (out []Finding) {
	for _, unit := range f.DHCP.Early { // at each boot of their host
		dropIns := "/etc/systemd/system/" + unit + ".d"
		out = append(out, newFinding(Warning, f, []string{"mkdir -p " + dropIns,
			"ln -sf /usr/lib/systemd/system/dnsmasq.service.d/trivet.conf " + dropIns + "/", "systemctl daemon-reload"},
			"%s serves DHCP and does not wait for trivet-firewall.service: when this host boots it answers every machine until the PXE filter is there",
			unit))
	}
	switch {
	case f.Plan.Driver == noop:
	case len(f.DHCP.Taken) > 0 && f.DHCP.Unit.wanted():
		first, stop := f.DHCP.Taken[0], "ss -lunp   # as root: names the program; stop it"
		if first.Unit != "" {
			stop = "systemctl disable --now " + first.Unit
		}
		out = append(out, newFinding(Error, f, []string{stop, "systemctl restart dnsmasq"},
			"no DHCP server: UDP port %d belongs to %s, and %s (%s) cannot start next to it; %s", first.Port, first.By,
			unitDnsmasq, f.DHCP.Unit.Active, withoutServer(f)))
	case !f.DHCP.Listening:
		out = append(out, f.noServer())
	case f.DHCP.Unit.wanted():
		out = append(out, newFinding(Warning, f,
			[]string{"ss -lunp   # as root: names the program; stop it unless it serves the machines that boot here",
				"systemctl restart dnsmasq"},
			"%s is stopped (%s), and UDP port 67 belongs to another program: how it is configured, is not looked at",
			unitDnsmasq, f.DHCP.Unit.Active))
	case f.DHCP.Program != "" && f.DHCP.Program != "dnsmasq":
		by := f.DHCP.Program
		if first := f.DHCP.Taken; len(first) > 0 && first[0].Port == 67 {
			by = first[0].By
		}
		out = append(out, newFinding(Info, f, nil, "UDP port 67 belongs to %s: how it is configured, is not looked at", by))
	default:
		if u := f.DHCP.Unit; u != nil && u.Active == "active" && u.Enabled == "disabled" { // it was started by hand
			out = append(out, newFinding(Warning, f, []string{"systemctl enable dnsmasq"},
				"%s runs and is not enabled: after a reboot this host has no DHCP server", unitDnsmasq))
		}
		out = append(out, f.unserved()...)
	}
	return out
}

// wanted reports whether a service shall run and does not.
func (u *Unit) wanted() bool {
	return u != nil && u.Load == "loaded" && u.Active != "active" && (u.Enabled == "enabled" || u.Active != "inactive")
}

// withoutServer says what it means that a host has no DHCP server.
func withoutServer(f Facts) string {
	if f.Leads {
		return "this host leads, so no machine boots now"
	}
	return "no machine boots when this host leads"
}

// noServer is a host on which nothing has port 67.
func (f Facts) noServer() Finding {
	when := withoutServer(f)
	install := []string{"apt-get install -y dnsmasq   # or: dnf install dnsmasq", "trivet dnsmasq-config --install"}
	start := []string{"systemctl enable --now dnsmasq", "journalctl -u dnsmasq -n 20   # if it does not stay up",
		"# what Trivet would configure: 'trivet dnsmasq-config'"}
	unit := f.DHCP.Unit
	switch {
	case unit == nil:
		return newFinding(Error, f, start, "no DHCP server: nothing listens on UDP port 67; %s", when)
	case unit.Load == "not-found":
		return newFinding(Error, f, install,
			"no DHCP server: nothing listens on UDP port 67, and dnsmasq is not installed as a service; %s", when)
	case unit.Active == "active":
		return newFinding(Error, f, install[1:], "dnsmasq runs and does not serve DHCP: nothing listens on UDP port 67; %s",
			when)
	case unit.Enabled == "masked":
		return newFinding(Error, f, append([]string{"systemctl unmask dnsmasq"}, start...),
			"no DHCP server: %s is masked; %s", unitDnsmasq, when)
	}
	return newFinding(Error, f, start, "no DHCP server: %s is stopped (%s); %s", unitDnsmasq, unit.Active, when)
}

// unserved finds a dnsmasq whose configuration is not for the interface on which
// machines boot, or tells them no file. One that could not be read whole is
// left alone.
func (f Facts) unserved() []Finding {
	conf := f.DHCP.Conf
	if len(conf.Files) == 0 || len(conf.Problems) > 0 {
		return nil
	}
	files, pxe := strings.Join(conf.Files, ", "), f.Plan.Interface
	remedy := []string{"trivet dnsmasq-config --install"}
	switch {
	case slices.Contains(conf.Except, pxe), len(conf.Interfaces) > 0 && !slices.Contains(conf.Interfaces, pxe):
		return []Finding{newFinding(Error, f, remedy,
			"dnsmasq does not serve %s, on which machines boot: see interface= and except-interface= in %s", pxe, files)}
	case len(conf.Ranges) == 0:
		return []Finding{newFinding(Error, f, remedy, "dnsmasq gives no addresses: there is no dhcp-range in %s", files)}
	case len(conf.Boots) == 0:
		return []Finding{newFinding(Error, f, remedy,
			"dnsmasq names no boot file: machines get an address and nothing to boot, by %s", files)}
	}
	return nil
}

// NotServed says which machines the hosts' DHCP servers would leave without a boot
// file by choice, nothing if there are none or the hosts' configuration is not known.
// That is no finding: a site may have no such machine.
func NotServed(hosts []Facts) (sentences []string) {
	var unsigned []string
	for _, six := range []bool{false, true} {
		var without []string
		for _, f := range hosts {
			conf := f.DHCP.Conf
			if f.Plan.Driver == noop || !f.DHCP.Listening || len(conf.Problems) > 0 {
				continue
			}
			if !six && slices.ContainsFunc(conf.Boots, func(b dnsmasq.Boot) bool { // iPXE for UEFI
				return strings.HasPrefix(path.Base(b.Name), "snponly")
			}) {
				unsigned = append(unsigned, f.Peer)
			}
			served := slices.ContainsFunc(conf.Boots, func(b dnsmasq.Boot) bool { // a loader that is fetched by HTTP
				u, err := url.Parse(b.Name)
				return b.Six == six && err == nil && (u.Scheme == "http" || u.Scheme == "https") &&
					strings.HasSuffix(u.Path, ".efi")
			})
			given := slices.ContainsFunc(conf.Ranges, func(r dnsmasq.Range) bool { return r.First.Is6() == six })
			if len(conf.Boots) > 0 && !served && given {
				without = append(without, f.Peer)
			}
		}
		if len(without) > 0 {
			over := "IPv4"
			if six {
				over = "IPv6"
			}
			sentences = append(sentences,
				fmt.Sprintf(
					"not served by %s: UEFI HTTP boot over %s; a machine whose firmware is set to it gets an address and nothing to boot: choose PXE there, "+
						"or 'trivet dnsmasq-config --install --loader-url http://ADDRESS/DIRECTORY' with an %s address",
					strings.Join(without, ", "), over, over))
		}
	}
	if len(unsigned) > 0 {
		sentences = append(sentences, fmt.Sprintf(
			"not served by %s: UEFI with Secure Boot on, which refuses a snponly.efi that is not signed, as distributions have it; switch it off, "+
				"or see docs/pxe.md#firmware", strings.Join(unsigned, ", ")))
	}
	return sentences
}

// ownTFTP reports whether a URL is served by this host's dnsmasq, which does not
// run: the check of DHCP reports that, and not each file.
func ownTFTP(f Facts, file File) bool {
	if f.DHCP.Listening || f.Plan.Driver == noop {
		return false
	}
	for _, l := range f.Links {
		for _, p := range l.Addresses {
			if strings.HasPrefix(file.URL, fmt.Sprintf("tftp://%v/", p.Addr())) {
				return true
			}
		}
	}
	return false
}
