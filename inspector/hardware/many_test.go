package hardware

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// listing is a document with so many parts in each of its lists, in an order or in its reverse.
func listing(t *testing.T, n int, reverse bool) Machine {
	t.Helper()
	var disks, cards, interfaces []map[string]any
	var modules []any
	for i := range n {
		disks = append(disks, map[string]any{"size": 1000, "serial": fmt.Sprintf("S%05d", i)})
		at := fmt.Sprintf("0000:%02x:%02x.%d", i>>8, i>>3&31, i&7)
		cards = append(cards, map[string]any{"bus": at, "vendor_id": "8086"})
		interfaces = append(interfaces, map[string]any{"mac_address": fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255)})
		bank := fmt.Sprint("bank:", i)
		modules = append(modules, []any{"memory", bank, "size", "1"}, []any{"memory", bank, "slot", bank})
	}
	if reverse {
		slices.Reverse(disks)
		slices.Reverse(cards)
		slices.Reverse(interfaces)
		slices.Reverse(modules)
	}
	document, err := json.Marshal(map[string]any{"pci_devices": cards, "data": modules,
		"inventory": map[string]any{"disks": disks, "interfaces": interfaces}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Of(document)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The same parts in another order are no change and are counted in full. Of more than are read
// nothing is told that may not be so.
func TestManyPartsAreReadInFullOrNotAtAll(t *testing.T) {
	manyKinds := []string{disk, card, networkInterface, memoryModule, cable}
	for _, n := range []int{600, maxParts, maxParts + 1} {
		one, two := listing(t, n, false), listing(t, n, true)
		if changes := Compare(one, two); len(changes) > 0 {
			t.Errorf("many-parts: %d of each: %d changes of one machine: %v", n, len(changes), changes[0])
		}
		for _, kind := range manyKinds {
			told := Wanted{Kind: kind, Number: fmt.Sprint(n)}.judgeMachine(one)
			if n <= maxParts && told != "" || n > maxParts && !strings.Contains(told, "told more than 4096 of the kind") {
				t.Errorf("many-parts: %d of kind %s are judged: %q", n, kind, told)
			}
		}
	}
}
