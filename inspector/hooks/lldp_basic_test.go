package hooks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector"
)

func TestLLDPBasic(t *testing.T) {
	// What validate_interfaces has put there, and what eth0's and eth1's switch
	// told.
	const (
		card0 = `"eth0":{"ip":"172.24.42.100","mac":"52:54:00:06:00:00","client_id":null,"pxe":false`
		card1 = `"eth1":{"ip":"FD00::2","mac":"52:54:00:06:00:01","client_id":null,"pxe":false`
		loop  = `"lo":{"ip":"127.0.0.1","mac":"00:00:00:00:00:00","client_id":null,"pxe":false`
		told0 = `"lldp_processed":{"switch_chassis_id":"00:1b:54:aa:01:01","switch_port_id":"Ethernet1/1","switch_port_description":"uplink","switch_port_untagged_vlan_id":100}`
		told1 = `"lldp_processed":{"switch_chassis_id":"leaf-2","switch_port_id":"00:1b:54:aa:02:99"}`
	)
	silent := "{" + strings.Join([]string{card0, card1, loop}, "},") + "}}"
	tests := []struct{ name, text, want, log string }{
		{"both", cabled(), "{" + card0 + "," + told0 + "}," + card1 + "," + told1 + "}," + loop + "}}", ""},
		{"neither", machine("", said("null"), `, "lldp_raw": {}`), silent, ""},
		{"lldp_raw goes first", machine(said(eth1LLDP), said(eth1LLDP),
			`, "lldp_raw": {"eth0": `+eth0LLDP+`, "eth1": [], "eth7": 5}`),
			"{" + card0 + "," + told0 + "}," + card1 + "," + told1 + "}," + loop + "}}", ""},
		{"no lldp_raw", machine(said(eth0LLDP), "", `, "lldp_raw": null`),
			"{" + card0 + "," + told0 + "}," + card1 + "}," + loop + "}}", ""},
		{"a switch that says nothing of use", machine(said(`[]`), said(`[[3, "0078"], [127, "0012bb01"], [0, ""]]`), ""),
			silent, ""},
		{"types that cannot be", machine(
			said(`[["1", "0761"], [null, "0761"], [257, "0761"], [-1, "0761"], [1.5, "0761"], [129, "0761"], [{}, []]]`), "",
			""), silent, ""},
		{"values that are none", machine(said(`[[1, null], [2, 5], [4, "6"], [5, "6g"], [6, "\u0036\u0031"], [5, "6A"]]`), "",
			""),
			"{" + card0 + `,"lldp_processed":{"switch_system_name":"j"}},` + card1 + "}," + loop + "}}",
			`msg="malformed LLDP TLVs skipped" interface=eth0 count=5 first="[0]: expected text, got nothing"`},
		{"lengths that lie", machine("", said(`[[1, "041122"], [2, "0762"], [8, "ff01c000"], [127, "0080c20300650776"]]`),
			""),
			"{" + card0 + "}," + card1 + `,"lldp_processed":{"switch_port_id":"b"}},` + loop + "}}",
			`msg="malformed LLDP TLVs skipped" interface=eth1 count=3 first="[0]: TLV 1: it ends too early"`},
		{"a value that is too long", machine(said(`[[5, "`+strings.Repeat("61", 512)+`"], [5, "62"]]`), "", ""),
			"{" + card0 + `,"lldp_processed":{"switch_system_name":"b"}},` + card1 + "}," + loop + "}}",
			`msg="malformed LLDP TLVs skipped" interface=eth0 count=1 first="[0]: 1024 digits are more than the 1022 of a TLV"`},
		{"too many", machine(said(`[`+strings.Repeat(`[3, "0078"], `, maxTLVs-1)+`[5, "61"], [4, "62"]]`), "", ""),
			"{" + card0 + `,"lldp_processed":{"switch_system_name":"a"}},` + card1 + "}," + loop + "}}",
			`msg="malformed LLDP TLVs skipped" interface=eth0 count=1 first="1025 TLVs are more than the 1024 that are read"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i := &fakeIronic{}
			d, log, err := after(t, lldpBasic{}, tt.text, i)
			wantProblem(t, err, "")
			if got := member(t, d, "all_interfaces"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if log != tt.log {
				t.Errorf("logged\n%s\nwant\n%s", log, tt.log)
			}
			wantCalls(t, i)
		})
	}
}

func TestLLDPBasicReplacesWhatARamdiskClaims(t *testing.T) {
	d := parsed(t, `{"inventory": {"interfaces": [{"name": "a", "lldp": [[5, "61"]]}, {"name": "b", "lldp": [[5, "62"]]}]},
		"all_interfaces": {"a": {"lldp_processed": 1, "more": 2, "lldp_processed": 3}, "b": {}}}`)
	i := &fakeIronic{}
	task := inspector.NewTask(d, i.node, i)
	for range 2 {
		wantProblem(t, lldpBasic{}.After(t.Context(), task), "")
		const want = `{"a":{"lldp_processed":{"switch_system_name":"a"},"more":2},"b":{"lldp_processed":{"switch_system_name":"b"}}}`
		if got := member(t, d, "all_interfaces"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	d = parsed(t, `{"inventory": {"interfaces": [{"name": "a", "lldp": [[5, "61"]]}]}, "all_interfaces": {"a": 1}}`)
	wantProblem(t, lldpBasic{}.After(t.Context(), inspector.NewTask(d, i.node, i)),
		"all_interfaces.a: expected an object, got a number")
}

// BenchmarkLLDPBasic is the hook with all that is around the parser: sixteen
// interfaces with fifteen TLVs each.
func BenchmarkLLDPBasic(b *testing.B) {
	const tlvs = `[[1, "04001b54aa0101"], [2, "0545746865726e6574312f31"], [3, "0078"], [4, "75706c696e6b20746f206e6f64652031"], [5, "6c6561662d31"], ` +
		`[6, "4c6162207377697463682c206d6f64656c20582d31"], [7, "00140014"], [8, "0501c0000264020000000100"], [127, "0080c2010064"], [127, "0080c203006408766c616e2d313030"], ` +
		`[127, "0080c203006608766c616e2d313032"], [127, "00120f01036c010010"], [127, "00120f030300000001"], [127, "00120f042400"], [0, ""]]`
	const cards = 16
	var list []string
	for i := range cards {
		list = append(list, fmt.Sprintf(`{"name": "eth%d", "mac_address": "52:54:00:00:00:%02x", "lldp": %s}`, i, i, tlvs))
	}
	d := parsed(b, `{"inventory": {"interfaces": [`+strings.Join(list, ", ")+`], "disks": []}}`)
	if err := (validateInterfaces{add: "all"}).Before(b.Context(), d); err != nil {
		b.Fatal(err)
	}
	i := &fakeIronic{}
	task := inspector.NewTask(d, i.node, i)
	b.ReportAllocs()
	for b.Loop() {
		if err := (lldpBasic{}).After(b.Context(), task); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*cards*15)/b.Elapsed().Seconds(), "TLV/s")
}

// TestLLDPBasicChosen: what a switch told shows among the chosen interfaces too,
// unless they are others of the same name.
func TestLLDPBasicChosen(t *testing.T) {
	const document = `{"inventory": {"interfaces": [{"name": "a", "lldp": [[5, "61"]]}, {"name": "b", "lldp": [[5, "62"]]}]},
		"all_interfaces": {"a": {"mac": "1"}, "b": {"mac": "2"}, "c": {}}, "interfaces": %s}`
	for _, tt := range []struct{ name, chosen, want string }{
		{"the same", `{"a": {"mac": "1"}}`, `{"a":{"mac":"1","lldp_processed":{"switch_system_name":"a"}}}`},
		{"another", `{"a": {"mac": "1"}, "b": {}}`, `{"a":{"mac":"1","lldp_processed":{"switch_system_name":"a"}},"b":{}}`},
		{"others alone", `{"b": {}, "c": {}}`, `{"b":{},"c":{}}`},
		{"no interfaces at all", `[1]`, `[1]`},
	} {
		d, i := parsed(t, fmt.Sprintf(document, tt.chosen)), &fakeIronic{}
		wantProblem(t, lldpBasic{}.After(t.Context(), inspector.NewTask(d, i.node, i)), "")
		if got := member(t, d, "interfaces"); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
