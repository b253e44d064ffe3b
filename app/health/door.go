package health

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/firewall/probe"
	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Door is the PXE filter and the floating IP of this host. Methods may be called
// concurrently.
type Door struct {
	Members *Members
	Fitness *leader.Fitness
	Guard   *firewall.Guard // nil, like Lists, Pull and Follow, where the host has neither filter nor address
	Lists   *firewall.Lists
	Pull    *firewall.Pull
	Follow  *firewall.Follow
	Driver  string // host.Noop: nothing is filtered
	Address string // the floating IP; "": there is none
	Probe   *probe.Probe
	// Recorder hears how machines boot; nil: nothing is recorded here.
	Recorder *recorder.Recorder
	Config   func() config.Config
}

// Firewall is how the PXE filter of this host stands.
func (d *Door) Firewall() api.Firewall {
	v := d.Members.Log.View()
	out := api.Firewall{
		Peer: d.Members.Self.Name, ID: d.Members.Self.ID, Role: d.Members.Role(), Driver: d.Driver,
		Interface: d.Config().Firewall.Interface,
		Door:      d.pass(v), Address: d.floating(v), Ports: api.PortList{Ports: v.PortCount()},
	}
	if pull, ok := v.Pull(); ok {
		out.Ports.Complete, out.Ports.Listed = true, api.TimeText(time.UnixMilli(pull.Wall))
		out.Ports.AgeMS = d.listAge(v).Milliseconds()
	}
	if d.Guard != nil {
		out.Rules, out.Ports.Problem = d.rules(v), api.ErrorText(d.Pull.Err())
	}
	servers, err := d.probed()
	for _, s := range servers {
		out.Bypass = append(out.Bypass, api.DHCPServer{Address: s.Address.String(), MAC: s.MAC})
	}
	out.SelfTest = api.ErrorText(err)
	return out
}

// NewProbe returns the test of the other hosts' filters; nil where nothing is filtered, or it is off.
func NewProbe(conf config.Firewall, driver string, o probe.Options) *probe.Probe {
	if driver == host.Noop || !conf.Probe {
		return nil
	}
	return probe.New(o)
}

var errProbeOff = errors.New("firewall.probe is false")

// probed returns the DHCP servers that no rule stops, and why this could not be tested, if so.
func (d *Door) probed() ([]probe.Server, error) {
	switch {
	case d.Probe != nil:
		return d.Probe.Found()
	case d.Driver != host.Noop && !d.Config().Firewall.Probe:
		return nil, errProbeOff
	}
	return nil, nil
}

// policy is what the configuration says now about who may boot.
func (d *Door) policy() firewall.Policy { return firewall.PolicyOf(d.Config()) }

// pass is the PXE service.
func (d *Door) pass(v fsm.View) api.Door {
	out := api.Door{Recorded: recordedDoor(v, v.PassDoor())}
	if d.Guard == nil {
		out.Why = "this peer guards no door"
		return out
	}
	s := d.Guard.Status()
	out.Open, out.Why, out.Token, out.Swaps, out.Lapses = s.Open, s.Why, s.Token, s.Swaps, s.Lapses
	out.Since = api.TimeText(s.Since)
	if _, led := d.Members.Log.Leader(); !led && !s.Open {
		out.Why = noQuorum
		if unfit := d.Fitness.Fit(); errors.Is(unfit, leader.ErrHung) {
			out.Why = unfit.Error() // it keeps silent meanwhile; the others may well have a leader
		}
	}
	return out
}

// noQuorum is why every door is shut without a leader.
const noQuorum = "no quorum: without a leader every door stays shut"

// recordedDoor translates what the log knows of a door.
func recordedDoor(v fsm.View, d doors.Door) api.Recorded {
	out := api.Recorded{Token: d.OpenBy, Unknown: d.Unknown}
	if !d.OpenBy.IsZero() {
		out.Peer, out.Since = NameIn(v, d.Peer), api.TimeText(time.UnixMilli(d.Wall))
	}
	return out
}

func (d *Door) floating(v fsm.View) api.FloatingIP {
	out := api.FloatingIP{Recorded: recordedDoor(v, v.AddressDoor())}
	if d.Guard == nil || d.Address == "" {
		return out
	}
	s := d.Guard.Status()
	out.Address, out.Held, out.Why, out.Conflict = d.Address, s.Held, s.AddressWhy, s.ConflictMAC
	return out
}

// rules compares the kernel's lists with the state.
func (d *Door) rules(v fsm.View) api.Rules {
	s, _ := d.Lists.State()
	out := api.Rules{
		Wanted: ruleCounts(firewall.Count(v, !s.Token.IsZero(), d.policy())), Actual: ruleCounts(s.Counts),
		AsOf: api.TimeText(s.Compared), Drift: s.Drift, Index: s.Index,
	}
	out.Equal, out.Problem = s.Err == nil && out.Wanted == out.Actual, api.ErrorText(s.Err)
	return out
}

func ruleCounts(c firewall.Counts) api.RuleCounts {
	return api.RuleCounts{Allow: c.Allow, Deny: c.Deny, Pass: c.Pass}
}

// listAge is how old the newest complete list of Ironic's ports is, 0 if there
// is none. Cluster time stands still without a leader; that is added.
func (d *Door) listAge(v fsm.View) time.Duration {
	pull, ok := v.Pull()
	if !ok {
		return 0
	}
	return v.Now().Sub(pull.At) + d.Members.Stale()
}

// Explain says what becomes of the requests of a machine.
func (d *Door) Explain(mac string) (api.Explanation, error) {
	x, err := firewall.Explain(d.Members.Log.View(), d.hostState(), mac)
	if err != nil {
		return api.Explanation{}, &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error()}
	}
	out := api.Explanation{Peer: d.Members.Self.Name, ID: d.Members.Self.ID, Role: d.Members.Role(), MAC: x.MAC,
		Verdict: string(x.Verdict), Why: x.Why}
	for _, s := range x.Steps {
		out.Steps = append(out.Steps,
			api.Step{Rule: string(s.Rule), Verdict: string(s.Verdict), Reached: s.Reached, Text: s.Text})
	}
	v := d.Members.Log.View()
	if node := recorder.NodeOf(v, x.MAC); node != "" {
		out.Boot = api.BootOf(v, node)
	}
	return out, nil
}

func (d *Door) hostState() firewall.HostState {
	if d.Driver == host.Noop {
		return firewall.HostState{Unfiltered: true}
	}
	conf := d.Config().Firewall
	link, down := net.InterfaceByName(conf.Interface) // down is why nothing arrives there, nil if it may
	switch {
	case down != nil:
		down = fmt.Errorf("this host has no such interface: %w", down)
	case link.Flags&net.FlagUp == 0:
		down = fmt.Errorf("it is down; set it up: 'ip link set %s up'", conf.Interface)
	}
	lists, _ := d.Lists.State()
	return firewall.HostState{
		Interface: conf.Interface, InterfaceErr: down, Relays: firewall.Match(conf.Match).Relays(), Policy: d.policy(),
		Lists: lists, Guard: d.Guard.Status(), Files: d.Driver == host.Dnsmasq,
	}
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
