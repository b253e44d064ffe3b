package fsm

import (
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// domain is one part of the state, such as leases. Its value stands at the head of the
// domain's file or package: a new command changes that file and is named in the package's
// comment; a new table has a tag in sectionOrder.
type domain = entry.Domain[*txn]

// domains is all of the state. What is not here is not replicated.
var domains = [...]domain{
	clusterDomain, leadershipDomain,
	memberDomain, memberFlagsDomain, removedDomain, progressDomain, formerDomain, sessionDomain, joinTokenDomain,
	settingDomain, requestDomain,
	entry.In(leases.Domain, leasesOf),
	entry.In(introspection.Domain, nodesOf), documentDomain,
	portDomain, doorDomain, entry.In(ruleset.Domain, rulesOf), entry.In(relays.Domain, relaysOf),
	entry.In(kubestate.Domain, kubeOf), entry.In(zones.Domain, zonesOf), entry.In(nodesync.Domain, syncOf),
	gossipDomain, operatorDomain, eventDomain,
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
const sectionOrder = "CPLmsjkrenqcbTiIDyuxKvRpGOhVgSXAfZEY"

// sections is all of the state, in that order.
var sections = func() []entry.Section[*txn] {
	all := of(func(d domain) []entry.Section[*txn] { return d.Sections })
	slices.SortFunc(all, func(a, b entry.Section[*txn]) int {
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
