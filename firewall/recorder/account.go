package recorder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
)

// Account is what was heard of a node's newest boot, and why its machine does not come up, as far
// as that is known and it is awaited.
type Account struct {
	Track    boots.Track
	Findings []Finding
}

// Accounts make accounts on one peer.
type Accounts struct {
	// RelaysDropped says why what a DHCP relay passes on is dropped; "": it is not.
	RelaysDropped string
	// Recorder knows strangers, on the leader's host; nil: there is none here.
	Recorder *Recorder
}

// Of returns the account of a node; ok is false where nothing was recorded and nothing is awaited.
func (a Accounts) Of(v fsm.View, node string) (out Account, ok bool) {
	track, recorded := v.BootTrack(node)
	macs, since := awaited(v, node)
	if !recorded && macs == nil {
		return out, false
	}
	rec, _ := v.Record(node)
	if macs != nil && track.Begun < rec.Begun && rec.State.Active() {
		track = boots.Track{Node: node, Begun: rec.Begun} // of an introspection before
	}
	out.Track = track
	if macs == nil {
		return out, true
	}
	m := Machine{MACs: macs, Since: since, Track: track, Denied: func(_, relay string) string {
		if relay == "" {
			return ""
		}
		return a.RelaysDropped
	}}
	if a.Recorder != nil {
		m.Strangers, _ = a.Recorder.Strangers()
	}
	out.Findings = Findings(m)
	return out, true
}

// awaited are the MACs by which a node's machine may boot, nil if none is awaited, and since when
// as far as that is known.
func awaited(v fsm.View, node string) (macs []string, since time.Time) {
	if rec, ok := v.Record(node); ok && rec.State.Active() && len(rec.Attributes.MACs) > 0 {
		return rec.Attributes.MACs, time.UnixMilli(rec.StartedMillis)
	}
	if i, ok := v.Inspected(node); ok && len(i.MACs) > 0 {
		return i.MACs, time.Time{}
	}
	return nil, time.Time{}
}

// NodeOf is the node with a MAC whose boot was recorded, else one that is awaited; "" if there is
// neither.
func NodeOf(v fsm.View, mac string) string {
	nodes := slices.Concat(v.NodesByMAC(mac), v.InspectedByMAC(mac))
	for _, port := range v.PortsByMAC(mac) {
		nodes = append(nodes, port.Node)
	}
	for _, node := range nodes {
		if _, ok := v.BootTrack(node); ok {
			return node
		}
	}
	return append(nodes, "")[0]
}

// Sentence says a step in words, without when and where.
func Sentence(s boots.Step) string {
	var b strings.Builder
	switch s.Kind {
	case boots.Asked:
		fmt.Fprintf(&b, "asked for an address by DHCP%s, as %s", through(s), Firmware(s.Client, s.Arch))
	case boots.Offered:
		fmt.Fprintf(&b, "was offered %s by %s%s", s.Address, server(s), orNoFile(s))
	case boots.Chose:
		fmt.Fprintf(&b, "asked%s for %s of %s", through(s), cmp.Or(s.Address, "the address"), cmp.Or(s.Server, "any server"))
	case boots.Leased:
		fmt.Fprintf(&b, "was given %s by %s%s", s.Address, server(s), orNoFile(s))
	case boots.Refused:
		fmt.Fprintf(&b, "was refused an address by %s%s", server(s), quoted(s.Text))
	case boots.Fetched:
		fmt.Fprintf(&b, "fetched %s from %s", s.File, s.Server)
	case boots.Failed:
		fmt.Fprintf(&b, "was refused file %s by %s%s", s.File, s.Server, quoted(s.Text))
	case boots.Abandoned:
		fmt.Fprintf(&b, "broke off fetching %s from %s after about %d bytes%s", s.File, s.Server, s.Bytes, quoted(s.Text))
	case boots.Spoke:
		fmt.Fprintf(&b, "spoke from %s", s.Address)
	case boots.Unheard:
		b.WriteString("was not heard: the leader changed")
	}
	if s.Count > 1 && s.Kind != boots.Unheard {
		fmt.Fprintf(&b, ", %s in %v", times(s.Count), time.Duration(s.LastMillis-s.FirstMillis)*time.Millisecond)
	}
	return b.String()
}

func server(s boots.Step) string {
	if s.Foreign {
		return fmt.Sprintf("another DHCP server, %s from %s", s.Server, s.ServerMAC)
	}
	return s.Server
}

func orNoFile(s boots.Step) string {
	if s.File == "" {
		return ", without a boot file"
	}
	return ", to fetch " + s.File
}
