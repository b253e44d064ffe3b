package fsm

import (
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// domains is all of the state. What is not here is not replicated.
var domains = [...]domain{
	clusterDomain, leadershipDomain, requestDomain, documentDomain, eventDomain,
	entry.In(membership.Domain, membersOf), entry.In(operators.Domain, operatorsOf), entry.In(settings.Domain, settingsOf),
	entry.In(introspection.Domain, nodesOf), entry.In(ruleset.Domain, rulesOf),
	entry.In(relays.Domain, relaysOf), entry.In(nodesync.Domain, syncOf),
	entry.In(ironicports.Domain, portsOf), entry.In(doors.Domain, doorsOf), entry.In(leases.Domain, leasesOf),
	entry.In(kubestate.Domain, kubeOf), entry.In(zones.Domain, zonesOf), entry.In(deliveries.Domain, deliveriesOf),
	entry.In(expectations.Domain, expectationsOf), entry.In(boots.Domain, bootsOf),
}

// of collects what all domains have of a sort.
func of[T any](parts func(domain) []T) (all []T) {
	for _, d := range domains {
		all = append(all, parts(d)...)
	}
	return slices.Clip(all)
}

// verbs is the registry of kinds.
var verbs = of(func(d domain) []entry.Verb[*txn] { return d.Verbs })

// endings is all that ends by itself.
var endings = of(func(d domain) []entry.Ending[*txn] { return d.Ends })

// sectionOrder are the tags in the order of a snapshot and of the hash, which peers of
// all versions share. A new one is added at its end.
const sectionOrder = "CPLmsjkrenqcbTiIDyuxKvRpGOhVgSXAfZEYNJBWHQFU"

// sections is all of the state, in that order.
var sections = func() []entry.Section[*txn] {
	all := of(func(d domain) []entry.Section[*txn] { return d.Sections })
	slices.SortStableFunc(all, func(a, b entry.Section[*txn]) int {
		return strings.IndexByte(sectionOrder, a.Tag) - strings.IndexByte(sectionOrder, b.Tag)
	})
	return all
}()

func sectionOf(tag byte) (entry.Section[*txn], bool) {
	for i := range sections {
		if sections[i].Tag == tag {
			return sections[i], true
		}
	}
	return entry.Section[*txn]{}, false
}
