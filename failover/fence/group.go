package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/failover"
)

// group is several devices that feed the same machines, such as the two power strips
// of a machine with two supplies: a machine is off only if all of them say so. It is
// what a level of Pacemaker's fencing topology is.
type group struct {
	name    string
	members []*device // in the order of the file
}

var (
	_ failover.Device  = (*group)(nil)
	_ failover.Asker   = (*group)(nil)
	_ failover.Grouped = (*group)(nil)
)

// Name implements failover.Device.
func (g *group) Name() string { return g.name }

// Members implements failover.Grouped.
func (g *group) Members() (out []failover.Device) {
	for _, d := range g.members {
		out = append(out, d)
	}
	return out
}

// Power implements failover.Device: off if all members say off, on if one says on.
// A member that fails makes it unknown, unless another one says on.
func (g *group) Power(ctx context.Context, m failover.Machine) (failover.Power, error) {
	power := failover.PowerOff
	var failed error
	for _, d := range g.members {
		p, err := d.Power(ctx, m)
		switch {
		case err == nil && p == failover.PowerOn:
			return failover.PowerOn, nil
		case err != nil || p != failover.PowerOff:
			power, failed = failover.PowerUnknown, errors.Join(failed, err)
		}
	}
	return power, failed
}

// Off implements failover.Device. Every member gets the command, also after one has failed:
// the others may be what keeps the machine on. Those that know what it is used for go first: where it is in
// use, none gets it.
func (g *group) Off(ctx context.Context, m failover.Machine) (failed error) {
	for _, knows := range []bool{true, false} {
		for _, d := range g.members {
			if _, does := d.method.(*throughIronic); does != knows {
				continue
			}
			err := d.Off(ctx, m)
			if errors.As(err, new(failover.InUse)) {
				return err
			}
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// On implements failover.Device.
func (g *group) On(ctx context.Context, m failover.Machine) (failed error) {
	for _, d := range g.members {
		failed = errors.Join(failed, d.On(ctx, m))
	}
	return failed
}

// Uncompared implements failover.Comparer: of the first member that compares nothing.
func (g *group) Uncompared(m failover.Machine) string {
	for _, d := range g.members {
		if why := d.Uncompared(m); why != "" {
			return why
		}
	}
	return ""
}

// Asks implements failover.Asker: all members have to.
func (g *group) Asks() bool {
	return !slices.ContainsFunc(g.members, func(d *device) bool { return !d.Asks() })
}

// groups looks at what the devices of a group have in common: a machine that one of
// them lacks would be off when the others say so.
func (r *reader) groups(specs []*spec, names map[string]int) {
	first, count := make(map[string]*spec), make(map[string]int)
	for _, s := range specs {
		if s.group == "" {
			continue
		}
		count[s.group]++
		other := first[s.group]
		switch {
		case !s.written("nodes"):
			r.problem(s.lineOf("group"), s.key("group"), "is of a device without nodes",
				"list the machines that the group feeds")
		case other == nil:
			first[s.group] = s
			if at, taken := names[s.group]; taken {
				r.problem(s.lineOf("group"), s.key("group"), fmt.Sprintf("has the name of the device on line %d", at),
					"give it a name of its own")
			}
		default:
			r.sameNodes(s, other)
		}
	}
	for _, s := range specs {
		if first[s.group] == s && count[s.group] == 1 {
			r.problem(s.lineOf("group"), s.key("group"), "has one device only",
				"remove it, or write it at the other devices that feed the same machines")
		}
	}
}

// sameNodes tells of kube nodes that only one of two devices of a group has.
func (r *reader) sameNodes(s, other *spec) {
	for _, pair := range [][2]*spec{{s, other}, {other, s}} {
		for _, n := range pair[0].nodes {
			has := func(m node) bool { return r.kubeNode(m.name) == r.kubeNode(n.name) }
			if !slices.ContainsFunc(pair[1].nodes, has) {
				r.problem(n.line, pair[0].key("nodes."+n.name),
					fmt.Sprintf("is not among the nodes of %s, which is of the same group", pair[1].place),
					"add it there: all devices of a group feed the same machines")
			}
		}
	}
}
