package recorder

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/trivet-ha/trivet/fsm/boots"
)

// Finding is why a machine has not called yet, as far as its boot was heard.
type Finding struct {
	Code   string // stands in docs/pxe.md#recorder
	Text   string // a sentence without a full stop
	Remedy string
}

// Machine is what Findings judges.
type Machine struct {
	MACs  []string  // of the node, those that are let in
	Since time.Time // when the introspection began
	Track boots.Track
	// Denied says why a MAC is kept out, relay being the address of the DHCP relay that it came
	// through, "" if none; "" says that it is let in.
	Denied func(mac, relay string) string
	// Strangers asked meanwhile.
	Strangers []Stranger
}

// Findings are all that speak against the boot, what stops it first before what would stop it
// later. None are there for a machine that has done all that was heard well, and may call any
// moment, but for the call itself.
func Findings(m Machine) (all []Finding) {
	h := sortSteps(m.Track)
	for _, row := range rows() {
		if text := row.find(m, h); text != "" {
			all = append(all, Finding{row.code, text, row.remedy})
		}
	}
	return all
}

// heard is a track by what its steps are.
type heard struct {
	asked, offered, chose, leased, failed, abandoned []boots.Step
	loader                                           []boots.Step // files that were offered by DHCP, and fetched
	system                                           []boots.Step // other files that were fetched: what a script names
	ipxe                                             bool         // iPXE asked
	own                                              []string     // addresses of the DHCP server of the peers' hosts
	gap                                              bool         // not all was heard
}

func sortSteps(t boots.Track) (h heard) {
	var files []string
	for _, s := range t.Steps {
		switch s.Kind {
		case boots.Asked:
			h.asked = append(h.asked, s)
			h.ipxe = h.ipxe || s.Client == boots.IPXEClient
		case boots.Offered:
			h.offered = append(h.offered, s)
			files = append(files, s.File)
			if !s.Foreign {
				h.own = append(h.own, s.Server)
			}
		case boots.Chose:
			h.chose = append(h.chose, s)
		case boots.Leased:
			h.leased = append(h.leased, s)
			files = append(files, s.File)
		case boots.Failed:
			h.failed = append(h.failed, s)
		case boots.Abandoned:
			h.abandoned = append(h.abandoned, s)
		case boots.Unheard:
			h.gap = true
		}
	}
	for _, s := range t.Steps {
		switch {
		case s.Kind != boots.Fetched:
		case slices.ContainsFunc(files, func(f string) bool { return f != "" && path.Base(f) == path.Base(s.File) }):
			h.loader = append(h.loader, s)
		default:
			h.system = append(h.system, s)
		}
	}
	return h
}

// row is one kind of finding; find says it in a sentence, "" if it is not so.
type row struct {
	code   string
	find   func(Machine, heard) string
	remedy string
}

func rows() []row {
	return []row{
		{"silent", findSilence, "look at its power, cable, VLAN and boot order; behind a relay this host must be among the " +
			"relay's servers"},
		{"unknown-mac", findUnknown, "compare these with the node's ports in Ironic ('baremetal port list --node NODE'); " +
			"'trivet firewall heard' lists them"},
		{"denied", findDenied, "'trivet firewall explain MAC' shows the rule"},
		{"foreign-server", findForeign,
			"switch that server off, or keep it from this network; 'trivet doctor --check raw-dhcp' " +
				"looks for more"},
		{"no-offer", findNoOffer, "'trivet doctor --check dhcp' looks at dnsmasq, its pool and the host's own firewall"},
		{"refused-address", findRefusedAddress, "look at dnsmasq's pool and its log; 'trivet doctor --check dhcp'"},
		{"no-boot-file", findNoFile, "docs/pxe.md#firmware says which kinds of firmware are served, and what helps others"},
		{"not-fetched", findNotFetched,
			"UDP 69 and the ports that TFTP answers from must be open between the machine and this " +
				"host; 'trivet doctor --check boot' fetches the files here"},
		{"file-refused", findFileRefused, "'trivet doctor --check boot' names the files that are missing on each host"},
		{"transfer-broken", findBroken,
			"look for loss of packets, another MTU, or a firewall between the machine and this host"},
		{"loop", findLoop, "its loader does not find its network card, or its firmware does not run it: try another one " +
			"(docs/pxe.md#firmware)"},
		{"no-kernel", findNoKernel,
			"look at the script: its kernel and ramdisk must be where it says; the machine's screen has " +
				"iPXE's error"},
		{"no-callback", findNoCallback, "look at ipa-inspection-callback-url in the kernel's arguments, at the machine's " +
			"address, clock and trust of the API's certificate, and at its console"},
	}
}

