package doctor

import (
	"cmp"
	"fmt"
	"net"
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
			case ownTFTP(f, file):
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

// callback finds a ramdisk that reports elsewhere than to this cluster.
func (f Facts) callback(hosts []Facts) []Finding {
	if f.Boot.Callback == "" {
		return nil
	}
	urls := strings.Split(f.Boot.Callback, ",")
	for i, text := range urls {
		if wrong := f.wrongCallback(text, len(urls) > 1, i == len(urls)-1, hosts); wrong != "" {
			return []Finding{newFinding(Warning, f, []string{rewriteCallback(f.root())},
				"the ramdisk reports to %s: %s", text, wrong)}
		}
	}
	return nil
}

// rewriteCallback is the line that has the ramdisk report where it should, also where the last --install was told
// otherwise.
func rewriteCallback(root string) string {
	return "trivet dnsmasq-config --boot-script --callback-url '' > " + root + "/trivet.ipxe"
}

// wrongCallback says what is wrong with a URL that a ramdisk reports to, "" for nothing. Of
// several each may be an address of a host: the next is called when it dies. The last one
// may be the API's.
func (f Facts) wrongCallback(text string, several, last bool, hosts []Facts) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "that is no URL"
	}
	at := u.Hostname()
	floating := slices.ContainsFunc(append([]string{at}, f.Boot.Hosts...),
		func(a string) bool { return same(a, f.Plan.FloatingIP) })
	owner := slices.IndexFunc(hosts, func(h Facts) bool {
		return slices.ContainsFunc(addressesOf(at, f.Boot.Hosts), h.hasAddress)
	})
	switch {
	case f.Plan.FloatingIP == "" && (several || owner < 0 || len(hosts) == 1):
	case several && (owner >= 0 || floating || slices.ContainsFunc(addressesOf(at, f.Boot.Hosts), silentAt(hosts))):
	case f.Plan.FloatingIP == "":
		return fmt.Sprintf("that is an address of %s, which dies with it; name each host", hosts[owner].Peer)
	case !floating && owner >= 0:
		return fmt.Sprintf("that is an address of %s, which dies with it; the floating IP is %s", hosts[owner].Peer,
			f.Plan.FloatingIP)
	case !floating:
		return "that is not the floating IP " + f.Plan.FloatingIP
	}
	if f.Plan.APIScheme != "" && u.Scheme != f.Plan.APIScheme {
		return "the API speaks " + f.Plan.APIScheme
	}
	switch given := callbackPort(u); {
	case given == f.Plan.RamdiskPort && given != 0:
	case floating && given == f.Plan.APIPort && last: // where v0.2.0 answers, should the hosts go back to it
	case several && f.Plan.RamdiskPort != 0:
		return fmt.Sprintf("ramdisks have port %d, which a peer refuses while it cannot take what they send",
			f.Plan.RamdiskPort)
	case given != f.Plan.APIPort:
		return fmt.Sprintf("the API listens on port %d", f.Plan.APIPort)
	}
	return ""
}

// addressesOf are a host's: itself, or for a name those of the names in the script.
func addressesOf(host string, named []string) []string {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}
	}
	return named
}

// silentAt returns what reports whether a peer has an address, by the routes of the hosts that
// answered: of a host that says nothing no other fact tells it.
func silentAt(hosts []Facts) func(address string) bool {
	return func(address string) bool {
		return slices.ContainsFunc(hosts, func(h Facts) bool {
			return slices.ContainsFunc(h.Routes, func(r Route) bool {
				host, _, err := net.SplitHostPort(r.Address)
				return err == nil && same(host, address)
			})
		})
	}
}

func callbackPort(u *url.URL) uint16 {
	usual := "80"
	if u.Scheme == "https" {
		usual = "443"
	}
	n, err := strconv.ParseUint(cmp.Or(u.Port(), usual), 10, 16)
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
