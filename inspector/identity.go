package inspector

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// noMAC is what interfaces have that have none.
const noMAC = "00:00:00:00:00:00"

// OwnMAC reports whether a MAC, in lower case, is an interface's own by its form
// alone: one with the group bit is only if Ironic has a port for it, or if the machine
// booted from it.
func OwnMAC(mac string) bool {
	const digits = "0123456789abcdef"
	return PortMAC(mac) && strings.IndexByte(digits, mac[1])%2 == 0 // the last bit of the first byte says that it is a group's
}

// PortMAC reports whether a MAC, in lower case, can be that of a port: the one of
// loopback interfaces and those by which protocols address groups cannot.
func PortMAC(mac string) bool {
	// Broadcast; multicast of IPv4, IPv6, IEEE 802.1 and Cisco.
	groups := []string{"ff:ff:ff:ff:ff:ff", "01:00:5e:", "33:33:", "01:80:c2:", "01:00:0c:"}
	return mac != noMAC && !slices.ContainsFunc(groups, func(group string) bool { return strings.HasPrefix(mac, group) })
}

// portMACs leaves out MACs that cannot be a port's.
func portMACs(macs []string) []string {
	return slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return !PortMAC(mac) })
}

// ownMACs leaves out MACs that are not an interface's own by their form.
func ownMACs(macs []string) []string {
	return slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return !OwnMAC(mac) })
}

// Machine is what a ramdisk's data say that tells its machine from others.
type Machine struct {
	introspection.Attributes
	// Inner are those of its MACs whose cards lead to its own BMC. They often have
	// one MAC in all machines of a kind.
	Inner []string
	// Serial is its serial number, "" if there is none that means anything. That it
	// is equal proves nothing.
	Serial string
	// Other is a node that it is known not to be, "" for none.
	Other string
}

// add takes an interface in.
func (m *Machine) add(nic *document.Parts) {
	mac := nic.Get("mac_address").Text()
	m.MACs = addMAC(m.MACs, mac)
	if leadsToBMC(nic) {
		m.Inner = addMAC(m.Inner, mac)
	}
}

// contradicts reports whether a machine that shares a MAC with a known one is
// another one. Network cards of BMCs have one MAC in all machines of a kind, so
// that such a MAC alone would take every machine for the first. It is another one
// if its BMC has another address and what it shares is weak. Either alone proves
// nothing: Ironic may reach a BMC by a translated or an outdated address, and cards
// are replaced.
func contradicts(m Machine, known introspection.Attributes) bool {
	return otherBMC(m.BMC, known.BMC) && m.weaklyHas(known.MACs)
}

// doubtful reports whether one of the two speaks against a match, and no address of
// the BMC for it.
func doubtful(m Machine, known introspection.Attributes) bool {
	sameBMC := slices.ContainsFunc(known.BMC, func(address string) bool { return slices.Contains(m.BMC, address) })
	return !sameBMC && otherBMC(m.BMC, known.BMC) != m.weaklyHas(known.MACs)
}

// weaklyHas reports whether a machine lacks one of the MACs of a node, or has them
// all by cards that lead to its own BMC.
func (m Machine) weaklyHas(macs []string) bool {
	return lacks(m.MACs, macs) || len(macs) > 0 && !lacks(m.Inner, macs)
}

// leadsToBMC reports whether an interface is, by what its machine says of it, a
// network card that the BMC plays to its host over USB: by its driver, by its
// address, or by the name that Linux gives to cards on USB.
func leadsToBMC(nic *document.Parts) bool {
	drivers := []string{"cdc_eem", "cdc_ether", "cdc_ncm", "cdc_subset", "rndis_host"}
	if slices.Contains(drivers, nic.Get("driver").Text()) {
		return true
	}
	if ip, err := netip.ParseAddr(nic.Get("ipv4_address").Text()); err == nil && ip.Is4() && ip.IsLinkLocalUnicast() {
		return true
	}
	name := nic.Get("name").Text()
	place, predictable := strings.CutPrefix(name, "en") // enx and the MAC, or enp0s20f0u8: a port of USB
	return strings.HasPrefix(name, "usb") || predictable && (strings.HasPrefix(place, "x") || strings.Contains(place, "u"))
}

// serialOf returns the serial number of an inventory's system_vendor.
func serialOf(vendor *document.Value) string {
	members, err := vendor.Members()
	if err != nil {
		return ""
	}
	return meaningful(members.Get("serial_number").Text())
}

// meaningful returns a serial number in lower case, "" for what vendors write where
// there is none: words, zeros, or digits in a row.
func meaningful(serial string) string {
	serial = strings.ToLower(strings.TrimSpace(serial))
	if !strings.ContainsAny(serial, "123456789") || strings.HasPrefix("01234567890", serial) || strings.HasPrefix("1234567890", serial) {
		return ""
	}
	return serial
}

// serial returns the serial number that Ironic has of a node, "" if it has none.
// There is no field for it: operators and rules write it into properties or extra.
func (n Node) serial() string {
	for _, fields := range []map[string]any{n.Properties, n.Extra} {
		vendor, _ := fields["system_vendor"].(map[string]any)
		for _, value := range []any{vendor["serial_number"], fields["serial_number"], fields["serial"]} {
			if text, ok := value.(string); ok && meaningful(text) != "" {
				return meaningful(text)
			}
		}
	}
	return ""
}

// lacks reports whether one of the known MACs is not among macs.
func lacks(macs, known []string) bool {
	return slices.ContainsFunc(known, func(mac string) bool { return !slices.Contains(macs, mac) })
}

// otherBMC reports whether two BMCs have addresses of one version of IP, and none
// in common. A link-local address says nothing: a BMC has others besides.
func otherBMC(one, other []string) bool {
	comparable := false
	for _, a := range one {
		for _, b := range other {
			if a == b {
				return false
			}
			comparable = comparable || routed(a, b)
		}
	}
	return comparable
}

// routed reports whether two addresses are of one version and not link-local.
func routed(a, b string) bool {
	one, err := netip.ParseAddr(a)
	two, err2 := netip.ParseAddr(b)
	return err == nil && err2 == nil && one.Is4() == two.Is4() && !one.IsLinkLocalUnicast() && !two.IsLinkLocalUnicast()
}
