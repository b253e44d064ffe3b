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
