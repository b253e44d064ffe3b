package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/doctor/dnsmasq"
)

// stopped is a host whose dnsmasq is in this state, with files that could not be
// fetched for that.
func stopped(f *Facts, unit *Unit) {
	f.DHCP.Listening, f.DHCP.Program, f.DHCP.Unit = false, "", unit
	for i := range f.Boot.Files {
		f.Boot.Files[i].Error = "no answer within 3s"
		f.Boot.Files[i].URL = strings.Replace(f.Boot.Files[i].URL, "192.0.2.1/", f.Links[1].Addresses[0].Addr().String()+"/",
			1)
	}
}

func dhcpFaults() []fault {
	return []fault{
		{"dnsmasq is stopped", func(h []Facts) { stopped(&h[0], &Unit{"loaded", "inactive", "enabled"}) },
			"error dhcp h1: no DHCP server: dnsmasq.service is stopped (inactive); no machine boots when this host leads",
			"systemctl enable --now dnsmasq"},
		{"dnsmasq is stopped on the leader",
			func(h []Facts) { h[1].Leads = true; stopped(&h[1], &Unit{"loaded", "failed", "disabled"}) },
			"error dhcp h2: no DHCP server: dnsmasq.service is stopped (failed); this host leads, so no machine boots now",
			"systemctl enable --now dnsmasq"},
		{"dnsmasq is not installed", func(h []Facts) { stopped(&h[0], &Unit{"not-found", "inactive", ""}) },
			"error dhcp h1: no DHCP server: nothing listens on UDP port 67, and dnsmasq is not installed as a service",
			"trivet dnsmasq-config --install"},
		{"dnsmasq is masked", func(h []Facts) { stopped(&h[0], &Unit{"masked", "inactive", "masked"}) },
			"error dhcp h1: no DHCP server: dnsmasq.service is masked", "systemctl unmask dnsmasq"},
		{"nothing listens, and systemd says nothing", func(h []Facts) { stopped(&h[0], nil) },
			"error dhcp h1: no DHCP server: nothing listens on UDP port 67; no machine boots", "systemctl enable --now dnsmasq"},
		{"dnsmasq without DHCP", func(h []Facts) { stopped(&h[0], &Unit{"loaded", "active", "enabled"}) },
			"error dhcp h1: dnsmasq runs and does not serve DHCP", "trivet dnsmasq-config --install"},
		{"before the filter", func(h []Facts) { h[0].DHCP.Early = []string{"site-dhcp.service"} },
			"warning dhcp h1: site-dhcp.service serves DHCP and does not wait for trivet-firewall.service",
			"ln -sf /usr/lib/systemd/system/dnsmasq.service.d/trivet.conf /etc/systemd/system/site-dhcp.service.d/"},
		{"not enabled", func(h []Facts) { h[0].DHCP.Unit.Enabled = "disabled" },
			"warning dhcp h1: dnsmasq.service runs and is not enabled: after a reboot this host has no DHCP server",
			"systemctl enable dnsmasq"},
		{"another program", func(h []Facts) { h[0].DHCP.Program, h[0].DHCP.Conf.Ranges = "kea-dhcp4", nil },
			"info dhcp h1: UDP port 67 belongs to kea-dhcp4", ""},
		{"another program, by its unit", func(h []Facts) {
			h[0].DHCP.Program, h[0].DHCP.Conf.Ranges = "kea-dhcp4", nil
			h[0].DHCP.Taken = []Taken{{67, "kea-dhcp4 (pid 7, kea-dhcp4-server.service)", "kea-dhcp4-server.service"}}
			h[0].DHCP.Unit = &Unit{"loaded", "inactive", "disabled"}
		}, "info dhcp h1: UDP port 67 belongs to kea-dhcp4 (pid 7, kea-dhcp4-server.service)", ""},
		{"another program in dnsmasq's way", func(h []Facts) {
			h[0].DHCP.Program, h[0].DHCP.Unit = "", &Unit{"loaded", "failed", "enabled"}
			h[0].DHCP.Taken = []Taken{
				{67, "a program of the user with ID 0, isc-dhcp-server.service", "isc-dhcp-server.service"}}
		},
			"error dhcp h1: no DHCP server: UDP port 67 belongs to a program of the user with ID 0, isc-dhcp-server.service, and dnsmasq.service (failed) cannot start next to it; no machine boots when this host leads",
			"systemctl disable --now isc-dhcp-server.service"},
		{"another dnsmasq in dnsmasq's way", func(h []Facts) { h[0].DHCP.Unit = &Unit{"loaded", "failed", "enabled"} },
			"warning dhcp h1: dnsmasq.service is stopped (failed), and UDP port 67 belongs to another program", "ss -lunp"},
		{"another TFTP server in dnsmasq's way", func(h []Facts) {
			stopped(&h[0], &Unit{"loaded", "activating", "disabled"})
			h[0].DHCP.Taken = []Taken{{69, "in.tftpd (pid 7)", ""}}
		},
			"error dhcp h1: no DHCP server: UDP port 69 belongs to in.tftpd (pid 7), and dnsmasq.service (activating) cannot start",
			"ss -lunp"},
		{"another interface", func(h []Facts) { h[0].DHCP.Conf.Interfaces = []string{"lab"} },
			"error dhcp h1: dnsmasq does not serve pxe, on which machines boot: see interface= and except-interface= in /etc/dnsmasq.d/trivet.conf",
			"trivet dnsmasq-config --install"},
		{"no range", func(h []Facts) { h[0].DHCP.Conf.Ranges = nil },
			"error dhcp h1: dnsmasq gives no addresses: there is no dhcp-range in /etc/dnsmasq.d/trivet.conf",
			"trivet dnsmasq-config --install"},
		{"no boot file", func(h []Facts) { h[0].DHCP.Conf.Boots, h[0].Boot.Files = nil, nil },
			"error dhcp h1: dnsmasq names no boot file", "trivet dnsmasq-config --install"},
	}
}

