package identify

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector/document"
)

// discoveries is the name space of the UUIDs of discovered machines.
const discoveries = "8d7a4d3e-1f0b-5c52-9a35-6c1f2b0e7a41"

// New answers with what a discovered machine will be: its UUID and attributes, or why it
// cannot be a node. Its MACs are chosen, those of the later ports, or where that leaves
// none all of its own; cards that lead to its BMC count only if it has no other. Those
// that are shared with other machines make its UUID, which must not depend on who came
// first, and identify no machine. An error says that it is not known, see Rival.
func (f Found) New(chosen []string) (Answer, error) {
	chosen = without(PortMACs(chosen), f.m.Inner)
	if !setOf(f.shared).lacks(chosen) {
		own := slices.DeleteFunc(without(f.m.MACs, f.shared), func(mac string) bool { return !ownMAC(mac) })
		if chosen = without(own, f.m.Inner); len(chosen) == 0 {
			chosen = own
		}
	}
	a := introspection.Attributes{MACs: without(chosen, f.shared), BMC: f.m.BMC}
	identity := slices.Sorted(slices.Values(chosen))
	if len(identity) == 0 {
		identity = slices.Sorted(slices.Values(a.BMC)) // which may change while the MACs do not
	}
	node := uuid.NewSHA1(uuid.MustParse(discoveries), []byte(strings.Join(identity, "\n"))).String()
	refused := f.Rival(node, a.MACs)
	switch {
	case errors.Is(refused, ErrUnresolved):
		return Answer{}, refused
	case refused != nil:
	case len(a.MACs) > introspection.MaxAttributes || len(a.BMC) > introspection.MaxAttributes:
		refused = document.Failed("the data has more than %d MACs or BMC addresses", introspection.MaxAttributes)
	case len(identity) == 0:
		refused = document.Failed("the data has no MAC and no BMC address by which the machine could be told from others")
	}
	if refused != nil {
		return Answer{Machine: f.m, Verdict: Refused, Text: refused.Error()}, nil
	}
	return Answer{Machine: f.m, Verdict: New, Node: node, Attributes: a}, nil
}

// Discovered answers as New does, and refuses a machine of which discovery made a node before:
// its own node counts as any other, but for one that discovery has not finished. Such a node is
// in the state in which it was created, has no port yet, and its record, in v, says that it is
// being enrolled or that this failed.
func (s Search) Discovered(ctx context.Context, v fsm.View, f Found, chosen []string) (Answer, error) {
	a, err := f.New(chosen)
	if a.Verdict != New {
		return a, err
	}
	known, there, err := s.Node(ctx, a.Node)
	rec, _ := v.Record(a.Node)
	unfinished := (rec.State == introspection.NodeEnrolling || rec.State == introspection.NodeError) &&
		len(f.macs[a.Node]) == 0 && strings.EqualFold(known.Provision, "enroll")
	if err != nil || !there || unfinished {
		return a, err
	}
	a.Verdict = Refused
	a.Text = cmp.Or(f.Rival("", a.Attributes.MACs), document.Failed("Node %s already exists", a.Node)).Error()
	return a, nil
}

// Rival is a *document.Problem, in the contract's words, if Ironic has what may be a machine
// for which a node shall be made; that node does not count, unless it is "". macs are what it
// is to be known by. The port of another interface names the machine only if the machine has all
// ports of its node. It is ErrUnresolved if a BMC whose name is not resolved may be the machine's.
func (f Found) Rival(node string, macs []string) error {
	own, machine := setOf(macs), setOf(f.m.MACs)
	for _, p := range f.ports {
		if p.Node != node && (own.has(p.MAC) || !machine.lacks(f.macs[p.Node])) {
			return document.Failed("Port %s already exists, uuid: %s", p.MAC, p.ID)
		}
	}
	for _, other := range f.at {
		for _, address := range f.bmcs.addresses[other] {
			if other != node && slices.Contains(f.m.BMC, address) {
				return document.Failed("Node %s already has BMC address %s", other, address)
			}
		}
	}
	return f.bmcs.unresolved()
}

// Elder returns a node under introspection that shares a MAC or a BMC address with a
// discovered machine, whose record is given, is not excluded, and was there before it; ""
// if there is none. Two documents of one machine that name different MACs make two
// UUIDs, and the younger one yields; of blades with one BMC none does.
func (f Found) Elder(v fsm.View, rec introspection.Record) string {
	score := make(map[string]int)
	count(score, v.NodesByMAC, rec.Attributes.MACs)
	count(score, v.NodesByBMC, rec.Attributes.BMC)
	blades, m := f.bmcs.blades(f.m.BMC), f.m
	m.Not = nil
	for node := range score { // order-free: any will do
		found, ok := v.Record(node)
		k := Known{Node: node, Attributes: found.Attributes}
		if sameBMC(m.BMC, k.BMC) {
			k.owner = another(blades, node)
		}
		if ok && found.Begun < rec.Begun && len(m.fitting([]Known{k})) > 0 {
			return node
		}
	}
	return ""
}
