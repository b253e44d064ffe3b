package inspecttest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/document"
)

// Hostile returns documents that nobody in good faith sends; most of them as
// large as the API takes (8 MiB).
func Hostile() map[string]string {
	const large = 8<<20 - 64<<10
	with := func(more string) string { return Callback(MacA, ","+more) }
	var keys strings.Builder
	for i := 0; keys.Len() < large; i++ {
		fmt.Fprintf(&keys, `"%x":1,`, i)
	}
	keys.WriteString(`"z":1`)
	return map[string]string{
		"depth of lists":              with(`"a":` + strings.Repeat("[", 1_000_000)),
		"depth of objects":            with(`"a":` + strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)),
		"10^6 keys":                   with(keys.String()),
		"10^6 keys inside":            with(`"a":{` + keys.String() + "}"),
		"10^6 keys of small objects":  with(`"a":[` + strings.Repeat(`{"a":1},`, 1_000_000) + `1]`),
		"a key twice":                 with(`"a":1,"a":2`),
		"a key twice inside":          with(`"a":[{"b":{"c":1,"d":2,"c":1}}]`),
		"a key twice, escaped":        with(`"ab":1,"\u0061b":2`),
		"a key twice, quoted":         with(`"\"":1,"\u0022":2`),
		"the inventory twice":         with(`"inventory":{}`),
		"a key twice among many":      with(`"a":{` + KeysUpTo(200) + `"k7":1}`),
		"invalid UTF-8":               with("\"a\":\"\xff\xfe\""),
		"invalid UTF-8 in a key":      with("\"\xc3\":1"),
		"a surrogate's bytes":         with("\"a\":\"\xed\xa0\x80\""),
		"NaN":                         with(`"a":NaN`),
		"Infinity":                    with(`"a":-Infinity`),
		"a number out of range":       with(`"a":1e999`),
		"a long exponent":             with(`"a":1e` + strings.Repeat("9", 1000)),
		"10^6 digits":                 with(`"a":` + strings.Repeat("9", 1_000_000)),
		"10^6 digits after the point": with(`"a":0.` + strings.Repeat("9", 1_000_000)),
		"a string of 8 MiB":           with(`"a":"` + strings.Repeat("x", large) + `"`),
		"a key of 8 MiB":              with(`"` + strings.Repeat("x", large) + `":1,"` + strings.Repeat("x", 10) + `":NaN`),
		"logs that are no logs":       with(`"a":{"logs":"` + strings.Repeat("x", 2<<20) + `"}`),
		"a zero byte":                 with("\"a\":\"\x00\""),
		"two documents":               Callback(MacA, "") + Callback(MacA, ""),
		"another encoding":            "\xff\xfe{\x00}\x00",
		"a byte order mark":           "\ufeff{}",
		"nothing but space":           strings.Repeat(" ", large),
	}
}

// KeysUpTo writes so many members of an object.
func KeysUpTo(n int) string {
	var out strings.Builder
	for i := range n {
		fmt.Fprintf(&out, `"k%d":1,`, i)
	}
	return out.String()
}

// Parsed reads a document.
func Parsed(t testing.TB, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatalf("parse %.200s: %v", text, err)
	}
	return d
}

// RamdiskSample is a document as a ramdisk with so many interfaces sends it;
// with 16 it has about 30 KB. Python writes spaces after commas and colons.
func RamdiskSample(nics int) []byte {
	var out bytes.Buffer
	out.WriteString(`{"inventory": {"interfaces": [`)
	for i := range nics {
		fmt.Fprintf(&out,
			`{"name": "eth%d", "mac_address": "52:54:00:00:%02X:%02x", "ipv4_address": "172.24.%d.%d", "ipv6_address": "fe80::5054:ff:fe00:%x%%eth%d", "has_carrier": true, "lldp": [`,
			i, i>>8, i&255, i>>8, i&255, i, i)
		for tlv := range 20 {
			fmt.Fprintf(&out, `[%d, "%040x"], `, tlv, i)
		}
		out.WriteString(`[0, ""]], "vendor": "0x8086", "product": "0x1572", "client_id": null, "speed_mbps": 10000}, `)
	}
	out.WriteString(
		`{"name": "lo", "mac_address": "00:00:00:00:00:00", "ipv4_address": "127.0.0.1"}], "cpu": {"count": 8, "architecture": "x86_64", "flags": ["fpu", "vmx"]}, `)
	out.WriteString(`"memory": {"physical_mb": 65536}, "disks": [`)
	for i := range nics {
		fmt.Fprintf(&out,
			`{"name": "/dev/sd%d", "size": 1073741824000, "model": "LABDISK 1000G", "serial": "SLAB%06d", "rotational": true, "wwn": null}, `,
			i, i)
	}
	out.WriteString(
		`{"name": "/dev/sdz", "size": 21474836480}], "bmc_address": "198.18.0.1", "bmc_v6address": "::/0"}, "boot_interface": "01-52-54-00-00-00-00", "error": null, `)
	fmt.Fprintf(&out, `"root_disk": {"name": "/dev/sda"}, "logs": "%s"}`, strings.Repeat("H4sIAAAAAAAC/8vK", 64))
	return out.Bytes()
}
