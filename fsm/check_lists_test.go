package fsm

import "time"

func corruptLists(v View) corruptions {
	first, _ := v.Port("p1")
	return corruptions{
		"port under another key":        func(d *data) { d.ports.byID.Put([]byte("x"), first) },
		"port against the rules":        func(d *data) { d.ports.put(Port{ID: "x", MAC: macN(8)}, 0) },
		"port missing of the blacklist": func(d *data) { d.ports.denied.Remove(first.MAC, first.ID, 0) },
		"denied for no node":            func(d *data) { d.ports.denied.Add(macN(8), "ghost", 0) },
		"pull under no token":           func(d *data) { d.ports.pull.Token = 0 },
		"pull of a leadership to come":  func(d *data) { d.ports.pull.Token = d.shared.Position.Floor + 1 },
		"pull of the future":            func(d *data) { d.ports.pull.At = d.shared.Position.Now + 1 },
		"pull of more than fits":        func(d *data) { d.ports.pull.Ports = MaxPorts + 1 },
	}
}

func corruptDoors() corruptions {
	all := corruptions{
		"pass rule with an address": func(d *data) { d.doors.Pass.Address = "192.0.2.1" },
		"address of no peer":        func(d *data) { d.doors.Address.Address = "192.0.2.1" },
		"no address":                func(d *data) { d.doors.Address = d.doors.Pass },
	}
	for name, corrupt := range map[string]func(d *Door, of *data){
		"of a leadership to come":      func(d *Door, of *data) { d.OpenBy = of.shared.Position.Floor + 1 },
		"shut by a leadership to come": func(d *Door, of *data) { d.ClosedBy = of.shared.Position.Floor + 1 },
		"opened later":                 func(d *Door, of *data) { d.Since = of.shared.Position.Now + 1 },
		"with a wait below zero":       func(d *Door, _ *data) { d.Wait = -1 },
		"with a long wait":             func(d *Door, _ *data) { d.Wait = MaxWait + time.Second },
		"open and unknown":             func(d *Door, _ *data) { d.Unknown = true },
		"open of no peer":              func(d *Door, _ *data) { d.Peer = "" },
		"open and shut by the same":    func(d *Door, _ *data) { d.ClosedBy = d.OpenBy },
		"shut of a peer":               func(d *Door, _ *data) { *d = Door{Peer: "a"} },
		"shut with a wait":             func(d *Door, _ *data) { *d = Door{Wait: 1} },
		"shut since":                   func(d *Door, _ *data) { *d = Door{Since: 1} },
		"shut with a place":            func(d *Door, _ *data) { *d = Door{Term: 1, Index: 1} },
		"of a term to come":            func(d *Door, of *data) { d.Term = of.shared.Position.Term + 1 },
		"of an index to come":          func(d *Door, of *data) { d.Index = of.shared.Position.Index + 1 },
		"of an index alone":            func(d *Door, _ *data) { d.Term = 0 },
		"of a term alone":              func(d *Door, _ *data) { d.Index = 0 },
		"recorded with its Lead":       func(d *Door, of *data) { d.Index = of.lead.Index },
	} {
		all["pass rule "+name] = func(d *data) { corrupt(&d.doors.Pass, d) }
		all["floating IP "+name] = func(d *data) {
			d.doors.Address = d.doors.Pass
			d.doors.Address.Address = "192.0.2.1"
			corrupt(&d.doors.Address, d)
			if d.doors.Address.OpenBy == 0 {
				d.doors.Address.Address = ""
			}
		}
	}
	return all
}
