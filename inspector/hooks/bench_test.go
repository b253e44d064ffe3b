package hooks

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/ironic"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
)

// idle is an Ironic that takes everything.
type idle struct {
	inspector.Ironic
	node ironic.Node
}

func (i idle) PatchNode(context.Context, string, []ironic.Patch) (ironic.Node, error) {
	return i.node, nil
}

func (i idle) Ports(context.Context, string) ([]ironic.Port, error) {
	return []ironic.Port{{UUID: "p0", Address: "52:54:00:00:00:00", PXEEnabled: true}}, nil
}

func (i idle) PatchPort(context.Context, string, []ironic.Patch) error { return nil }

// ramdiskSends is 30 KB as a ramdisk sends them: 4 interfaces with what switches
// announce to them, 120 flags, 8 disks, 60 PCI devices, 250 extra facts.
func ramdiskSends() []byte {
	list := func(n int, format string) string {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf(format, i))
		}
		return strings.Join(items, ", ")
	}
	announced := list(10, `[127, "0080c203006%d08766c616e2d313030"]`)
	nics := list(4,
		`{"name": "eth%[1]d", "mac_address": "52:54:00:00:00:%02[1]x", "ipv4_address": "192.0.2.%[1]d", "ipv6_address": "fe80::%[1]d%%eth%[1]d", "lldp": [`+
			announced+`], "has_carrier": true, "client_id": null}`)
	disks := list(8,
		`{"name": "/dev/sd%[1]d", "model": "LABDISK 1000G", "size": 107374182400%[1]d, "rotational": true, "wwn": "0x5000c500a000000%[1]d", "serial": "SLAB00010%[1]d", "vendor": "ATA", "hctl": "0:0:%[1]d:0", "by_path": "/dev/disk/by-path/pci-0000:00:17.0-ata-%[1]d"}`)
	return fmt.Appendf(nil, `{"inventory": {"interfaces": [%s], "cpu": {"count": 8, "architecture": "x86_64", "flags": [%s]}, "disks": [%s], "memory": {"total": 68707131058, "physical_mb": 65536}, "bmc_address": "198.18.0.1", "boot": {"current_boot_mode": "uefi"}},
		"boot_interface": "01-52-54-00-00-00-00", "error": null, "root_disk": {"name": "/dev/sda", "size": 1073741824000}, "pci_devices": [%s], "data": [%s]}`,
		nics, list(120, `"flag%d"`)+`, "vmx", "aes"`, disks,
		list(60,
			`{"vendor_id": "8086", "product_id": "15%02d", "class": "020000", "revision": "01", "bus": "0000:18:00.%[1]d"}`),
		list(250, `["network", "eth%d", "a fact of it", "and what it is worth"]`))
}

// BenchmarkDefaultHooks is what the hooks cost of a callback's processor time,
// both halves, without Ironic.
func BenchmarkDefaultHooks(b *testing.B) { benchmarkHooks(b, defaults().Processing.Hooks) }

// BenchmarkAllHooks is the same with every hook there is.
func BenchmarkAllHooks(b *testing.B) { benchmarkHooks(b, Names()) }

func benchmarkHooks(b *testing.B, names []string) {
	conf := defaults()
	conf.Processing.Hooks = names
	made, err := New(conf)
	if err != nil {
		b.Fatal(err)
	}
	text := ramdiskSends()
	i := idle{node: ironic.Node{UUID: nodeA, Properties: map[string]any{"capabilities": "profile:compute"}}}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		for _, h := range made {
			if h, ok := h.(inspector.Before); ok {
				if err := h.Before(b.Context(), d); err != nil {
					b.Fatal(err)
				}
			}
		}
		task := inspector.NewTask(d, i.node, i)
		for _, h := range made {
			if h, ok := h.(inspector.After); ok {
				if err := h.After(b.Context(), task); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
