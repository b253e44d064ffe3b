package recorder

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Machine is a machine that is awaited, and what was heard of it.
type Machine struct {
	MACs  []string  // of the node, those that are let in
	Since time.Time // from when on its machine is awaited and the recorder listens
	Now   time.Time
	Track boots.Track
	// Denied says why a MAC is kept out, relay being the address of the DHCP relay that it came
	// through, "" if none; "" says that it is let in.
	Denied func(mac, relay string) string
	// Hosts are addresses of the peers' hosts. Their DHCP servers are no foreign ones, also where
	// another peer leads by now.
	Hosts map[string]bool
	// Strangers asked meanwhile.
	Strangers []Stranger
}

// judgeBoot says what speaks against the boot, what stops it first before what would stop it later,
// and when the next thing will if nothing is heard until then; zero: nothing will.
func (m Machine) judgeBoot() (all []entry.Finding, next time.Time) {
	h := m.sortSteps()
	for _, row := range rows() {
		at, text := row.find(m, h)
		if text == "" {
			continue
		}
		if due := time.UnixMilli(at).Add(row.wait); m.Now.Before(due) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		if len(all) < boots.MaxFindings {
			all = append(all, entry.Finding{Code: row.code, Text: valid.Cut(text, entry.MaxFindingText)})
		}
	}
	return all, next
}

// heard is a track by what its steps are.
type heard struct {
	steps  map[boots.Kind][]boots.Step
	loader []boots.Step // files that were offered by DHCP, and fetched
	system []boots.Step // other files that were fetched: what a script names
	ipxe   bool         // iPXE asked
	own    []string     // addresses of the DHCP server of the peers' hosts
}

func (m Machine) sortSteps() heard {
	h := heard{steps: make(map[boots.Kind][]boots.Step)}
	var files []string
	for _, s := range m.Track.Steps {
		s.Foreign = s.Foreign && !m.Hosts[s.Server]
		h.steps[s.Kind] = append(h.steps[s.Kind], s)
		switch s.Kind {
		case boots.Asked:
			h.ipxe = h.ipxe || s.Client == boots.IPXEClient
		case boots.Offered, boots.Leased:
			files = append(files, s.File)
			if s.Kind == boots.Offered && !s.Foreign {
				h.own = append(h.own, s.Server)
			}
		}
	}
	for _, s := range h.steps[boots.Fetched] {
		if slices.ContainsFunc(files, func(f string) bool { return f != "" && path.Base(f) == path.Base(s.File) }) {
			h.loader = append(h.loader, s)
		} else {
			h.system = append(h.system, s)
		}
	}
	return h
}

// of are the steps of some kinds, one kind after the other.
func (h heard) of(kinds ...boots.Kind) (all []boots.Step) {
	for _, k := range kinds {
		all = append(all, h.steps[k]...)
	}
	return all
}

// row is one kind of finding; find says it in a sentence, "" if it is not so, and since when, a
// wall clock in ms. What is just not there yet, as on the way of every boot, is no finding before
// wait has passed since then. boots.Remedy has the remedies.
type row struct {
	code string
	wait time.Duration
	find func(Machine, heard) (at int64, text string)
}

// How long what follows may take.
const (
	startWait  = 2 * time.Minute  // from power-on to the first request: a server's self-test
	answerWait = 10 * time.Second // of DHCP
	fetchWait  = 20 * time.Second // from an address to a file, and from a broken file to the next try
	loaderWait = time.Minute      // from a loader to iPXE's question, and from iPXE's script to the kernel
	systemWait = 5 * time.Minute  // from the kernel to the call
)

const (
	codeSilent  = "silent"
	codeUnknown = "unknown-mac"
)

func rows() []row {
	return []row{
		{codeSilent, startWait, findSilence},
		{codeUnknown, startWait, findUnknown},
		{"denied", 0, findDenied},
		{"foreign-server", 0, findForeign},
		{"no-offer", answerWait, findNoOffer},
		{"refused-address", answerWait, findRefusedAddress},
		{"no-boot-file", answerWait, findNoFile},
		{"not-fetched", fetchWait, findNotFetched},
		{"file-refused", fetchWait, findFileRefused},
		{"transfer-broken", fetchWait, findBroken},
		{"loop", 0, findLoop},
		{"loader-stopped", loaderWait, findLoaderStopped},
		{"no-kernel", loaderWait, findNoKernel},
		{"no-callback", systemWait, findNoCallback},
	}
}

