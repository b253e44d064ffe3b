package recorder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Account is what was heard of a node's newest boot, and why its machine does not come up, or did
// not before its time was over.
type Account struct {
	Awaited  bool // its machine is to boot
	Track    boots.Track
	Findings []entry.Finding
}

// AccountOf returns the account of a node, which is the same on all peers; ok is false where
// nothing was recorded and nothing is awaited.
func AccountOf(v fsm.View, node string) (out Account, ok bool) {
	track, recorded := v.BootTrack(node)
	awaits := awaitedOf(v, node)
	rec, _ := v.Record(node)
	if now := max(awaits.begun, rec.Begun); track.Begun < now {
		track = boots.Track{Node: node, Begun: now} // of an introspection before
	}
	out.Track, out.Awaited = track, len(awaits.macs) > 0
	switch {
	case called(v, track):
	case len(track.Findings) > 0:
		out.Findings = track.Findings
	case rec.State == introspection.NodeError && !rec.Finding.IsZero():
		out.Findings = []entry.Finding{rec.Finding} // kept for longer than the track
	}
	return out, recorded || out.Awaited || len(out.Findings) > 0
}

// awaits is a node whose machine is expected to boot.
type awaits struct {
	macs  []string      // none: it is not expected
	begun fencing.Token // as boots.Track has it
}

// awaitedOf is the introspection, of Trivet or of Ironic itself, that waits for a node's machine.
// Of one that starts the machine may not be switched on yet.
func awaitedOf(v fsm.View, node string) (out awaits) {
	if rec, ok := v.Record(node); ok && rec.State == introspection.NodeWaiting {
		out.begun = rec.Begun
		for _, mac := range slices.Concat(rec.Attributes.MACs, v.MACsByPort(node)) {
			if slices.Contains(v.BootingByMAC(mac), node) && !slices.Contains(out.macs, mac) {
				out.macs = append(out.macs, mac)
			}
		}
	}
	if i, ok := v.Inspected(node); ok && i.Since >= out.begun {
		out = awaits{i.MACs, i.Since}
	}
	return out
}

// called reports whether the ramdisk of a track's introspection has sent its document.
func called(v fsm.View, track boots.Track) bool {
	if rec, ok := v.Record(track.Node); ok && rec.Begun == track.Begun {
		return rec.Delivered.Request >= rec.Begun
	}
	relay, ok := v.RelayOf(track.Node)
	return ok && !track.Begun.IsZero() && relay.Sequence >= track.Begun
}

// MaybeStopped are the nodes, in order, of which AccountOf may have findings.
func MaybeStopped(v fsm.View) (nodes []string) {
	for track := range v.BootTracks() {
		if len(track.Findings) > 0 {
			nodes = append(nodes, track.Node)
		}
	}
	for rec := range v.Records() {
		if !rec.Finding.IsZero() {
			nodes = append(nodes, rec.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Stopped counts the awaited machines that do not come up, by what stops each first.
func Stopped(v fsm.View) map[string]int {
	codes := make(map[string]int)
	for track := range v.BootTracks() {
		if len(track.Findings) == 0 {
			continue
		}
		if account, _ := AccountOf(v, track.Node); account.Awaited && len(account.Findings) > 0 {
			codes[account.Findings[0].Code]++
		}
	}
	return codes
}

// Codes are those of all findings that this binary makes.
func Codes() (all []string) {
	for _, row := range rows() {
		all = append(all, row.code)
	}
	return all
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
