package hardware_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/inspector/hardware"
)

// cards is a machine with cards, each as "ADDRESS PRODUCT": bridges have a name that begins
// with br, and the interface nic has a MAC.
func cards(t *testing.T, list ...string) hardware.Machine {
	t.Helper()
	var devices, interfaces []map[string]string
	for _, text := range list {
		address, product, _ := strings.Cut(text, " ")
		class := "020000"
		if strings.HasPrefix(product, "br") {
			class = "060400"
		}
		devices = append(devices, map[string]string{"bus": "0000:" + address, "product_id": product, "class": class})
		if product == "nic" {
			interfaces = append(interfaces,
				map[string]string{"mac_address": "52:54:00:00:00:01", "pci_address": "0000:" + address})
		}
	}
	document, err := json.Marshal(map[string]any{"pci_devices": devices,
		"inventory": map[string]any{"interfaces": interfaces}})
	if err != nil {
		t.Fatal(err)
	}
	return read(t, document)
}

// TestRenumberedBusIsNoMove adds bridges to a machine, and takes them out: the numbers of
// the buses behind them are others, and nothing else moved.
func TestRenumberedBusIsNoMove(t *testing.T) {
	for name, c := range map[string]struct{ older, newer, want []string }{
		"a bridge in front": {
			[]string{"00:01.0 br1", "00:02.0 br1", "01:00.0 nic", "02:00.0 hba"},
			[]string{"00:01.0 br1", "00:02.0 br1", "00:00.1 br9", "02:00.0 nic", "03:00.0 hba"},
			[]string{"card at 0000:00:00.1 came"}},
		"one in the middle, and two like cards behind it": {
			[]string{"01:00.0 nic", "02:00.0 hba", "03:00.0 gpu", "04:00.0 gpu"},
			[]string{"01:00.0 nic", "02:00.0 br1", "03:00.0 hba", "04:00.0 gpu", "05:00.0 gpu"},
			[]string{"card at 0000:02:00.0 came"}},
		"a root of its own behind it, whose numbers stay": {
			[]string{"01:00.0 nic", "80:00.0 hba", "81:00.0 gpu"},
			[]string{"01:00.0 br1", "02:00.0 nic", "80:00.0 hba", "81:00.0 gpu"},
			[]string{"card at 0000:01:00.0 came"}},
		"a card that moved as well": {
			[]string{"01:00.0 nic", "02:00.0 hba", "03:00.0 gpu"},
			[]string{"01:00.0 nic", "04:00.0 hba", "03:00.0 gpu", "05:00.0 br1"},
			[]string{"card at 0000:04:00.0 moved from 0000:02:00.0", "card at 0000:05:00.0 came"}},
		"a card that moved past another": {
			[]string{"01:00.0 nic", "02:00.0 hba", "03:00.0 gpu"},
			[]string{"01:00.0 nic", "04:00.0 hba", "03:00.0 gpu", "05:00.0 br1", "05:01.0 br1"},
			[]string{"card at 0000:04:00.0 moved from 0000:02:00.0", "card at 0000:05:00.0 came", "card at 0000:05:01.0 came"}},
		"a card that moved further than the bridge moves it": {
			[]string{"01:00.0 nic", "02:00.0 hba"},
			[]string{"01:00.0 nic", "04:00.0 hba", "05:00.0 br1"},
			[]string{"card at 0000:04:00.0 moved from 0000:02:00.0", "card at 0000:05:00.0 came"}},
		"a card that moved, and no bridge": {
			[]string{"00:01.0 br1", "01:00.0 nic", "02:00.0 hba"},
			[]string{"00:01.0 br1", "01:00.0 nic", "03:00.0 hba"},
			[]string{"card at 0000:03:00.0 moved from 0000:02:00.0"}},
		"two functions of a card, of which one moved": {
			[]string{"01:00.0 hba", "01:00.1 nic", "02:00.0 gpu"},
			[]string{"01:00.0 hba", "02:00.1 nic", "02:00.0 gpu", "03:00.0 br1"},
			[]string{"card at 0000:03:00.0 came", "interface 52:54:00:00:00:01 moved from 0000:01:00.1"}},
	} {
		check := func(what string, got []hardware.Change, want []string) {
			var told []string
			for _, change := range got {
				told = append(told, change.String())
			}
			if len(told) != len(want) || !slices.EqualFunc(told, want, strings.HasPrefix) {
				t.Errorf("%s: told\n%q\nwant\n%q", what, told, want)
			}
		}
		older, newer := cards(t, c.older...), cards(t, c.newer...)
		check(name, hardware.Compare(older, newer), c.want)
		if len(c.want) == 1 && strings.HasSuffix(c.want[0], " came") {
			check(name+", backwards", hardware.Compare(newer, older), []string{strings.TrimSuffix(c.want[0], "came") + "went"})
		}
	}
}