func findSilence(m Machine, _ heard) (int64, string) {
	if len(m.Track.Steps) > 0 {
		return 0, ""
	}
	at := m.Since.UnixMilli()
	return at, fmt.Sprintf("no request of %s was heard since %s", few(m.MACs), moment(at))
}

// named is how many MACs a sentence names.
const named = 3

// few names the first of some MACs.
func few(macs []string) string {
	if n := len(macs) - named; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(macs[:named], ", "), n)
	}
	return strings.Join(macs, ", ")
}

func findUnknown(m Machine, _ heard) (int64, string) {
	var macs []string
	for _, s := range m.Strangers {
		if s.Last.After(m.Since) && s.Client != boots.OtherClient {
			macs = append(macs, s.MAC)
		}
	}
	if len(m.Track.Steps) > 0 || len(macs) == 0 {
		return 0, ""
	}
	return m.Since.UnixMilli(), "machines asked to boot meanwhile that are not under introspection: " + few(macs)
}

func findDenied(m Machine, h heard) (int64, string) {
	for _, s := range slices.Backward(h.of(boots.Asked, boots.Chose)) {
		if why := m.Denied(s.MAC, s.Relay); why != "" {
			return s.FirstMillis, fmt.Sprintf("%s asked%s and is kept out: %s", s.MAC, through(s), why)
		}
	}
	return 0, ""
}

func through(s boots.Step) string {
	if s.Relay == "" {
		return ""
	}
	return " through relay " + s.Relay
}

// whole reports whether one leader heard a conversation from the machine's question to this step of
// it. Else an answer of the host of the leader before may be missing, or come after it has led.
func (h heard) whole(s boots.Step) bool {
	return slices.ContainsFunc(h.of(boots.Asked), func(a boots.Step) bool {
		return a.MAC == s.MAC && a.Peer == s.Peer && a.FirstMillis <= s.LastMillis &&
			!slices.ContainsFunc(h.of(boots.Unheard), func(g boots.Step) bool {
				return g.Peer == s.Peer && a.FirstMillis < g.LastMillis && g.LastMillis <= s.LastMillis
			})
	})
}

func findForeign(m Machine, h heard) (int64, string) {
	for _, s := range h.of(boots.Leased, boots.Offered) {
		if !s.Foreign || !h.whole(s) {
			continue
		}
		chosen := ""
		if slices.ContainsFunc(h.of(boots.Chose), func(c boots.Step) bool { return c.Server == s.Server }) {
			chosen = ", and it chose that"
		}
		return s.FirstMillis, fmt.Sprintf("another DHCP server, %s from %s, offered it %s%s", s.Server, s.ServerMAC,
			s.Address, chosen)
	}
	for _, s := range h.of(boots.Chose) { // the answers of this host are heard
		if s.Server != "" && h.whole(s) && !m.Hosts[s.Server] && !slices.Contains(h.own, s.Server) {
			return s.FirstMillis, fmt.Sprintf("it chose the offer of another DHCP server, %s, which was not heard here",
				s.Server)
		}
	}
	return 0, ""
}

func findNoOffer(m Machine, h heard) (int64, string) {
	asked := h.of(boots.Asked)
	if _, denied := findDenied(m, h); len(asked) == 0 || len(h.of(boots.Offered, boots.Leased)) > 0 || denied != "" {
		return 0, ""
	}
	last := asked[len(asked)-1]
	return asked[0].FirstMillis, fmt.Sprintf("%s asked for an address %s%s, is let in, and no server offered it one",
		last.MAC, times(last.Count), through(last))
}

func findRefusedAddress(m Machine, _ heard) (int64, string) {
	for _, s := range slices.Backward(m.Track.Steps) {
		switch s.Kind {
		case boots.Leased:
			return 0, ""
		case boots.Refused:
			return s.FirstMillis, fmt.Sprintf("DHCP server %s refused %s its address %s%s", s.Server, s.MAC, times(s.Count),
				quoted(s.Text))
		}
	}
	return 0, ""
}