// TestNoDHCPServerAnywhere: three hosts on which no dnsmasq runs are one finding
// of each kind, that of the leader first.
func TestNoDHCPServerAnywhere(t *testing.T) {
	hosts := healthy()
	for i := range hosts {
		stopped(&hosts[i], &Unit{"loaded", "inactive", "disabled"})
	}
	if findings := judge(t, hosts); len(findings) != 1 || len(findings[0].Hosts()) != 3 {
		t.Errorf("%+v", findings)
	}
	hosts[2].Leads = true
	if findings := judge(t, hosts); len(findings) != 2 {
		t.Errorf("%+v", findings)
	}
}

// Firmware that boots by HTTP is not served unless a URL is named that it reaches:
// doctor says so for each protocol by which machines get addresses, and it is no
// finding.
// The loaders that Trivet names are not signed.
func TestHTTPBootIsSaidNotToBeServed(t *testing.T) {
	hosts := healthy()
	serve := func(host int, url string, six bool) {
		hosts[host].DHCP.Conf.Boots = append(hosts[host].DHCP.Conf.Boots, dnsmasq.Boot{Name: url, Six: six})
	}
	wantSaid := func(want ...string) {
		t.Helper()
		got := NotServed(hosts)
		same := slices.EqualFunc(got, want,
			func(text, begin string) bool { return strings.HasPrefix(text, "not served by "+begin) })
		if !same {
			t.Errorf("not-served: %q, want %q", got, want)
		}
	}
	wantSaid("h1, h2, h3: UEFI HTTP boot over IPv4; ", "h1, h2, h3: UEFI HTTP boot over IPv6; ")
	serve(1, "http://192.0.2.5/snponly.efi", false)
	serve(0, "https://[2001:db8::5]/snponly.efi", true)
	const secure = ": UEFI with Secure Boot on, which refuses a snponly.efi that is not signed"
	wantSaid("h1, h3: UEFI HTTP boot over IPv4; ", "h2, h3: UEFI HTTP boot over IPv6; ", "h1, h2"+secure)
	serve(0, "http://192.0.2.5/snponly.efi", false)
	hosts[1].DHCP.Conf.Ranges = hosts[1].DHCP.Conf.Ranges[:1] // IPv4 alone
	wantSaid("h3: UEFI HTTP boot over IPv4; ", "h3: UEFI HTTP boot over IPv6; ", "h1, h2"+secure)
	hosts[2].DHCP.Conf.Boots = nil
	wantSaid("h1, h2" + secure)
}
