package identify

import (
	"net"
	"slices"
	"strings"
)

// noMAC is what interfaces have that have none.
const noMAC = "00:00:00:00:00:00"

// CanonicalMAC returns a MAC in lower case. Only six bytes with colons between
// them are one, as in Ironic.
func CanonicalMAC(text string) (mac string, ok bool) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != 6 || text[2] != ':' {
		return "", false
	}
	return hw.String(), true
}

// ownMAC reports whether a MAC, in lower case, is an interface's own by its form
// alone: one with the group bit is only if Ironic has a port for it, or if the machine
// booted from it.
func ownMAC(mac string) bool {
	const digits = "0123456789abcdef"
	// the last bit of the first byte says that it is a group's
	return portMAC(mac) && strings.IndexByte(digits, mac[1])%2 == 0
}

// portMAC reports whether a MAC, in lower case, can be that of a port: the one of
// loopback interfaces and those by which protocols address groups cannot.
func portMAC(mac string) bool {
	// Broadcast; multicast of IPv4, IPv6, IEEE 802.1 and Cisco.
	groups := []string{"ff:ff:ff:ff:ff:ff", "01:00:5e:", "33:33:", "01:80:c2:", "01:00:0c:"}
	return mac != noMAC && !slices.ContainsFunc(groups, func(group string) bool { return strings.HasPrefix(mac, group) })
}

// PortMACs returns, in lower case and each once, those of some MACs that can be a port's.
func PortMACs(texts []string) (macs []string) {
	for _, text := range texts {
		if mac, ok := CanonicalMAC(text); ok && portMAC(mac) {
			macs = append(macs, mac)
		}
	}
	return unique(macs)
}

// set is texts that are looked up often: any client sends a thousand MACs.
type set map[string]struct{}

func setOf(texts []string) set {
	s := make(set, len(texts))
	for _, text := range texts {
		s[text] = struct{}{}
	}
	return s
}

func (s set) has(text string) bool {
	_, ok := s[text]
	return ok
}

// lacks reports whether one of the texts is not in it.
func (s set) lacks(texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return !s.has(text) })
}

// unique keeps the first of equal texts. It changes texts.
func unique(texts []string) []string {
	seen := make(set, len(texts))
	return slices.DeleteFunc(texts, func(text string) bool {
		again := seen.has(text)
		seen[text] = struct{}{}
		return again
	})
}

// without returns those of macs that are not among others.
func without(macs, others []string) []string {
	return slices.DeleteFunc(slices.Clone(macs), setOf(others).has)
}
