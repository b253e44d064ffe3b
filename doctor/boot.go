package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func judgeBoot(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		for _, file := range f.Boot.Files {
			switch {
			case f.ownTFTP(file):
			case file.Error != "":
				out = append(out, newFinding(file.severity(), f, f.bring(file), "%s %s cannot be fetched: %s (named in %s)",
					file.Kind, file.URL, file.Error, file.Named))
			case file.Size == 0:
				out = append(out, newFinding(Error, f, f.bring(file), "%s %s is empty (named in %s)", file.Kind, file.URL,
					file.Named))
			}
		}
		out = append(out, f.callback(hosts)...)
	}
	return out
}

// severity of a file that is missing: without one loader only machines of that
// kind do not boot.
func (file File) severity() Severity {
	if file.Kind == "loader" {
		return Warning
	}
	return Error
}

// bring are the lines that put a file where it is looked for.
func (f Facts) bring(file File) []string {
	u, err := url.Parse(file.URL)
	if err != nil || u.Scheme != "tftp" {
		return []string{"# make that URL answer, or name another one with --kernel and --ramdisk:",
			"trivet dnsmasq-config --boot-script > " + f.root() + "/trivet.ipxe"}
	}
	path := f.root() + u.Path
	switch file.Kind {
	case "loader":
		return []string{fmt.Sprintf(
			"# put it from iPXE's build or package there, or remove %s if no machine of that kind boots:", file.Named),
			fmt.Sprintf("install -m 644 %s %s", strings.TrimPrefix(u.Path, "/"), path)}
	case "script":
		return []string{"trivet dnsmasq-config --boot-script > " + path}
	}
	return []string{"# put the ramdisk's files there:",
		fmt.Sprintf("install -m 644 %s %s", strings.TrimPrefix(u.Path, "/"), path)}
}

// root is where TFTP serves from.
func (f Facts) root() string {
	return strings.TrimSuffix(cmp.Or(f.DHCP.Conf.TFTPRoot, "/srv/tftp"), "/")
}

// callback finds a ramdisk that reports elsewhere than to the floating IP.
func (f Facts) callback(hosts []Facts) []Finding {
	if f.Boot.Callback == "" || f.Plan.FloatingIP == "" {
		return nil
	}
	warn := func(format string, args ...any) []Finding {
		return []Finding{newFinding(Warning, f,
			[]string{"trivet dnsmasq-config --boot-script > " + f.root() + "/trivet.ipxe"},
			"the ramdisk reports to "+f.Boot.Callback+": "+format, args...)}
	}
	u, err := url.Parse(f.Boot.Callback)
	if err != nil {
		return warn("that is no URL")
	}
	at := u.Hostname()
	if !slices.ContainsFunc(append([]string{at}, f.Boot.Hosts...),
		func(a string) bool { return same(a, f.Plan.FloatingIP) }) {
		for _, h := range hosts {
			if h.hasAddress(at) {
				return warn("that is an address of %s, which dies with it; the floating IP is %s", h.Peer, f.Plan.FloatingIP)
			}
		}
		return warn("that is not the floating IP %s", f.Plan.FloatingIP)
	}
	if u.Scheme != f.Plan.APIScheme {
		return warn("the API speaks %s", f.Plan.APIScheme)
	}
	if given := callbackPort(u); given != f.Plan.APIPort {
		return warn("the API listens on port %d", f.Plan.APIPort)
	}
	return nil
}

func callbackPort(u *url.URL) uint16 {
	if u.Port() == "" && u.Scheme == "https" {
		return 443
	}
	if u.Port() == "" {
		return 80
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// hasAddress reports whether an address is one of the host's.
func (f Facts) hasAddress(address string) bool {
	for _, l := range f.Links {
		for _, p := range l.Addresses {
			if same(p.Addr().String(), address) && !same(address, f.Plan.FloatingIP) {
				return true
			}
		}
	}
	return false
}

// same compares two addresses, however they are written.
func same(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap() == y.Unmap()
}
