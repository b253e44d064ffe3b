package health

import (
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/recorder"
)

// Boot is what was heard of a node's newest boot, and why its machine has not called; nil if
// nothing was heard and none is awaited.
func (d *Door) Boot(node string) *api.Boot {
	v := d.Members.Log.View()
	from := recorder.Accounts{Recorder: d.Recorder}
	if firewall.Match(d.Config().Firewall.Match).Relays() != firewall.RelaysMatched {
		from.RelaysDropped = "what a DHCP relay passes on is dropped (firewall.match: ether)"
	}
	account, ok := from.Of(v, node)
	if !ok {
		return nil
	}
	out := &api.Boot{Node: node, Steps: []api.BootStep{}, Dropped: account.Track.Dropped, Findings: []api.BootFinding{}}
	for _, s := range account.Track.Steps {
		name := s.Peer
		if m, ok := v.Member(s.Peer); ok {
			name = m.Name
		}
		out.Steps = append(out.Steps, api.BootStep{Time: clock(s.FirstMillis), Until: clock(s.LastMillis), Count: s.Count,
			Peer: name, Kind: s.Kind.String(), MAC: s.MAC, Text: recorder.Sentence(s)})
	}
	for _, f := range account.Findings {
		out.Findings = append(out.Findings, api.BootFinding(f))
	}
	return out
}

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
		m := api.StrangerMachine{MAC: s.MAC, First: clock(s.First.UnixMilli()), Last: clock(s.Last.UnixMilli()),
			Asked:    s.Asked,
			Firmware: recorder.Firmware(s.Client, s.Arch), Relay: s.Relay, UUID: s.UUID, Offered: s.Server}
		if x, err := firewall.Explain(v, state, s.MAC); err == nil { // what was heard is a MAC
			m.Verdict, m.Why = string(x.Verdict), x.Why
		}
		out.Machines = append(out.Machines, m)
	}
	return out
}

func clock(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}
