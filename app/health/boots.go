package health

import (
	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/recorder"
)

// Heard lists the machines that asked to boot here and are not under introspection, and what the
// filter makes of them.
func (d *Door) Heard() api.Heard {
	out := api.Heard{Peer: d.Members.Self.Name, ID: d.Members.Self.ID, Machines: []api.StrangerMachine{}}
	if d.Recorder == nil {
		out.Error = "nothing is recorded here: firewall.recorder is false, or there is no PXE filter"
		return out
	}
	all, unread := d.Recorder.Strangers()
	out.Unread, out.Error = unread, api.ErrorText(d.Recorder.Err())
	v, state := d.Members.Log.View(), d.hostState()
	for _, s := range all {
		m := api.StrangerMachine{MAC: s.MAC, Asked: s.Asked,
			First: api.MillisText(s.First.UnixMilli()), Last: api.MillisText(s.Last.UnixMilli()),
			Firmware: recorder.Firmware(s.Client, s.Arch), Relay: s.Relay, UUID: s.UUID, Offered: s.Server}
		if x, err := firewall.Explain(v, state, s.MAC); err == nil { // what was heard is a MAC
			m.Verdict, m.Why = string(x.Verdict), x.Why
		}
		out.Machines = append(out.Machines, m)
	}
	return out
}
