package identify

import (
	"bytes"
	"slices"

	"github.com/trivet-ha/trivet/fsm"
)

// PortOwner returns the node that has the ports with what tells the machine, as of the
// newest pull of Ironic's ports; "" if there is none or more than one.
func (m Machine) PortOwner(v fsm.View) (node string) { return owner(m.telling(), v.NodesByPort) }

// NodeAt returns the node that has a MAC, in lower case: by Ironic's ports, or
// by its introspection; "" if none or several do.
func NodeAt(v fsm.View, mac string) string {
	return owner([]string{mac}, v.NodesByPort, v.NodesByMAC)
}

// owner returns the one node that is found by the MACs.
func owner(macs []string, by ...func(mac string) []string) (node string) {
	for _, mac := range macs {
		for _, find := range by {
			for _, found := range find(mac) {
				if node != "" && node != found {
					return ""
				}
				node = found
			}
		}
	}
	return node
}

// maxNodeMACs bounds the MACs of one node that are listed.
const maxNodeMACs = 64

// MACsOf lists the MACs by which the PXE filter may know a node: those of its
// ports in Ironic, and those of its introspection. node is a UUID in lower case.
func MACsOf(v fsm.View, node string) []string {
	var macs []string
	for port := range v.Ports() { // for a person's question; it needs no index
		if port.Node == node {
			macs = append(macs, port.MAC)
		}
	}
	if rec, ok := v.Record(node); ok {
		macs = append(macs, rec.Attributes.MACs...)
	}
	macs = unique(macs)
	return macs[:min(len(macs), maxNodeMACs)]
}

// maxSeen is how many MACs at the beginning of a document are looked up.
const maxSeen = 32

// Named returns the node under introspection, here or by Ironic itself, that the beginning of a ramdisk's document
// names by a MAC. It decides who waits for whom and nothing else: whose document it is, the
// whole document says.
func Named(v fsm.View, beginning []byte) (node string, ok bool) {
	seen := 0
	for text := range bytes.SplitSeq(beginning, []byte{'"'}) {
		if len(text) != len(noMAC) || seen == maxSeen || !v.Introspecting() {
			continue
		}
		if mac, ok := CanonicalMAC(string(text)); ok {
			seen++
			nodes := unique(slices.Concat(v.NodesByMAC(mac), v.InspectedByMAC(mac)))
			if len(nodes) == 1 { // one of several would share with the others
				return nodes[0], true
			}
		}
	}
	return "", false
}
