package inspector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Discovery makes a node of an unknown machine (docs/contract.md#discovery). It must not make
// two of one machine, whichever peers die and however often the ramdisk repeats itself, and
// Ironic offers no lock for that. So the node's UUID is made of the machine's MACs: each peer
// that discovers the machine computes the same one. A record with that UUID and these MACs is
// committed first, so that later data of the machine belongs to the record; a worker then
// creates the node under the record's claim. One that does it again, because the last was
// lost, gets Ironic's refusal that the UUID is taken.

// keyDiscovered tells the hooks and rules of a discovered machine.
const keyDiscovered = "auto_discovered"

// maxDiscovered is how many MACs or BMC addresses a machine may have that is
// discovered: as many as a record takes.
const maxDiscovered = maxAttributes

// discoveries is the name space of the UUIDs of discovered machines.
const discoveries = "8d7a4d3e-1f0b-5c52-9a35-6c1f2b0e7a41"

// discovered returns the attributes of a machine that is to be discovered, and its
// UUID. Its MACs are those of the interfaces that the hooks choose, the ports to
// be; those that are shared with other machines make its UUID, which must not
// depend on who came first, and identify no machine. One that cannot be told from
// others is a *Problem.
func discovered(data *Document, hooks []Hook, shared []string) (node string, a introspection.Attributes, err error) {
	m := MachineOf(data)
	chosen := chosenMACs(data, hooks, m, shared)
	a = introspection.Attributes{MACs: unshared(chosen, shared), BMC: m.BMC}
	if len(a.MACs) > maxDiscovered || len(a.BMC) > maxDiscovered {
		return "", a, Failed("the data has more than %d MACs or BMC addresses", maxDiscovered)
	}
	identity := slices.Sorted(slices.Values(chosen))
	if len(identity) == 0 {
		identity = slices.Sorted(slices.Values(a.BMC)) // which may change while the MACs do not
	}
	if len(identity) == 0 {
		return "", a, Failed("the data has no MAC and no BMC address by which the machine could be told from others")
	}
	return uuid.NewSHA1(uuid.MustParse(discoveries), []byte(strings.Join(identity, "\n"))).String(), a, nil
}

// chosenMACs returns those of a machine's own MACs that a hook chooses. Where
// none does, or all that it chooses are shared or may be, they are all that are not.
func chosenMACs(data *Document, hooks []Hook, m Machine, shared []string) []string {
	perhaps := slices.Concat(shared, m.Inner)
	for _, h := range hooks {
		if c, ok := h.(Chooser); ok {
			chosen := portMACs(c.Choose(data))
			if lacks(perhaps, chosen) {
				return chosen
			}
		}
	}
	own := unshared(ownMACs(m.MACs), shared)
	if others := unshared(own, m.Inner); len(others) > 0 {
		return others
	}
	return own
}

// unshared returns those of macs that are not shared.
func unshared(macs, shared []string) []string {
	return slices.DeleteFunc(slices.Clone(macs), func(mac string) bool { return slices.Contains(shared, mac) })
}

// stranger makes sure that Ironic does not have a machine yet, in the contract's
// words; node, which the machine gets, does not count. chosen are the MACs that
// it is to be known by, macs all that it has. The port of an interface that is not
// chosen names the machine only if the machine has all ports of that node.
func (m matches) stranger(node string, chosen, macs []string) error {
	for _, p := range m.ports {
		if p.Node != node && (slices.Contains(chosen, p.Address) || !lacks(macs, m.macs[p.Node])) {
			return Failed("Port %s already exists, uuid: %s", p.Address, p.UUID)
		}
	}
	for _, b := range m.bmcs {
		if b.node.UUID != node {
			return Failed("Node %s already has BMC address %s", b.node.UUID, b.address)
		}
	}
	return nil
}

// enrolled is the node that is made of a discovered machine.
func enrolled(node string, data *Document, conf config.Discovery) NewNode {
	n := NewNode{UUID: node, Driver: conf.EnrollNodeDriver, DriverInfo: make(map[string]any), Fields: make(map[string]string)}
	v4, v6 := BMCOf(data, inventoryOf(data))
	for _, version := range conf.EnabledBMCAddressVersion { // the first that the machine has counts
		if address := addAddress(nil, map[string]string{"4": v4, "6": v6}[version]); address != nil {
			n.DriverInfo[firstBMCField] = address[0]
			break
		}
	}
	for _, field := range conf.EnrollNodeFields {
		name, value, _ := strings.Cut(field, ":")
		n.Fields[name] = value
	}
	return n
}

// enroll creates the node of a discovered machine in Ironic, unless it is there
// because a worker before this one was lost. A *Problem says why it must not be.
func (j *job) enroll(ctx context.Context, v fsm.View, rec introspection.Record, data *Document) error {
	if rival := elder(v, rec); rival != "" {
		return Failed("Node %s is being made of a machine with the same MACs or BMC address", rival)
	}
	all := MachineOf(data)
	m, err := j.pool.nodes.match(ctx, all)
	if err == nil {
		err = m.stranger(rec.Node, rec.Attributes.MACs, all.MACs)
	}
	if err != nil {
		return j.enrollError(err)
	}
	_, err = j.pool.o.Ironic.CreateNode(ctx, enrolled(rec.Node, data, j.by.Config.Discovery))
	if errors.Is(err, ErrNodeExists) {
		j.log.Info("node of discovered machine exists already")
		return nil
	}
	if err == nil {
		j.log.Info("node created for discovered machine")
	}
	return j.enrollError(err)
}

// enrollError makes a failure of what Ironic refuses, and leaves what is no
// verdict, an Ironic that is away above all, as it is.
func (j *job) enrollError(err error) error {
	var said *IronicError
	if errors.As(err, &said) && !Unreachable(err) && !errors.Is(err, ErrNotAllowed) && !errors.Is(err, context.Canceled) {
		return Failed("%v", said)
	}
	return err
}

// elder returns a node under introspection that shares a MAC or a BMC address
// with a discovered machine, is not contradicted, and was there before it, "" if
// there is none. Two documents of one machine that name different MACs make two
// UUIDs, and the younger one yields.
func elder(v fsm.View, rec introspection.Record) string {
	var others []string
	for _, mac := range rec.Attributes.MACs {
		others = append(others, v.NodesByMAC(mac)...)
	}
	for _, address := range rec.Attributes.BMC {
		others = append(others, v.NodesByBMC(address)...)
	}
	for _, other := range others {
		if found, ok := v.Record(other); ok && found.Begun < rec.Begun && !contradicts(Machine{Attributes: rec.Attributes}, found.Attributes) {
			return other
		}
	}
	return ""
}

// notFoundLine says why an unknown machine did not become a node.
func notFoundLine(why error) string { return fmt.Sprintf("Node not found hook failed: %v", why) }
