package identify

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Known is what is known of a node that may be a machine's.
type Known struct {
	Node string
	introspection.Attributes
	// Serial is the serial number that Ironic has of it, "" for none.
	Serial string
	// Provision is the state in which Ironic has it.
	Provision string
	// rival reports that another node has more ports with what tells the machine.
	rival bool
	// owner is another node whose BMC has the address of the machine's, "" for none, or if it is
	// not known.
	owner string
}

// evidence is one thing that can speak against a machine's being a node.
type evidence struct {
	against func(m weighed, k Known) bool
	says    string
}

// weighed is a machine that is compared with many nodes.
type weighed struct {
	Machine
	// its MACs, those of its inner cards, those that tell it from others, and the nodes that
	// it is not
	macs, inner, own, not set
}

func (m Machine) weighed() weighed {
	w := weighed{Machine: m, macs: setOf(m.MACs), inner: setOf(m.Inner), own: setOf(m.telling()),
		not: make(set, len(m.Not))}
	for _, x := range m.Not {
		w.not[x.Node] = struct{}{}
	}
	return w
}

// table is all evidence. None proves anything alone: Ironic may reach a BMC by a
// translated or an outdated address, cards are replaced, and ports and serial numbers
// are what an operator has written. Two are enough, and none counts where the addresses of
// the BMCs agree, see weigh.
func table() []evidence {
	return []evidence{
		// Were they one BMC, it would be the same. Of IPv6 a BMC has several that are as good, say a static
		// one, which Ironic has, and one of SLAAC, which its ramdisk tells.
		{func(m weighed, k Known) bool { return !sameBMC(m.BMC, k.BMC) && hasIPv4(m.BMC) && hasIPv4(k.BMC) },
			"its BMC has another IPv4 address"},
		{func(_ weighed, k Known) bool { return k.owner != "" }, "its BMC has the address of another node's"},
		{func(m weighed, k Known) bool { return m.macs.lacks(k.MACs) }, "it lacks one of the node's MACs"},
		{func(m weighed, k Known) bool { return m.sharesInner(k.MACs) },
			"the MACs in common are of cards that lead to its own BMC"},
		{func(_ weighed, k Known) bool { return k.rival }, "another node has more ports with its MACs"},
		{func(m weighed, k Known) bool { return m.Serial != "" && k.Serial != "" && m.Serial != k.Serial },
			"it has another serial number"},
	}
}

// enough is how much evidence excludes a node.
const enough = 2

// Exclusion is a node that a machine is not, though they have something in common.
type Exclusion struct {
	Node, Why string
	macs      []string // by which the node was known
}

// weigh says how much speaks against a machine's being a node, and what.
func weigh(m weighed, k Known) (against int, why string) {
	if m.not.has(k.Node) {
		return enough, ""
	}
	if m.knownByBMC(k) {
		return 0, ""
	}
	var says []string
	for _, e := range table() {
		if e.against(m, k) {
			says = append(says, e.says)
		}
	}
	return len(says), strings.Join(says, ", and ")
}

// knownByBMC reports whether a machine is a node because the addresses of their BMCs agree.
// Blades may share one, so without a MAC of its own in common, an address that another node has
// as well, or the ports of another node, leave it to the evidence.
func (m weighed) knownByBMC(k Known) bool {
	return sameBMC(m.BMC, k.BMC) && (m.sharesOwn(k.MACs) || k.owner == "" && !k.rival)
}

// sharesOwn reports whether a machine has a node's MAC that tells it from others.
func (m weighed) sharesOwn(macs []string) bool { return slices.ContainsFunc(macs, m.own.has) }

// sharesInner reports whether all that a machine has of a node's MACs are by cards
// that lead to its own BMC.
func (m weighed) sharesInner(macs []string) bool {
	shared := slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return !m.macs.has(mac) })
	return len(shared) > 0 && !m.inner.lacks(shared)
}

// sameBMC reports whether two BMCs have an address in common.
func sameBMC(one, other []string) bool {
	return slices.ContainsFunc(routed(one), func(address string) bool { return slices.Contains(other, address) })
}

func hasIPv4(addresses []string) bool {
	return slices.ContainsFunc(routed(addresses), func(address string) bool { return !strings.Contains(address, ":") })
}

// routed leaves out link-local addresses, which tell no BMCs apart: each has others besides.
func routed(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(address string) bool {
		ip, err := netip.ParseAddr(address)
		return err != nil || ip.IsLinkLocalUnicast()
	})
}
