package hardware

import (
	"strconv"
	"strings"
)

// kind is how the parts of one kind are found in a document, and what of them
// counts. What no row names is noise: names of devices, which change with the
// order of detection; addresses, which DHCP lends; flags and rates of processors,
// drivers and the kernel's share of memory, which change with the ramdisk.
type kind struct {
	name  string
	facts []string // the names of a part's facts, for those who write expectations
	read  func(document value) (parts []Part, told bool)
}

// kinds is the table.
var kinds = [...]kind{
	one("system", "inventory.system_vendor", "manufacturer", "product_name", "serial_number"),
	one("firmware", "inventory.system_vendor.firmware", "vendor", "version", "build_date"),
	one("BMC", "inventory", "bmc_address", "bmc_v6address", "bmc_mac"),
	one("boot", "inventory.boot", "current_boot_mode"),
	one("CPU", "inventory.cpu", "model_name", "architecture", "count", "socket_count"),
	{"memory", []string{"size"}, memory},
	{"memory module", moduleFacts, modules},
	many("disk", "inventory.disks", ids("serial", "wwn_with_extension", "wwn"), "by_path", "size", "model", "vendor",
		"rotational", "tran"),
	many("card", "pci_devices", ids(), "bus", "vendor_id", "product_id", "class", "revision"),
	{networkInterface, []string{"vendor", "product", "firmware"}, interfaces},
	{cable, []string{"speed_mbps", "switch", "port", "vlan"}, cables},
}

// The kinds that have rules of their own.
const (
	networkInterface = "interface"
	cable            = "cable"
)

// one is the kind of a part that a machine has once: the object at a path.
func one(name, path string, facts ...string) kind {
	return kind{name, facts, func(d value) ([]Part, bool) {
		p := Part{Facts: factsOf(d.at(path), facts)}
		if len(p.Facts) == 0 {
			return nil, false
		}
		return []Part{p}, true
	}}
}

// ids names the members that identify a part: the first that is told counts.
func ids(members ...string) []string { return members }

// many is the kind of the parts that a list at a path tells.
func many(name, path string, ids []string, place string, facts ...string) kind {
	return kind{name, facts, func(d value) ([]Part, bool) { return listed(d.at(path), ids, place, facts) }}
}

func listed(v value, ids []string, place string, facts []string) ([]Part, bool) {
	list, told := v.list()
	parts := make([]Part, 0, len(list))
	for _, v := range list {
		p := Part{Place: v.at(place).text(), Facts: factsOf(v, facts)}
		for _, name := range ids {
			if p.ID = v.at(name).text(); !blank(p.ID) {
				break
			}
		}
		if p.ID != "" || p.Place != "" || len(p.Facts) > 0 {
			parts = append(parts, p)
		}
	}
	return parts, told
}

func factsOf(v value, names []string) map[string]string {
	facts := make(map[string]string, len(names))
	for _, name := range names {
		if text := v.at(name).text(); text != "" && text != "::/0" && text != "0.0.0.0" { // the agent's words for no BMC
			facts[name] = text
		}
	}
	return facts
}

// interfaces reads the network interfaces that have a MAC, without the loopback's.
// Their firmware is what the collector of extra hardware tells of that MAC.
func interfaces(d value) ([]Part, bool) {
	list, told := listed(d.at("inventory.interfaces"), ids("mac_address"), "pci_address", []string{"vendor", "product"})
	firmware := make(map[string]string)
	for _, fields := range extra(d, "network") {
		if mac := strings.ToLower(fields["serial"]); mac != "" && fields["firmware"] != "" {
			firmware[mac] = fields["firmware"]
		}
	}
	parts := list[:0]
	for _, p := range list {
		if p.ID = strings.ToLower(p.ID); blank(p.ID) {
			continue
		}
		if version := firmware[p.ID]; version != "" {
			p.Facts["firmware"] = version
		}
		parts = append(parts, p)
	}
	return parts, told
}

// memory reads how much is built in, in bytes; the agent tells MiB.
func memory(d value) ([]Part, bool) {
	mib, err := strconv.ParseUint(d.at("inventory.memory.physical_mb").text(), 10, 43)
	if err != nil || mib == 0 {
		return nil, false
	}
	return []Part{{Facts: map[string]string{"size": strconv.FormatUint(mib<<20, 10)}}}, true
}

var moduleFacts = []string{"size", "description", "vendor", "product"}

// modules reads the memory modules, which the collector of extra hardware tells.
func modules(d value) ([]Part, bool) {
	var parts []Part
	banks := extra(d, "memory")
	for bank, fields := range banks {
		if !strings.HasPrefix(bank, "bank:") || fields["size"] == "" {
			continue // the total, and slots that are empty
		}
		p := Part{ID: fields["serial"], Place: fields["slot"], Facts: make(map[string]string)}
		if p.Place == "" {
			p.Place = bank
		}
		for _, name := range moduleFacts {
			if text := fields[name]; text != "" {
				p.Facts[name] = text
			}
		}
		parts = append(parts, p)
	}
	return parts, len(banks) > 0
}

// extra returns what the collector of extra hardware tells of one item, such as
// memory: fields by name, such as those of bank:0. It is a list of item, name,
// field and value in what a ramdisk sends, and a tree once the hook extra_hardware
// has run.
func extra(d value, item string) map[string]map[string]string {
	found := make(map[string]map[string]string)
	add := func(name, field, text string) {
		if found[name] == nil {
			if len(found) == maxParts {
				return
			}
			found[name] = make(map[string]string)
		}
		if text != "" && len(found[name]) < maxParts {
			found[name][field] = text
		}
	}
	list, _ := d.at("data").v.([]any)
	for _, entry := range list {
		if parts, _ := (value{entry}).list(); len(parts) == 4 && parts[0].text() == item {
			add(parts[1].text(), parts[2].text(), parts[3].text())
		}
	}
	tree, _ := d.at("extra." + item).v.(map[string]any)
	for name, fields := range tree {
		fields, _ := fields.(map[string]any)
		for field, v := range fields {
			add(line(name), line(field), value{v}.text())
		}
	}
	return found
}