func findSilence(m Machine, _ heard) string {
	if len(m.Track.Steps) > 0 {
		return ""
	}
	return fmt.Sprintf("no request of %s was heard since %s", strings.Join(m.MACs, ", "), moment(m.Since.UnixMilli()))
}

// namedStrangers is how many of them a sentence names.
const namedStrangers = 3

func findUnknown(m Machine, _ heard) string {
	var macs []string
	for _, s := range m.Strangers {
		if s.Last.After(m.Since) && s.Client != boots.OtherClient {
			macs = append(macs, s.MAC)
		}
	}
	if len(m.Track.Steps) > 0 || len(macs) == 0 {
		return ""
	}
	more := ""
	if n := len(macs) - namedStrangers; n > 0 {
		macs, more = macs[:namedStrangers], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("machines asked to boot meanwhile that are not under introspection: %s%s", strings.Join(macs, ", "),
		more)
}

func findDenied(m Machine, h heard) string {
	for _, s := range slices.Backward(slices.Concat(h.asked, h.chose)) {
		if why := m.Denied(s.MAC, s.Relay); why != "" {
			return fmt.Sprintf("%s asked%s and is kept out: %s", s.MAC, through(s), why)
		}
	}
	return ""
}

func through(s boots.Step) string {
	if s.Relay == "" {
		return ""
	}
	return " through relay " + s.Relay
}

func findForeign(_ Machine, h heard) string {
	for _, s := range slices.Concat(h.leased, h.offered) {
		if !s.Foreign {
			continue
		}
		chosen := ""
		if slices.ContainsFunc(h.chose, func(c boots.Step) bool { return c.Server == s.Server }) {
			chosen = ", and it chose that"
		}
		return fmt.Sprintf("another DHCP server, %s from %s, offered it %s%s", s.Server, s.ServerMAC, s.Address, chosen)
	}
	for _, s := range h.chose { // the answers of this host are heard, but for those in a gap
		if s.Server != "" && (len(h.own) > 0 || !h.gap) && !slices.Contains(h.own, s.Server) {
			return fmt.Sprintf("it chose the offer of another DHCP server, %s, which was not heard here", s.Server)
		}
	}
	return ""
}

func findNoOffer(m Machine, h heard) string {
	if len(h.asked) == 0 || len(h.offered)+len(h.leased) > 0 || findDenied(m, h) != "" {
		return ""
	}
	last := h.asked[len(h.asked)-1]
	return fmt.Sprintf("%s asked for an address %s%s, is let in, and no server offered it one", last.MAC,
		times(last.Count),
		through(last))
}

func findRefusedAddress(m Machine, _ heard) string {
	for _, s := range slices.Backward(m.Track.Steps) {
		switch s.Kind {
		case boots.Leased:
			return ""
		case boots.Refused:
			return fmt.Sprintf("DHCP server %s refused %s its address %s%s", s.Server, s.MAC, times(s.Count), quoted(s.Text))
		}
	}
	return ""
}

func findNoFile(_ Machine, h heard) string {
	for _, s := range slices.Backward(h.asked) {
		if s.Client == boots.OtherClient {
			continue
		}
		offers := slices.DeleteFunc(slices.Clone(slices.Concat(h.offered, h.leased)), func(o boots.Step) bool {
			return o.Foreign || o.MAC != s.MAC || o.LastMillis < s.FirstMillis
		})
		if len(offers) == 0 || slices.ContainsFunc(offers, func(o boots.Step) bool { return o.File != "" }) {
			return ""
		}
		return fmt.Sprintf("its firmware, %s, is offered an address and no boot file", Firmware(s.Client, s.Arch))
	}
	return ""
}

// Firmware is what a client says of itself, in words; arch is as boots.Step has it.
func Firmware(c boots.Client, arch uint16) string {
	name := map[boots.Client]string{boots.PXEClient: "PXE", boots.HTTPClient: "HTTP boot", boots.IPXEClient: "iPXE",
		boots.OtherClient: "no network boot"}[c]
	if arch == 0 {
		return name
	}
	return fmt.Sprintf("%s of architecture %d (%v)", name, arch-1, iana.Arch(arch-1))
}

func findNotFetched(m Machine, h heard) string {
	if len(h.loader)+len(h.system)+len(h.failed)+len(h.abandoned) > 0 {
		return ""
	}
	elsewhere := findForeign(m, h)+findRefusedAddress(m, h) != "" // it has no address to fetch from
	for _, s := range slices.Backward(slices.Concat(h.offered, h.leased)) {
		if s.File != "" && !s.Foreign && (s.Kind == boots.Leased || !elsewhere) {
			return fmt.Sprintf("it was given the name %s, and asked for no file since %s", s.File, moment(s.LastMillis))
		}
	}
	return ""
}

func findFileRefused(_ Machine, h heard) string {
	if len(h.failed) == 0 {
		return ""
	}
	last := h.failed[len(h.failed)-1]
	if slices.ContainsFunc(slices.Concat(h.loader, h.system), func(s boots.Step) bool {
		return s.File == last.File && s.LastMillis >= last.LastMillis
	}) {
		return ""
	}
	return fmt.Sprintf("%s refused file %s %s%s", last.Server, last.File, times(last.Count), quoted(last.Text))
}

func findBroken(_ Machine, h heard) string {
	if len(h.abandoned) == 0 {
		return ""
	}
	last := h.abandoned[len(h.abandoned)-1]
	if slices.ContainsFunc(slices.Concat(h.loader, h.system), func(s boots.Step) bool {
		return s.File == last.File && s.LastMillis >= last.LastMillis
	}) {
		return ""
	}
	return fmt.Sprintf("file %s from %s broke off %s, at last after about %d bytes%s", last.File, last.Server,
		times(last.Count), last.Bytes, quoted(last.Text))
}

// loops is after how many times that it was fetched a loader does not run.
const loops = 2

func findLoop(_ Machine, h heard) string {
	if h.ipxe || len(h.system) > 0 {
		return ""
	}
	for _, s := range slices.Backward(h.loader) {
		if s.Count >= loops {
			return fmt.Sprintf("it fetched %s %s, and began again each time", s.File, times(s.Count))
		}
	}
	return ""
}

func findNoKernel(_ Machine, h heard) string {
	if !h.ipxe || len(h.loader) == 0 || len(h.system) > 0 {
		return ""
	}
	last := h.loader[len(h.loader)-1]
	return fmt.Sprintf("iPXE runs and has fetched %s, and no kernel since %s", last.File, moment(last.LastMillis))
}

func findNoCallback(_ Machine, h heard) string {
	if len(h.system) == 0 {
		return ""
	}
	var files []string
	for _, s := range h.system {
		files = append(files, path.Base(s.File))
	}
	slices.Sort(files)
	last := h.system[len(h.system)-1]
	return fmt.Sprintf("it fetched %s, at last at %s, and has not called", strings.Join(slices.Compact(files), ", "),
		moment(last.LastMillis))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(": %q", text)
}

func moment(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }
