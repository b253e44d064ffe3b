package hardware_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/test/sandbox/machine"
)

// told is a document as a test changes it.
type told map[string]any

func (d told) inventory() map[string]any { return d["inventory"].(map[string]any) }

func (d told) list(name string) []any { return d.inventory()[name].([]any) }

func (d told) item(name string, i int) map[string]any { return d.list(name)[i].(map[string]any) }

// raw is the document of a simulated server: 4 to 12 disks, 24 memory modules, 48
// cards, three interfaces of which two have a cable.
func raw() []byte { return machine.Inventory(machine.Number(1, 7, 3)) }

func document(t *testing.T, change func(told)) []byte {
	t.Helper()
	var d told
	if err := json.Unmarshal(raw(), &d); err != nil {
		t.Fatal(err)
	}
	change(d)
	out, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, document []byte) hardware.Machine {
	t.Helper()
	m, err := hardware.Of(document)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fact(d told, item, name, field string, to any) {
	for _, e := range d["data"].([]any) {
		if e := e.([]any); e[0] == item && e[1] == name && e[2] == field {
			e[3] = to
		}
	}
}

func shareSerials(d told) {
	for i := range 24 {
		fact(d, "memory", fmt.Sprintf("bank:%d", i), "serial", "SHARED")
	}
}

func withoutFacts(d told, item, name string) {
	d["data"] = slices.DeleteFunc(d["data"].([]any), func(e any) bool {
		parts := e.([]any)
		return parts[0] == item && (name == "" || parts[1] == name)
	})
}

func withoutModules(d told) {
	d["data"] = slices.DeleteFunc(d["data"].([]any), func(e any) bool {
		parts := e.([]any)
		return parts[0] == "memory" && strings.HasPrefix(parts[1].(string), "bank:")
	})
}

// decode adds what dmidecode prints of the modules, and of an empty slot.
func decode(d told, size ...any) {
	devices := []any{map[string]any{"Locator": "P9-DIMM9", "Size": "No Module Installed", "Serial Number": "NO DIMM"}}
	for i := range 24 {
		module := map[string]any{"Size": "16 GiB", "Manufacturer": "Unknown", "Part Number": "Not Specified"}
		if len(size) > 0 {
			module["Size"] = size[0]
		}
		for _, e := range d["data"].([]any) {
			switch e := e.([]any); {
			case e[0] != "memory" || e[1] != fmt.Sprintf("bank:%d", i):
			case e[2] == "serial":
				module["Serial Number"] = e[3]
			case e[2] == "slot":
				module["Locator"] = e[3]
			}
		}
		devices = append(devices, module)
	}
	d["dmi"] = map[string]any{"memory": map[string]any{"devices": devices}}
}

// TestNoiseIsNoChange boots a machine twice. What differs from boot to boot, and
// what only one of both documents tells, is no change, in either direction.
func TestNoiseIsNoChange(t *testing.T) {
	for name, change := range map[string]func(told){
		"nothing":                func(told) {},
		"disks in another order": func(d told) { slices.Reverse(d.list("disks")) },
		"disks under other names": func(d told) {
			d.item("disks", 0)["name"], d.item("disks", 1)["name"] = "/dev/sdb", "/dev/sda"
		},
		"another SCSI host":         func(d told) { d.item("disks", 0)["hctl"] = "6:0:0:0" },
		"interfaces under names":    func(d told) { d.item("interfaces", 0)["name"] = "enp24s0f0" },
		"interfaces in other order": func(d told) { slices.Reverse(d.list("interfaces")) },
		"another address":           func(d told) { d.item("interfaces", 0)["ipv4_address"] = "192.0.2.7" },
		"another driver":            func(d told) { d.item("interfaces", 0)["driver"] = "i40e2" },
		"a MAC in capitals":         func(d told) { d.item("interfaces", 0)["mac_address"] = "52:54:01:00:07:00" },
		"a clock rate":              func(d told) { d.inventory()["cpu"].(map[string]any)["frequency"] = "3700.0000" },
		"the kernel's share":        func(d told) { d.inventory()["memory"].(map[string]any)["total"] = 1 << 30 },
		"flags of a newer kernel": func(d told) {
			d.inventory()["cpu"].(map[string]any)["flags"] = []any{"fpu", "mitigated"}
		},
		"measured rates":                func(d told) { fact(d, "cpu", "logical_3", "bogomips", "1.00") },
		"the host's name":               func(d told) { d.inventory()["hostname"] = "other" },
		"cards in another order":        func(d told) { slices.Reverse(d["pci_devices"].([]any)) },
		"no collector of cards":         func(d told) { delete(d, "pci_devices") },
		"no extra hardware":             func(d told) { delete(d, "data") },
		"no memory in it":               func(d told) { withoutFacts(d, "memory", "") },
		"no switch heard":               func(d told) { d.item("interfaces", 0)["lldp"] = nil },
		"no BMC asked":                  func(d told) { d.inventory()["bmc_address"] = nil },
		"a BMC without IPv6":            func(d told) { d.inventory()["bmc_v6address"] = nil },
		"an agent of less words":        func(d told) { delete(d.item("interfaces", 1), "pci_address") },
		"lists of another type":         func(d told) { d.inventory()["disks"] = "many" },
		"no list of modules":            withoutModules, // as of a machine with one: lshw calls it bank, without a number
		"modules by dmidecode":          func(d told) { decode(d); withoutModules(d) },
		"modules by an older dmidecode": func(d told) { decode(d, "16384 MB"); delete(d, "data") },
		"a disk by another of its links": func(d told) {
			d.item("disks", 0)["by_path"] = "/dev/disk/by-path/pci-0000:00:17.0-ata-1.0"
		},
		"an older agent, to which a WWN is a serial number": func(d told) {
			d.item("disks", 0)["serial"] = strings.TrimPrefix(d.item("disks", 0)["wwn"].(string), "0x")
		},
		"disks that tell a WWN alone": func(d told) {
			for i := range d.list("disks") {
				d.item("disks", i)["serial"] = nil
			}
		},
		"disks that tell no WWN": func(d told) {
			for i := range d.list("disks") {
				d.item("disks", i)["wwn"], d.item("disks", i)["wwn_with_extension"] = nil, nil
			}
		},
		"a tree of extra hardware": func(d told) {
			tree := map[string]any{}
			for _, e := range d["data"].([]any) {
				at := tree
				parts := e.([]any)
				for _, name := range parts[:2] {
					if at[name.(string)] == nil {
						at[name.(string)] = map[string]any{}
					}
					at = at[name.(string)].(map[string]any)
				}
				at[parts[2].(string)] = parts[3]
			}
			delete(d, "data")
			d["extra"] = tree
		},
		"LLDP where newer agents put it": func(d told) {
			d["lldp_raw"] = map[string]any{"eth0": d.item("interfaces", 0)["lldp"]}
			d.item("interfaces", 0)["lldp"] = nil
		},
	} {
		before, after := read(t, raw()), read(t, document(t, change))
		if got := hardware.Compare(before, after); len(got) > 0 {
			t.Errorf("%s: told as a change: %v", name, got)
		}
		if got := hardware.Compare(after, before); len(got) > 0 {
			t.Errorf("%s, backwards: told as a change: %v", name, got)
		}
	}
}

// change is one change to a machine, or two at once, and the sentences for it.
type change struct {
	make func(told)
	want []string
}

var changes = map[string]change{
	"a disk that went": {
		func(d told) { d.inventory()["disks"] = d.list("disks")[1:] },
		[]string{
			"disk S00000000000800 went (at /dev/disk/by-path/pci-0000:00:17.0-ata-1, model SIMDISK 480G, rotational no, size 480 GiB, vendor ATA)"},
	},
	"a disk in another slot": {
		func(d told) { d.item("disks", 0)["by_path"] = "/dev/disk/by-path/pci-0000:00:17.0-ata-9" },
		[]string{
			"disk S00000000000800 moved from /dev/disk/by-path/pci-0000:00:17.0-ata-1 to /dev/disk/by-path/pci-0000:00:17.0-ata-9"},
	},
	"a disk that was replaced": {
		func(d told) { d.item("disks", 0)["serial"] = "NEW1" },
		[]string{
			"disk S00000000000800 went (at /dev/disk/by-path/pci-0000:00:17.0-ata-1, model SIMDISK 480G, rotational no, size 480 GiB, vendor ATA)",
			"disk NEW1 came (at /dev/disk/by-path/pci-0000:00:17.0-ata-1, model SIMDISK 480G, rotational no, size 480 GiB, vendor ATA)",
		},
	},
	"a disk that tells another size": {
		func(d told) { d.item("disks", 0)["size"] = 1 },
		[]string{"disk S00000000000800 changed: size 480 GiB is 1 now"},
	},
	"firmware": {
		func(d told) {
			d.inventory()["system_vendor"].(map[string]any)["firmware"].(map[string]any)["version"] = "3.2.2"
		},
		[]string{"firmware changed: version 3.2.1 is 3.2.2 now"},
	},
	"a card's firmware": {
		func(d told) { fact(d, "network", "eth0", "firmware", "7.0") },
		[]string{"interface 52:54:01:00:07:00 changed: firmware 6.01 0x800035cf 1.1747.0 is 7.0 now"},
	},
	"a cable that went": {
		func(d told) { d.item("interfaces", 1)["has_carrier"], d.item("interfaces", 1)["lldp"] = false, nil },
		[]string{"cable 52:54:01:00:07:01 went (at leaf-2 Ethernet2/36, speed_mbps 10000, vlan 100)"},
	},
	"memory": {
		func(d told) { d.inventory()["memory"].(map[string]any)["physical_mb"] = 1024 },
		[]string{"memory changed: size 64 GiB is 1 GiB now"},
	},
	"a memory module": {
		func(d told) { fact(d, "memory", "bank:0", "size", "8589934592") },
		[]string{"memory module 026610E7 changed: size 16 GiB is 8 GiB now"},
	},
	"two cables that changed places": {
		func(d told) {
			a, b := d.item("interfaces", 0), d.item("interfaces", 1)
			a["lldp"], b["lldp"] = b["lldp"], a["lldp"]
		},
		[]string{"cable 52:54:01:00:07:00 moved from leaf-1 Ethernet1/11 to leaf-2 Ethernet2/36",
			"cable 52:54:01:00:07:01 moved from leaf-2 Ethernet2/36 to leaf-1 Ethernet1/11"},
	},
	"a slower cable": {
		func(d told) { d.item("interfaces", 0)["speed_mbps"] = 1000 },
		[]string{"cable 52:54:01:00:07:00 changed: speed_mbps 10000 is 1000 now"},
	},
	"a memory module that dmidecode alone tells": {
		func(d told) {
			decode(d)
			withoutModules(d)
			d["dmi"].(map[string]any)["memory"].(map[string]any)["devices"].([]any)[3].(map[string]any)["Serial Number"] = "NEW1"
		},
		[]string{
			"memory module D2A11DF6 went (at P0-DIMMC0, description DIMM DDR4 Synchronous 2666 MHz (0.4 ns), size 16 GiB)",
			"memory module NEW1 came (at P0-DIMMC0, size 16 GiB)"},
	},
	"modules that share a serial number, one of another size": {
		func(d told) {
			shareSerials(d)
			fact(d, "memory", "bank:5", "size", "8589934592")
		},
		[]string{"memory module at P0-DIMMF1 changed: size 16 GiB is 8 GiB now"},
	},
	"a board that boots otherwise": {
		func(d told) { d.inventory()["boot"].(map[string]any)["current_boot_mode"] = "bios" },
		[]string{"boot changed: current_boot_mode uefi is bios now"},
	},
	"a card at another number of the bus": {
		func(d told) { d["pci_devices"].([]any)[7].(map[string]any)["bus"] = "0000:99:00.0" },
		[]string{"card at 0000:99:00.0 moved from 0000:00:07.7 to 0000:99:00.0"},
	},
	"an interface in another slot, and its cable in another port": {
		func(d told) {
			a := d.item("interfaces", 0)
			a["pci_address"], a["lldp"] = "0000:99:00.0", d.item("interfaces", 1)["lldp"]
		},
		[]string{"interface 52:54:01:00:07:00 moved from 0000:18:00.0 to 0000:99:00.0",
			"cable 52:54:01:00:07:00 moved from leaf-1 Ethernet1/11 to leaf-2 Ethernet2/36"},
	},
	"a memory module, and so the memory": {
		func(d told) {
			d.inventory()["memory"].(map[string]any)["physical_mb"] = 48 << 10
			fact(d, "memory", "bank:0", "size", "8589934592")
		},
		[]string{"memory module 026610E7 changed: size 16 GiB is 8 GiB now"},
	},
	"an interface with its cable": {
		func(d told) {
			d.inventory()["interfaces"] = append(d.list("interfaces")[:1:1], d.list("interfaces")[2:]...)
		},
		[]string{
			"interface 52:54:01:00:07:01 went (at 0000:18:00.1, firmware 6.01 0x800035cf 1.1747.0, product 0x1572, vendor 0x8086)"},
	},
}

// TestChangesAreTold makes each change and wants its sentences and no other.
func TestChangesAreTold(t *testing.T) {
	for name, c := range changes {
		var got []string
		for _, change := range hardware.Compare(read(t, raw()), read(t, document(t, c.make))) {
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: told\n%q\nwant\n%q", name, got, c.want)
		}
	}
}

// TestSharedSerialNumberIdentifiesNothing takes one of 24 memory modules away into
// which their maker wrote one serial number.
func TestSharedSerialNumberIdentifiesNothing(t *testing.T) {
	before := read(t, document(t, shareSerials))
	after := read(t, document(t, func(d told) { shareSerials(d); withoutFacts(d, "memory", "bank:0") }))
	changes := hardware.Compare(before, after)
	const want = "memory module at P0-DIMMA0 went (description DIMM DDR4 Synchronous 2666 MHz (0.4 ns), size 16 GiB)"
	if len(changes) != 1 || changes[0].String() != want {
		t.Errorf("told %q, want %q", changes, want)
	}
}

// TestFirmwareOfADiskIsTold reads it where the collector of extra hardware writes it, by
// the names that the kernel gave at that boot.
func TestFirmwareOfADiskIsTold(t *testing.T) {
	boot := func(facts ...[4]any) hardware.Machine {
		return read(t, document(t, func(d told) {
			for _, f := range facts {
				d["data"] = append(d["data"].([]any), f[:])
			}
		}))
	}
	const item, smart = "disk", "SMART/firmware_version"
	before := boot([4]any{item, "sda", "rev", "B004"}, [4]any{item, "sdb", smart, "TN050001"},
		[4]any{item, "sdb", "rev", "0001"})
	for name, c := range map[string]struct {
		after hardware.Machine
		want  []string
	}{
		"revision": {boot([4]any{item, "sda", "rev", "B007"}),
			[]string{"disk S00000000000800 changed: revision B004 is B007 now"}},
		"firmware": {boot([4]any{item, "sdb", smart, "TN060001"}, [4]any{item, "sdb", "rev", "0001"}),
			[]string{"disk S00000000000801 changed: firmware TN050001 is TN060001 now"}},
		"a ramdisk without smartctl": {boot([4]any{item, "sdb", "rev", "0001"}), nil},
	} {
		var got []string
		for _, change := range hardware.Compare(before, c.after) {
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: told %q, want %q", name, got, c.want)
		}
	}
}

// TestNamespacesOfOneDiskAreTwo takes one of two namespaces away. They share the serial
// number of their disk, as the two halves of a SAS disk with two actuators do.
func TestNamespacesOfOneDiskAreTwo(t *testing.T) {
	two := func(d told) {
		d.inventory()["disks"] = []any{
			map[string]any{"serial": "S1", "wwn": "eui.01", "size": 1 << 40, "by_path": "pci-0000:02:00.0-nvme-1"},
			map[string]any{"serial": "S1", "wwn": "eui.02", "size": 1 << 40, "by_path": "pci-0000:02:00.0-nvme-2"},
		}
	}
	after := read(t, document(t, func(d told) {
		two(d)
		d.inventory()["disks"] = d.list("disks")[1:]
	}))
	changes := hardware.Compare(read(t, document(t, two)), after)
	const want = "disk eui.01 went (at pci-0000:02:00.0-nvme-1, size 1024 GiB)"
	if len(changes) != 1 || changes[0].String() != want {
		t.Errorf("told %q, want %q", changes, want)
	}
}

// TestDifferentDisksOfOneWWN replaces a disk by one of a maker who writes the same WWN
// into all.
func TestDifferentDisksOfOneWWN(t *testing.T) {
	disk := func(serial string) hardware.Machine {
		return read(t, document(t, func(d told) {
			d.inventory()["disks"] = []any{map[string]any{"serial": serial, "wwn": "0x5000000000000001", "by_path": "pci-1"}}
		}))
	}
	changes := hardware.Compare(disk("S1"), disk("S2"))
	if len(changes) != 2 || changes[0].String() != "disk S1 went (at pci-1)" ||
		changes[1].String() != "disk S2 came (at pci-1)" {
		t.Errorf("told %q, want that one went and one came", changes)
	}
}
