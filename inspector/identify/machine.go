package identify

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// MaxInterfaces bounds the interfaces of a ramdisk that identify its node.
const MaxInterfaces = 1024

// Machine is what a ramdisk's data say that tells its machine from others. The slices
// are shared.
type Machine struct {
	// Attributes are the MACs of its interfaces and the addresses of its BMC: maybe
	// more than a record takes.
	introspection.Attributes
	// Inner are those of its MACs whose cards lead to its own BMC. They often have
	// one MAC in all machines of a kind.
	Inner []string
	// Serial is its serial number, "" if there is none that means anything. That it
	// is equal proves nothing.
	Serial string
	// Document is what it sent.
	Document blobs.Hash
	// Not are nodes that it was found not to be.
	Not []Exclusion
}

// Of returns what a ramdisk's data say that identifies its node: the MACs of the
// inventory's interfaces, up to 1,024, and the BMC's addresses; and what tells the
// machine from others that share some of these. A value of the wrong shape identifies
// no machine and is left out: the hooks report it. Unlike the original it needs no
// hook to have succeeded, so that a node whose hooks fail is found and learns why.
func Of(d *document.Document) Machine {
	// without a name no hook would take it
	return machineOf(d, func(nic *document.Parts) bool { return nic.Get("name").Text() != "" })
}

// OfInband is Of for what Ironic's own endpoint takes: an inventory with at least one
// interface, each with the text of a MAC, where a MAC or a BMC's address can be looked
// up. It asks for no interface's name. Other data are a *document.Problem.
func OfInband(d *document.Document) (m Machine, err error) {
	inventory, err := d.Value("inventory").Members()
	if err != nil {
		return m, document.Failed("Invalid data: inventory: expected an object")
	}
	interfaces, _, err := inventory.Get("interfaces").Elements(MaxInterfaces)
	if err != nil || len(interfaces) == 0 {
		return m, document.Failed("Invalid data: inventory.interfaces: expected a list that is not empty")
	}
	for i, item := range interfaces {
		if nic, err := item.Members(); err != nil || nic.Get("mac_address").Kind() != document.Text {
			return m, document.Failed("Invalid data: inventory.interfaces: item %d has no mac_address", i)
		}
	}
	m = machineOf(d, func(*document.Parts) bool { return true })
	if len(m.MACs)+len(m.BMC) == 0 {
		return m, document.Failed("No lookup information provided")
	}
	return m, nil
}

// machineOf reads a machine with those of its interfaces that count.
func machineOf(d *document.Document, counts func(nic *document.Parts) bool) Machine {
	inventory := Inventory(d)
	vendor, _ := inventory.Get("system_vendor").Members() // none of another shape
	m := Machine{Serial: meaningful(vendor.Get("serial_number").Text())}
	v4, v6 := BMCOf(d, inventory)
	m.BMC = addAddress(addAddress(nil, v4), v6)
	interfaces, _, _ := inventory.Get("interfaces").Elements(MaxInterfaces) // none of another shape
	for _, item := range interfaces {
		nic, err := item.Members()
		if err != nil || !counts(nic) {
			continue
		}
		if mac, ok := CanonicalMAC(nic.Get("mac_address").Text()); ok {
			m.MACs = append(m.MACs, mac)
			if leadsToBMC(nic) {
				m.Inner = append(m.Inner, mac)
			}
		}
	}
	m.MACs, m.Inner = unique(m.MACs), unique(m.Inner)
	return m
}

// Owns reports whether an interface is the machine's own and gets a port: by the form of
// its MAC, unless it leads to the BMC, or because the machine booted from it.
func (m Machine) Owns(mac string, booted bool) bool {
	return booted && portMAC(mac) || ownMAC(mac) && !slices.Contains(m.Inner, mac)
}

// telling are the MACs that tell the machine from others.
func (m Machine) telling() []string { return without(PortMACs(m.MACs), m.Inner) }

// Address returns the first of the BMC's addresses that is of an enabled version of IP,
// "4" or "6"; "" if there is none.
func (m Machine) Address(enabled []string) string {
	for _, version := range enabled {
		if n := slices.IndexFunc(m.BMC,
			func(address string) bool { return strings.Contains(address, ":") == (version == "6") }); n >= 0 {
			return m.BMC[n]
		}
	}
	return ""
}

// Inventory returns the members of the inventory, none if it has none.
func Inventory(d *document.Document) *document.Parts {
	members, _ := d.Value("inventory").Members()
	return members
}

// BMCOf returns the BMC's addresses as a ramdisk's data give them, "" for those
// they do not give: the inventory's, or the document's own, of old ramdisks,
// where the inventory lacks the key; null is having it.
func BMCOf(d *document.Document, inventory *document.Parts) (v4, v6 string) {
	read := func(key, old, none string) string {
		given := inventory.Get(key)
		if given == nil {
			given = d.Value(old)
		}
		if given.Text() == none {
			return ""
		}
		return given.Text()
	}
	return read("bmc_address", "ipmi_address", "0.0.0.0"), read("bmc_v6address", "ipmi_v6address", "::/0")
}

// addAddress adds what is an address, but for 169.254.0.0/16: that of a BMC towards its own
// host, which is the same in many machines.
func addAddress(addresses []string, text string) []string {
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.IsUnspecified() || ip.Unmap().Is4() && ip.Unmap().IsLinkLocalUnicast() {
		return addresses
	}
	if text = ip.Unmap().WithZone("").String(); slices.Contains(addresses, text) {
		return addresses
	}
	return append(addresses, text)
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

// meaningful returns a serial number in lower case, "" for what vendors write where
// there is none: words, zeros, or digits in a row.
func meaningful(serial string) string {
	serial = strings.ToLower(strings.TrimSpace(serial))
	if !strings.ContainsAny(serial, "123456789") || strings.HasPrefix("01234567890", serial) ||
		strings.HasPrefix("1234567890", serial) {
		return ""
	}
	return serial
}

// SerialIn returns the serial number that Ironic has of a node, "" if it has none. There
// is no field for it: operators and rules write it into properties or extra.
func SerialIn(properties, extra map[string]any) string {
	for _, fields := range []map[string]any{properties, extra} {
		vendor, _ := fields["system_vendor"].(map[string]any)
		for _, value := range []any{vendor["serial_number"], fields["serial_number"], fields["serial"]} {
			if text, ok := value.(string); ok && meaningful(text) != "" {
				return meaningful(text)
			}
		}
	}
	return ""
}
