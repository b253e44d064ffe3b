package hardware_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/inspector/hardware"
)

// boot reads what ironic-python-agent told at one boot of the virtual machine that
// testdata/real/README.md describes.
func boot(t *testing.T, name string) hardware.Machine {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("testdata/real", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, document)
}

// TestRealDocuments compares boots of one machine: what a person changed is told, each
// once, and nothing else.
func TestRealDocuments(t *testing.T) {
	for _, c := range []struct {
		older, newer string
		want         []string
	}{
		{"first", "again", nil},
		{"again", "first", nil},
		{"again", "more", []string{
			"firmware changed: build_date 03/01/2025 is 09/01/2025 now",
			"firmware changed: version 2.1.0 is 2.2.1 now",
			"memory module at DIMM 0 changed: size 2 GiB is 3 GiB now",
			"memory module 4F1A2B03 came (at DIMM_A2, description DIMM DDR4 Synchronous 2933 MHz (0.3 ns), " +
				"product 36ASF4G72PZ-2G9E2, size 1 GiB, vendor Micron)",
			"disk S4EVNX0M700099 came (at /dev/disk/by-path/pci-0000:04:00.0-nvme-1, firmware 7.2.22, model QEMU NVMe Ctrl, " +
				"rotational no, size 960.2 GB, tran nvme)",
			"interface 0c:c4:7a:10:00:09 came (at 0000:06:00.0, firmware 2.1-0, product 0x10d3, vendor 0x8086)",
		}},
		{"again", "replaced", []string{
			"memory module 4F1A2B02 went (at DIMM_B1, description DIMM DDR4 Synchronous 2933 MHz (0.3 ns), " +
				"product 36ASF4G72PZ-2G9E2, size 1 GiB, vendor Micron)",
			"memory module 4F1A2B77 came (at DIMM_B1, description DIMM DDR4 Synchronous 2933 MHz (0.3 ns), " +
				"product 36ASF4G72PZ-2G9E2, size 1 GiB, vendor Micron)",
			"disk S45PNA0M500001 changed: revision B004 is B007 now",
			"disk S45PNA0M500002 went (at /dev/disk/by-path/pci-0000:03:00.0-scsi-0:2:1:0, model ST480FP0021, revision B004, " +
				"rotational no, size 480.1 GB, vendor SEAGATE)",
			"disk ZC1A0001 went (at /dev/disk/by-path/pci-0000:00:1f.2-ata-1, firmware TN05, model ST4000NM0035, " +
				"rotational yes, size 4000.8 GB, tran sata, vendor ATA)",
			"disk S45PNA0M500777 came (at /dev/disk/by-path/pci-0000:03:00.0-scsi-0:2:1:0, model ST960FP0021, revision B007, " +
				"rotational no, size 960.2 GB, vendor SEAGATE)",
			"cable 0c:c4:7a:10:00:01 moved from leaf-1 Ethernet1/11 to leaf-1 Ethernet1/12",
		}},
		{"first", "bridge", []string{
			"card at 0000:01:00.0 came (class 060400, product_id 8232, revision 02, vendor_id 104c)",
			"card at 0000:02:00.0 came (class 060400, product_id 8233, revision 01, vendor_id 104c)",
			"interface 0c:c4:7a:10:00:0a came (at 0000:03:00.0, firmware 2.1-0, product 0x10d3, vendor 0x8086)",
		}},
		{"bridge", "first", []string{
			"card at 0000:01:00.0 went (class 060400, product_id 8232, revision 02, vendor_id 104c)",
			"card at 0000:02:00.0 went (class 060400, product_id 8233, revision 01, vendor_id 104c)",
			"interface 0c:c4:7a:10:00:0a went (at 0000:03:00.0, firmware 2.1-0, product 0x10d3, vendor 0x8086)",
		}},
	} {
		var got []string
		for _, change := range hardware.Compare(boot(t, c.older), boot(t, c.newer)) {
			got = append(got, change.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: told\n%q\nwant\n%q", c.older, c.newer, got, c.want)
		}
	}
}

// TestRealMachineIsAsOrdered holds the boots against what the machine was built of.
func TestRealMachineIsAsOrdered(t *testing.T) {
	order, err := hardware.ReadExpectation([]byte(`name: r1
where: [{kind: system, product_name: "Server R1*"}]
parts:
- {kind: CPU, socket_count: 1}
- {kind: memory, size: ">= 4 GiB"}
- {kind: memory module, number: 2, size: 1 GiB, vendor: Micron}
- {kind: disk, number: 2, size: 480 GB, vendor: SEAGATE, rotational: false, revision: B004}
- {kind: disk, size: 960 GB, tran: nvme, firmware: "7.2*"}
- {kind: disk, size: 4 TB, rotational: true, firmware: TN05}
- {kind: card, vendor_id: "1000", product_id: "0060"}
- {kind: interface, number: 2, product: "0x10d3", firmware: "2.1*"}
- {kind: cable, number: 2, switch: "leaf-*", port: "Ethernet*/11"}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"first": nil, "again": nil,
		"more": {"expected 2 x memory module (size 1 GiB, vendor Micron), found 3",
			"expected 1 x disk (firmware 7.2*, size 960 GB, tran nvme), found 2",
			"expected 2 x interface (firmware 2.1*, product 0x10d3), found 3"},
		"replaced": {"expected 2 x disk (revision B004, rotational false, size 480 GB, vendor SEAGATE), found 0",
			"expected 1 x disk (firmware TN05, rotational true, size 4 TB), found 0",
			"expected 2 x cable (port Ethernet*/11, switch leaf-*), found 1"},
	} {
		if m := boot(t, name); !order.Of(m) || !slices.Equal(order.Judge(m), want) {
			t.Errorf("%s: judged %q, want %q", name, order.Judge(m), want)
		}
	}
}

// TestCablingOfARealMachine: the order of its interfaces is not that of the document.
func TestCablingOfARealMachine(t *testing.T) {
	document, err := os.ReadFile("testdata/real/more.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := hardware.Cabling(document)
	if err != nil {
		t.Fatal(err)
	}
	want := []hardware.Cable{
		{Interface: "eth0", MAC: "0c:c4:7a:10:00:01", Link: "yes", Speed: "1000", Switch: "leaf-1",
			SwitchID: "00:1b:54:aa:00:01", Port: "Ethernet1/11", VLAN: "100"},
		{Interface: "eth1", MAC: "0c:c4:7a:10:00:02", Link: "yes", Speed: "1000", Switch: "leaf-2",
			SwitchID: "00:1b:54:aa:00:02", Port: "Ethernet1/11", VLAN: "200"},
		{Interface: "eth2", MAC: "0c:c4:7a:10:00:09", Link: "yes", Speed: "1000"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%+v\nwant\n%+v", got, want)
	}
}
