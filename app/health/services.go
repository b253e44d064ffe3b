package health

import (
	"cmp"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// pxeService says on which host machines can boot, from what the hosts that answer
// say of themselves. lead is the leader, whose ID is "" for none.
func pxeService(v fsm.View, lead membership.Member, reports map[string]hostReport) api.PXEService {
	out := api.PXEService{OpenOn: []string{}}
	recorded := v.PassDoor()
	for _, m := range byName(v.Members()) {
		r, answers := reports[m.ID]
		out.Guarded = out.Guarded || r.Guarded
		if answers && r.Guarded && r.Door.Open {
			out.OpenOn, out.Since = append(out.OpenOn, m.Name), r.Door.Since
		}
	}
	if len(out.OpenOn) > 0 || !out.Guarded {
		return out
	}
	_, heard := reports[recorded.Peer]
	switch {
	case lead.ID == "":
		out.Why = noQuorum
	case !recorded.OpenBy.IsZero() && !heard:
		out.Why = NameIn(v, recorded.Peer) + ", which does not answer, may have opened it; its kernel closes it by itself"
	case reports[lead.ID].Door.Why != "":
		out.Why = lead.Name + ", the leader: " + reports[lead.ID].Door.Why
	default:
		out.Why = lead.Name + ", the leader, has not opened it yet"
	}
	return out
}

// addressHolder says which host has the floating IP, nil where no host that
// answers has one configured.
func addressHolder(v fsm.View, lead membership.Member, reports map[string]hostReport) *api.AddressHolder {
	var out *api.AddressHolder
	for _, m := range byName(v.Members()) {
		at := reports[m.ID].Address
		if at.Address == "" {
			continue
		}
		if out == nil {
			out = &api.AddressHolder{Address: at.Address}
		}
		if at.Held {
			out.Address, out.Holder = at.Address, m.Name
		}
	}
	if out == nil || out.Holder != "" {
		return out
	}
	at, answers := reports[lead.ID]
	switch {
	case lead.ID == "":
		out.Why = "no leader"
	case !answers:
		out.Why = lead.Name + ", the leader, does not answer this host"
	case at.Address.Address == "":
		out.Why = lead.Name + ", the leader, has no floating_ip in its configuration"
	default:
		out.Why = lead.Name + ", the leader: " + cmp.Or(at.Address.Why, "it has not taken it yet")
	}
	return out
}

// Introspections counts nodes by the state of their introspection.
func Introspections(v fsm.View) map[string]int {
	out := make(map[string]int)
	for state, n := range countNodes(v).states { // order-free: another map
		out[state.String()] = n
	}
	return out
}
