package hardware_test

import (
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/inspector/hardware"
)

func TestCabling(t *testing.T) {
	got, err := hardware.Cabling(document(t, func(d told) {
		d.item("interfaces", 1)["lldp"] = []any{"no pair", []any{1, "xx"}, []any{2, "0545"}, []any{"5", "6c"},
			[]any{4000, "00"}, []any{5}}
		d.item("interfaces", 2)["lldp"] = 7
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []hardware.Cable{
		{Interface: "eth0", MAC: "52:54:01:00:07:00", Link: "yes", Speed: "10000", Switch: "leaf-1",
			SwitchID: "00:1b:54:aa:00:01", Port: "Ethernet1/11", VLAN: "100"},
		{Interface: "eth1", MAC: "52:54:01:00:07:01", Link: "yes", Speed: "10000", Switch: "l", Port: "E"},
		{Interface: "eth2", MAC: "52:54:01:00:07:02", Link: "no"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%+v\nwant\n%+v", got, want)
	}
}
