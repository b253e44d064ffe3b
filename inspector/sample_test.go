package inspector

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/identify"
)

func parsed(t testing.TB, text string) *Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %.200s: %v", text, err)
	}
	return d
}

// ramdiskSample is a document as a ramdisk with so many interfaces sends it;
// with 16 it has about 30 KB. Python writes spaces after commas and colons.
func ramdiskSample(nics int) []byte {
	var out bytes.Buffer
	out.WriteString(`{"inventory": {"interfaces": [`)
	for i := range nics {
		fmt.Fprintf(&out, `{"name": "eth%d", "mac_address": "52:54:00:00:%02X:%02x", "ipv4_address": "172.24.%d.%d", "ipv6_address": "fe80::5054:ff:fe00:%x%%eth%d", "has_carrier": true, "lldp": [`, i, i>>8, i&255, i>>8, i&255, i, i)
		for tlv := range 20 {
			fmt.Fprintf(&out, `[%d, "%040x"], `, tlv, i)
		}
		out.WriteString(`[0, ""]], "vendor": "0x8086", "product": "0x1572", "client_id": null, "speed_mbps": 10000}, `)
	}
	out.WriteString(`{"name": "lo", "mac_address": "00:00:00:00:00:00", "ipv4_address": "127.0.0.1"}], "cpu": {"count": 8, "architecture": "x86_64", "flags": ["fpu", "vmx"]}, `)
	out.WriteString(`"memory": {"physical_mb": 65536}, "disks": [`)
	for i := range nics {
		fmt.Fprintf(&out, `{"name": "/dev/sd%d", "size": 1073741824000, "model": "LABDISK 1000G", "serial": "SLAB%06d", "rotational": true, "wwn": null}, `, i, i)
	}
	out.WriteString(`{"name": "/dev/sdz", "size": 21474836480}], "bmc_address": "198.18.0.1", "bmc_v6address": "::/0"}, "boot_interface": "01-52-54-00-00-00-00", "error": null, `)
	fmt.Fprintf(&out, `"root_disk": {"name": "/dev/sda"}, "logs": "%s"}`, strings.Repeat("H4sIAAAAAAAC/8vK", 64))
	return out.Bytes()
}

func BenchmarkParseDocument(b *testing.B) {
	raw := ramdiskSample(16)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := document.Parse(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCallback is what this package does with a document on its way: at
// the door, at the worker, and when the processed one is stored.
func BenchmarkCallback(b *testing.B) {
	raw := ramdiskSample(16)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := document.Parse(raw)
		if err != nil {
			b.Fatal(err)
		}
		d.Delete("logs")
		if identify.Of(d); !d.Has("inventory") {
			b.Fatal("an empty document")
		}
		if d, err = document.Parse(d.JSON()); err != nil {
			b.Fatal(err)
		}
		if err := d.Set("macs", []string{"52:54:00:00:00:00"}); err != nil {
			b.Fatal(err)
		}
		if _, err := d.Overlay(); err != nil {
			b.Fatal(err)
		}
	}
}
