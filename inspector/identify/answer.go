package identify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Verdict is the kind of an Answer.
type Verdict int

// The verdicts.
const (
	None     Verdict = iota // no node of those that were looked at
	This                    // Node
	Several                 // some are equally likely; Text names them
	Repeated                // the document was delivered before, by Node as Request
	New                     // Node is what the new node will be
	Refused                 // it cannot be a new node, Text says why
)

// Answer says whose machine it is.
type Answer struct {
	Verdict Verdict
	Node    string
	Request fencing.Token
	// Attributes are by what a record of Node finds the machine again.
	Attributes introspection.Attributes
	Text       string // in the contract's words
	// Machine is the one that was asked about, with the nodes that it is not.
	Machine Machine
}

// among answers with one of nodes, each of which fits the machine.
func among(nodes []string, several string, m Machine) Answer {
	slices.Sort(nodes)
	switch nodes = slices.Compact(nodes); len(nodes) {
	case 0:
		return Answer{Machine: m}
	case 1:
		return Answer{Machine: m, Verdict: This, Node: nodes[0]}
	default:
		return Answer{Machine: m, Verdict: Several, Text: fmt.Sprintf(several, m, list(nodes))}
	}
}

// textSeveral is of a machine and nodes.
const textSeveral = "Multiple nodes match the same number of attributes %s: %s"

// Unknown says in the contract's words that no node is found, and which one it is not.
func (m Machine) Unknown() string {
	text := "Could not find a node for attributes " + m.String()
	for _, not := range m.Not[:min(len(m.Not), maxNamed)] {
		text += fmt.Sprintf("; it is not node %s: %s", not.Node, not.Why)
	}
	return text
}

// String writes MACs and addresses as the original does.
func (m Machine) String() string {
	return "{'bmc_address': " + list(m.BMC) + ", 'mac': " + list(m.MACs) + "}"
}

// maxNamed is how many of each a message names.
const maxNamed = 32

// list writes the first 32 of a list of MACs, addresses or UUIDs, which
// need no escapes.
func list(items []string) string {
	if len(items) > maxNamed {
		return strings.TrimSuffix(list(items[:maxNamed]), "]") + ", ...]"
	}
	if len(items) == 0 {
		return "[]"
	}
	return "['" + strings.Join(items, "', '") + "']"
}
