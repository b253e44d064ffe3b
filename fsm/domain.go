package fsm

import "slices"

// domain is one part of the state, such as leases: what the log, snapshots, Check, Dump
// and deadlines know of it. Its value stands at the head of the domain's file: a new
// command changes that file and is named in doc.go; a new table has a tag in sectionOrder.
type domain struct {
	verbs    []row
	sections []section
	check    func(*data, *problems) // its invariants; nil: it has none of its own
	ends     []ending
}

// domains is all of the state. What is not here is not replicated.
var domains = [...]domain{
	clusterDomain, leadershipDomain,
	memberDomain, memberFlagsDomain, removedDomain, progressDomain, formerDomain, sessionDomain, joinTokenDomain,
	settingDomain, requestDomain,
	leaseDomain, valueDomain, groupDomain,
	nodeDomain, inspectedDomain, throttleDomain, queueDomain, documentDomain,
	portDomain, doorDomain, ruleDomain, relayDomain,
	kubeNodeDomain, kubeVoteDomain, remediationDomain, failoverDomain, zoneDomain,
	gossipDomain, operatorDomain, eventDomain,
}

// of collects what all domains have of a sort.
func of[T any](parts func(domain) []T) (all []T) {
	for _, d := range domains {
		all = append(all, parts(d)...)
	}
	return slices.Clip(all)
}
