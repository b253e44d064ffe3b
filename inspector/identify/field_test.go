package identify

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// usbMachine is the document of one of many machines with a network card of the BMC on USB,
// as ironic-python-agent writes it; without a BMC address if that is unknown in-band.
func usbMachine(i int, bmc string) string {
	if bmc != "" {
		bmc = fmt.Sprintf(`,"bmc_address":"198.18.4.%d"`, i)
	}
	return fmt.Sprintf(
		`{"inventory":{"interfaces":[{"name":"eno1","mac_address":"52:54:00:a5:%02x:01","ipv4_address":"192.0.2.%d"},`+
			`{"name":"eno2","mac_address":"52:54:00:a5:%02x:02"},{"name":"enxbe3af2b6059f","mac_address":%q,"ipv4_address":"169.254.3.%d","vendor":"0x0b1f"}]`+
			`%s,"system_vendor":{"serial_number":"SN-%d"}}}`, i, i, i, common, i, bmc, i)
}

// Machines with one USB card in common, one after the other: each is a new node, whose
// own documents lead to it, whatever of its cards are chosen and what is known of its BMC.
func TestFieldUSBCard(t *testing.T) {
	for name, tt := range map[string]struct {
		bmc    string
		chosen func(i int) []string
	}{
		"the boot interface alone": {"known",
			func(i int) []string { return []string{fmt.Sprintf("52:54:00:a5:%02x:01", i)} }},
		"all with an address": {"known",
			func(i int) []string { return []string{fmt.Sprintf("52:54:00:a5:%02x:01", i), common} }},
		"all with an address, no BMC in-band": {"",
			func(i int) []string { return []string{fmt.Sprintf("52:54:00:a5:%02x:01", i), common} }},
		"the card alone, no BMC in-band": {"", func(int) []string { return []string{common} }},
		"no choice, no BMC in-band":      {"", func(int) []string { return nil }},
		"all, and earlier ports with the card": {"legacy",
			func(i int) []string { return []string{fmt.Sprintf("52:54:00:a5:%02x:01", i), common} }},
		"the same, and no BMC in-band or Ironic": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			legacy := tt.bmc == "legacy" || tt.chosen == nil
			chosen := tt.chosen
			if chosen == nil {
				chosen = func(i int) []string { return []string{fmt.Sprintf("52:54:00:a5:%02x:01", i), common} }
			}
			if legacy {
				s.nodes = []Known{at(node3, "", []string{mac3, common})}
				s.starts(t)
			}
			for i := 5; i < 25; i++ {
				m := Of(parsed(t, usbMachine(i, tt.bmc)))
				if a := s.search().Started(t.Context(), s.View(), m); a.Verdict != None {
					t.Fatalf("usb-card: machine %d is %s, %s", i, verdict(a), a.Text)
				}
				found, err := s.search().InIronic(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				a, err := found.New(chosen(i))
				if err != nil || a.Verdict != New || slices.Contains(a.Attributes.MACs, common) {
					t.Fatalf("usb-card: machine %d: %s, %s, %v", i, verdict(a), a.Text, a.Attributes.MACs)
				}
				k := Known{Node: a.Node, Attributes: a.Attributes}
				s.nodes = append(s.nodes, k)
				s.do(t, introspection.Start{Node: a.Node, Event: introspection.EventEnroll, Timeout: 1e9, Attributes: a.Attributes})
				if again := s.search().Started(t.Context(), s.View(), m); again.Verdict != This || again.Node != a.Node {
					t.Fatalf("usb-card: machine %d again: %s, want %s", i, verdict(again), a.Node)
				}
			}
		})
	}
}

// A node whose BMC Ironic has as HOST:PORT is found by it, and not discovered again.
func TestFieldBMCWithAPort(t *testing.T) {
	for _, written := range []string{"192.0.2.78:8443", "[2001:db8::78]:8443"} {
		addresses, err := BMCAddresses(t.Context(), zone{}, node1, map[string]any{"redfish_address": written},
			config.Default().Inspection.IPMIAddressFields)
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(t, Known{Node: node1, Attributes: introspection.Attributes{BMC: addresses}})
		m := Of(parsed(t, `{"inventory":{"interfaces":[{"name":"eno1","mac_address":"`+mac1+
			`"}],"bmc_address":"192.0.2.78","bmc_v6address":"2001:db8::78"}}`))
		found, err := s.search().InIronic(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := found.New(nil); err != nil || a.Verdict != Refused {
			t.Errorf("one-node: %s was discovered as %s", written, a.Node)
		}
		if a := s.starts(t).search().Started(t.Context(), s.View(), m); verdict(a) != node1 {
			t.Errorf("one-node: %s: found %s", written, verdict(a))
		}
	}
}

// A port that reaches Ironic after the start names the node, if it alone waits with it.
func TestFieldPortAfterTheStart(t *testing.T) {
	s := newSite(t, at(node1, "", []string{mac1}), at(node2, "", []string{mac2})).starts(t)
	s.nodes = []Known{at(node1, "", []string{mac1, mac3}), at(node2, "", []string{mac2})}
	for macs, want := range map[string]string{mac3: node1, mac3 + " " + mac2: "several", "52:54:00:ff:ff:ff": "none"} {
		found, err := s.search().InIronic(t.Context(), machine(macs, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		if a := found.Started(s.View()); verdict(a) != want {
			t.Errorf("late-port: %s: %s, want %s", macs, verdict(a), want)
		}
	}
	// A card was replaced, and Ironic told of the new one after the start: what it has now counts.
	s.nodes = []Known{at(node1, "", []string{mac2, common})}
	m := machine(mac2+" usb:"+common, "", "")
	m.Not = []Exclusion{{node1, "", []string{mac1, common}}}
	found, err := s.search().InIronic(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if a := found.Started(s.View()); verdict(a) != node1 {
		t.Errorf("late-port: after another card: %s", verdict(a))
	}
	s.nodes = []Known{at(node1, "", []string{mac1, mac3}), at(node2, "", []string{mac2})}
	s.nodes = append(s.nodes, at(node3, "", nil, bmc1))
	if found, err = s.search().InIronic(t.Context(), machine(mac3, bmc1, "")); err != nil {
		t.Fatal(err)
	}
	if a := found.Started(s.View()); verdict(a) != "several" {
		t.Errorf("late-port: the BMC is another node's: %s", verdict(a))
	}
}
