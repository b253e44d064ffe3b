package rules

import (
	"slices"
	"strings"
	"testing"
)

// What the rules have that Kayobe, TripleO's guides and the original's documentation
// and tests publish: each form of a field, a pattern and a value in them. They apply
// to this machine.
func TestPublishedRules(t *testing.T) {
	const machine = `{"auto_discovered":true,"memory_mb":65536,"local_gb":900,"cpu_arch":"x86_64","boot_interface":"52:54:00:00:00:01",
		"root_disk":{"serial":"S1","wwn":null},"inventory":{"bmc_address":"198.18.0.1","system_vendor":{"manufacturer":"Dell Inc.","product_name":"PowerEdge R640","serial_number":"7"},
		"interfaces":[{"name":"eth0","ipv4_address":"172.24.42.1"}],"disks":[{"name":"/dev/sda","size":1}]},
		"all_interfaces":{"eth0":{"lldp_processed":{"switch_port_description":"node-7","switch_system_name":"leaf-2"}}}}`
	const node = `{"driver_info":{},"properties":{},"extra":{}}`
	for conditions, holds := range map[string]bool{
		`{"op":"is-empty","field":"node://driver_info.ipmi_username"},
		 {"op":"is-empty","field":"node://driver_info.ipmi_password"}`: true,
		`{"op":"is-empty","field":"node://properties.root_device"},
		 {"op":"is-empty","field":"data://root_disk.serial","invert":true}`: true,
		`{"op":"is-empty","field":"data://boot_interface","invert":true}`: true,
		`{"op":"is-empty","field":"data://all_interfaces.eth0.lldp_processed.switch_port_description","invert":true},
		 {"op":"matches","field":"data://all_interfaces.eth0.lldp_processed.switch_port_description","value":"^GigabitEthernet ([0-9/]*)$","invert":true},
		 {"op":"matches","field":"data://all_interfaces.eth0.lldp_processed.switch_port_description","value":"^twentyFiveGigE ?([0-9/]*)$","invert":true}`: true,
		`{"op":"eq","field":"data://all_interfaces.eth0.lldp_processed.switch_system_name","value":"leaf-3"}`: false,
		`{"op":"eq","field":"data://auto_discovered","value":true},
		 {"op":"ne","field":"data://inventory.system_vendor.manufacturer","value":"Dell Inc."}`: false,
		`{"op":"eq","field":"data://auto_discovered","value":true},
		 {"op":"ge","field":"memory_mb","value":4096},
		 {"op":"lt","field":"local_gb","value":1000}`: true,
		`{"op":"matches","field":"local_gb","value":"[0-9]+"},
		 {"op":"contains","field":"cpu_arch","value":"[0-9]+"},
		 {"op":"is-empty","field":"root_disk.wwn"}`: true,
		`{"op":"contains","field":"inventory.interfaces[*].ipv4_address","value":"127\\.0\\.0\\.1","invert":true,"multiple":"all"},
		 {"op":"is-empty","field":"i.do.not.exist"}`: true,
		`{"op":"in-net","field":"data://inventory.bmc_address","value":"198.18.0.0/15"}`: true,
	} {
		calls, err := applied(t, newRoom(t, node), machine, `{"conditions":[`+conditions+`],`+setting("x")+`}`)
		if err != nil || (len(set(t, calls)) == 1) != holds {
			t.Errorf("%s: %v, %v", conditions, calls, err)
		}
	}
	for value, want := range map[string]string{
		"{data[inventory][bmc_address]}":                                        "198.18.0.1",
		"{data[all_interfaces][eth0][lldp_processed][switch_port_description]}": "node-7",
		"{data[root_disk][serial]}":                                             "S1",
		"{data[inventory][disks][0][name]}":                                     "/dev/sda",
		"{data[inventory][system_vendor][product_name]!s}":                      "PowerEdge R640",
		"{data[root_disk]}":                                                     "{'serial': 'S1', 'wwn': None}",
	} {
		calls, err := applied(t, newRoom(t, node), machine,
			`{"actions":[{"action":"set-attribute","path":"driver_info/a","value":"`+value+`"}]}`)
		if err != nil || !slices.ContainsFunc(calls,
			func(c string) bool { return strings.Contains(c, `"value":"`+want+`"`) }) {
			t.Errorf("%s: %v, %v", value, calls, err)
		}
	}
}
