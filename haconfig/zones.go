package haconfig

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/zones"
)

// zonesOf are all zones in which there is a kube node, sorted.
func zonesOf(places []Place) []string {
	zones := make([]string, 0, len(places))
	for _, p := range places {
		zones = append(zones, p.Zone)
	}
	return distinct(zones)
}

// systemZones are the zones of the worker pool with the most of them, of those in
// which system components may run. Where no kube node says that it is for system
// components all are; those without a pool are one pool. Of pools with as many zones
// the first by name counts, so that it is always the same.
func systemZones(places []Place) (most []string) {
	system := slices.ContainsFunc(places, func(p Place) bool { return p.System })
	pools := map[string][]Place{}
	for _, p := range places {
		if p.System || !system {
			pools[p.Pool] = append(pools[p.Pool], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if zones := zonesOf(pools[name]); len(zones) > len(most) {
			most = zones
		}
	}
	return most
}

// order sorts zones in the order in which a namespace would have them: another one
// for each, so that namespaces are spread evenly, and always the same.
func order(uid string, zones []string) []string {
	weight := func(name string) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(uid + "/" + name)) // it never fails
		sum := h.Sum64()
		sum ^= sum >> 33 // FNV's last bytes hardly reach its first bits
		sum *= 0xff51afd7ed558ccd
		return sum ^ sum>>33
	}
	out := slices.Clone(zones)
	slices.SortStableFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), strings.Compare(a, b))
	})
	return out
}

// choose returns the zones of a namespace: those that it has, those of its volumes,
// which do not move, and as many of the list as are missing.
func choose(uid string, t zones.Tolerance, has, volumes, list []string) ([]string, error) {
	zones := distinct(append(slices.Clone(has), volumes...))
	for _, name := range order(uid, list) {
		if len(zones) >= t.Zones() {
			break
		}
		zones = distinct(append(zones, name))
	}
	if len(zones) < t.Zones() {
		return nil,
			fmt.Errorf(
				"tolerance of %v needs %d zones, and there are %d (%s): give its rule more, or the Nodes the label topology.kubernetes.io/zone",
				t, t.Zones(), len(zones), strings.Join(zones, ", "))
	}
	return zones, nil
}

// distinct sorts names, none twice, none empty.
func distinct(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