// findNoFile leaves out what firmware tries after a loader that it fetched in vain.
func findNoFile(_ Machine, h heard) (int64, string) {
	for _, s := range slices.Backward(h.of(boots.Asked)) {
		if s.Client == boots.OtherClient {
			continue
		}
		if s.Client != boots.IPXEClient && len(h.loader) > 0 {
			return 0, ""
		}
		offers := slices.DeleteFunc(h.of(boots.Offered, boots.Leased), func(o boots.Step) bool {
			return o.Foreign || o.MAC != s.MAC || o.LastMillis < s.FirstMillis
		})
		if len(offers) == 0 || slices.ContainsFunc(offers, func(o boots.Step) bool { return o.File != "" }) {
			return 0, ""
		}
		return s.FirstMillis, fmt.Sprintf("its firmware, %s, is offered an address and no boot file",
			Firmware(s.Client, s.Arch))
	}
	return 0, ""
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

func findNotFetched(m Machine, h heard) (int64, string) {
	if len(h.loader)+len(h.system)+len(h.of(boots.Failed, boots.Abandoned)) > 0 {
		return 0, ""
	}
	_, foreign := findForeign(m, h)
	_, refused := findRefusedAddress(m, h)
	elsewhere := foreign+refused != "" // it has no address to fetch from
	for _, s := range slices.Backward(h.of(boots.Offered, boots.Leased)) {
		if s.File != "" && !s.Foreign && (s.Kind == boots.Leased || !elsewhere) {
			return s.FirstMillis, fmt.Sprintf("it was given the name %s, and asked for no file since %s", s.File,
				moment(s.FirstMillis))
		}
	}
	return 0, ""
}

func findFileRefused(_ Machine, h heard) (int64, string) {
	last, found := h.stuck(h.of(boots.Failed))
	if !found {
		return 0, ""
	}
	return last.FirstMillis, fmt.Sprintf("%s refused file %s %s%s", last.Server, last.File, times(last.Count),
		quoted(last.Text))
}

// stuck is the newest of some steps after which the boot came no further: neither was its file fetched
// then nor, since a loader tries several names, another one for the first time. What is fetched again
// and again, by a machine that begins again, does not count.
func (h heard) stuck(at []boots.Step) (s boots.Step, found bool) {
	for _, s := range slices.Backward(at) {
		if !slices.ContainsFunc(slices.Concat(h.loader, h.system), func(f boots.Step) bool {
			return f.FirstMillis > s.FirstMillis || f.File == s.File && f.LastMillis >= s.LastMillis
		}) {
			return s, true
		}
	}
	return s, false
}

func findBroken(_ Machine, h heard) (int64, string) {
	last, found := h.stuck(h.of(boots.Abandoned))
	if !found {
		return 0, ""
	}
	return last.FirstMillis, fmt.Sprintf("file %s from %s broke off %s, at last after about %d bytes%s", last.File,
		last.Server, times(last.Count), last.Bytes, quoted(last.Text))
}

// loops is after how many times that it was fetched a loader does not run.
const loops = 2

func findLoop(_ Machine, h heard) (int64, string) {
	if h.ipxe || len(h.system) > 0 {
		return 0, ""
	}
	for _, s := range slices.Backward(h.loader) {
		if s.Count >= loops {
			return s.LastMillis, fmt.Sprintf("it fetched %s %s, and began again each time", s.File, times(s.Count))
		}
	}
	return 0, ""
}

// findLoaderStopped finds a loader after which nothing came, neither of iPXE nor of another one.
func findLoaderStopped(m Machine, h heard) (int64, string) {
	_, refused := h.stuck(h.of(boots.Failed))
	_, broken := h.stuck(h.of(boots.Abandoned))
	if _, loops := findLoop(m, h); len(h.loader) == 0 || h.ipxe || len(h.system) > 0 || refused || broken || loops != "" {
		return 0, ""
	}
	last := h.loader[len(h.loader)-1]
	if slices.ContainsFunc(h.of(boots.Unheard), func(g boots.Step) bool { return g.LastMillis > last.LastMillis }) {
		return 0, "" // iPXE may have asked meanwhile
	}
	return last.LastMillis, fmt.Sprintf("it fetched %s, and no iPXE asked since %s", last.File, moment(last.LastMillis))
}

func findNoKernel(_ Machine, h heard) (int64, string) {
	if !h.ipxe || len(h.loader) == 0 || len(h.system) > 0 {
		return 0, ""
	}
	last := h.loader[len(h.loader)-1]
	return last.FirstMillis, fmt.Sprintf("iPXE runs and has fetched %s, and no kernel since %s", last.File,
		moment(last.LastMillis))
}

func findNoCallback(_ Machine, h heard) (int64, string) {
	if len(h.system) == 0 {
		return 0, ""
	}
	var files []string
	for _, s := range h.system {
		files = append(files, path.Base(s.File))
	}
	slices.Sort(files)
	last := h.system[len(h.system)-1]
	return last.FirstMillis, fmt.Sprintf("it fetched %s, at last at %s, and has not called",
		strings.Join(slices.Compact(files), ", "), moment(last.LastMillis))
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
