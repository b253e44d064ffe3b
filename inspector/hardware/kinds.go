package hardware

import (
	"cmp"
	"path"
	"slices"
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
	{memory, []string{"size"}, memorySize},
	{memoryModule, moduleFacts, modules},
	{disk, diskFacts, disks},
	many(card, "pci_devices", "bus", "vendor_id", "product_id", "class", "revision"),
	{networkInterface, interfaceFacts, interfaces},
	{cable, []string{"speed_mbps", "switch", "port", "vlan"}, cables},
}

// The kinds that the rules of a comparison name.
const (
	memory           = "memory"
	memoryModule     = "memory module"
	disk             = "disk"
	card             = "card"
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

// many is the kind of the parts that a list at a path tells.
func many(name, path, place string, facts ...string) kind {
	return kind{name, facts, func(d value) ([]Part, bool) {
		return listed(d.at(path), place, facts, func(value, *Part) {})
	}}
}

// listed reads the parts of a list; more adds to a part what is not read the same way
// of all.
func listed(v value, place string, facts []string, more func(value, *Part)) ([]Part, bool) {
	list, told := v.list()
	var parts []Part
	for _, v := range list {
		p := Part{Place: v.at(place).text(), Facts: factsOf(v, facts)}
		more(v, &p)
		if len(p.ids) > 0 || p.Place != "" || len(p.Facts) > 0 {
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

var diskFacts = []string{"size", "model", "vendor", "rotational", "tran", "firmware", "revision"}

// disks reads the disks. Their firmware is what SMART tells, or else the revision, four
// characters of it: the collector of extra hardware has them by the kernel's name.
func disks(d value) ([]Part, bool) {
	more := extra(d, "disk")
	return listed(d.at("inventory.disks"), "by_path", diskFacts, func(v value, p *Part) {
		p.Place = onePath(p.Place)
		wwn := cmp.Or(v.at("wwn_with_extension").text(), v.at("wwn").text())
		if serial := v.at("serial").text(); !strings.EqualFold(serial, strings.TrimPrefix(wwn, "0x")) {
			p.identify("serial", serial) // of a SCSI disk older agents tell the WWN there
		}
		p.identify("wwn", wwn)
		told := more[path.Base(v.at("name").text())]
		if version := told["SMART/firmware_version"]; version != "" {
			p.Facts["firmware"] = version
		} else if revision := told["rev"]; revision != "" {
			p.Facts["revision"] = revision
		}
	})
}

// onePath returns the same of all the names that udev gives to a disk's place below
// by-path. The agent reads a directory and takes one of them, the next boot another:
// with the device's number at an ATA port or without, with the USB revision or without,
// with the driver virtio or without.
func onePath(link string) string {
	same := strings.NewReplacer("/virtio-pci-", "/pci-", "-usbv1-", "-usb-", "-usbv2-", "-usb-", "-usbv3-", "-usb-")
	link = same.Replace(link)
	if port, ok := strings.CutSuffix(link, ".0"); ok && strings.Contains(link, "-ata-") {
		return port
	}
	return link
}

var interfaceFacts = []string{"vendor", "product", "firmware"}

// interfaces reads the network interfaces that have a MAC, without the loopback's.
// Their firmware is what the collector of extra hardware tells of that MAC.
func interfaces(d value) ([]Part, bool) {
	firmware := make(map[string]string)
	for _, fields := range extra(d, "network") {
		if mac := strings.ToLower(fields["serial"]); mac != "" && fields["firmware"] != "" {
			firmware[mac] = fields["firmware"]
		}
	}
	parts, told := listed(d.at("inventory.interfaces"), "pci_address", interfaceFacts, func(v value, p *Part) {
		mac := strings.ToLower(v.at("mac_address").text())
		p.identify("mac", mac)
		if version := firmware[mac]; version != "" {
			p.Facts["firmware"] = version
		}
	})
	return slices.DeleteFunc(parts, func(p Part) bool { return len(p.ids) == 0 }), told
}

// memorySize reads how much is built in, in bytes; the agent tells MiB.
func memorySize(d value) ([]Part, bool) {
	mib, err := strconv.ParseUint(d.at("inventory.memory.physical_mb").text(), 10, 43)
	if err != nil || mib == 0 {
		return nil, false
	}
	return []Part{{Facts: map[string]string{"size": strconv.FormatUint(mib<<20, 10)}}}, true
}

var moduleFacts = []string{"size", "description", "vendor", "product"}

// modules reads the memory modules, of which two collectors tell: extra hardware,
// which leaves a machine's only module out, and dmi-decode.
func modules(d value) ([]Part, bool) {
	var parts []Part
	for bank, fields := range extra(d, "memory") {
		if !strings.HasPrefix(bank, "bank:") || fields["size"] == "" {
			continue // the total, and slots that are empty
		}
		p := Part{Place: cmp.Or(fields["slot"], bank), Facts: make(map[string]string)}
		p.identify("serial", fields["serial"])
		for _, name := range moduleFacts {
			if text := fields[name]; text != "" {
				p.Facts[name] = text
			}
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = decodedModules(d)
	}
	return parts, len(parts) > 0
}

// decodedModules reads the modules from what dmidecode printed.
func decodedModules(d value) []Part {
	list, _ := d.at("dmi.memory.devices").list()
	var parts []Part
	for _, v := range list {
		size, ok := decodedSize(v.at("Size").text())
		if !ok {
			continue // the slot is empty
		}
		p := Part{Place: v.at("Locator").text(), Facts: map[string]string{"size": size}}
		p.identify("serial", v.at("Serial Number").text())
		for _, name := range [...][2]string{{"vendor", "Manufacturer"}, {"product", "Part Number"}} {
			if text := v.at(name[1]).text(); !blank(text) {
				p.Facts[name[0]] = text
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// decodedSize makes bytes of a size such as "16 GiB", which dmidecode called "16 GB"
// and "16384 MB" before. It tells of an empty slot that there is no module.
func decodedSize(text string) (string, bool) {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(number, 10, 32)
	power := strings.Index("kMGT", unit[:min(len(unit), 1)])
	if err != nil || n == 0 || power < 0 || unit == "" || n > 1<<(53-10*(power+1)) {
		return "", false
	}
	return strconv.FormatUint(n<<(10*(power+1)), 10), true
}

// extra returns what the collector of extra hardware tells of one item, such as
// memory: fields by name, such as those of bank:0. It is a list of item, name,
// field and value in what a ramdisk sends, and a tree once the hook extra_hardware
// has run.
func extra(d value, item string) map[string]map[string]string {
	found := make(map[string]map[string]string)
	add := func(name, field, text string) {
		if found[name] == nil {
			found[name] = make(map[string]string)
		}
		if text != "" {
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
