package firewall

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Verdict is what a rule does with a packet, or all rules together.
type Verdict string

// The verdicts.
const (
	VerdictAccept Verdict = "accept"
	VerdictDrop   Verdict = "drop"
	// VerdictNext leaves it to the next rule; no explanation ends with it.
	VerdictNext Verdict = "next"
	// VerdictUnknown says that the host's rules are not as they should be, so the
	// verdict of the kernel is not known.
	VerdictUnknown Verdict = "unknown"
)

// Rule names a rule of the filter.
type Rule string

// The rules in the order in which a packet meets them.
const (
	RuleDriver    Rule = "driver"
	RuleInterface Rule = "interface"
	RuleIntact    Rule = "rules"
	RuleLease     Rule = "lease"
	RuleRelay     Rule = "relay"
	RuleWhitelist Rule = "whitelist"
	RuleBlacklist Rule = "blacklist"
	RulePass      Rule = "pass rule"
)

// Step is one rule and what it makes of a MAC.
type Step struct {
	Rule    Rule
	Verdict Verdict
	// Reached is false where an earlier rule has decided.
	Reached bool
	Text    string // why: a sentence, without a full stop
}

// Explanation tells, rule by rule, what becomes of the requests of one machine
// on one host: why it boots there, or does not.
type Explanation struct {
	MAC     string // in lower case, with colons
	Steps   []Step
	Verdict Verdict
	Why     string // the text of the step that decided
}

// HostState is what Explain needs of a host in addition to the replicated state.
type HostState struct {
	Interface string
	// InterfaceErr says why nothing arrives on the interface; nil if it may.
	InterfaceErr error
	// Unfiltered says that the driver filters nothing.
	Unfiltered bool
	Relays     Relays
	Policy     Policy
	Lists      ListState
	Guard      GuardStatus
	// Files says that dnsmasq compares the lists, by its files.
	Files bool
}

// ParseMAC reads a MAC in any of the usual forms (52:54:00:12:34:56,
// 52-54-00-12-34-56, 5254.0012.3456) and returns it as the state has it.
func ParseMAC(s string) (string, error) {
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 {
		return "", fmt.Errorf("%q is not a MAC; write six bytes in hexadecimal, such as 52:54:00:12:34:56", s)
	}
	return mac.String(), nil
}

// Explain says what becomes of the requests of a machine on a host. It reads the
// state and h alone and sends nothing, so it does not see a server that is down, a
// cable, or the filter of another program. It fails only if mac is not a MAC.
func Explain(v fsm.View, h HostState, mac string) (Explanation, error) {
	mac, err := ParseMAC(mac)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{MAC: mac}
	if h.Unfiltered {
		x.step(RuleDriver, VerdictAccept, "driver noop filters nothing on this host: every server here answers every machine")
		return x, nil
	}
	x.meetInterface(h)
	switch err := h.Lists.Err; {
	case errors.Is(err, ErrForeign):
		x.step(RuleIntact, VerdictUnknown, "until the rules are rebuilt, what gets through is not known: %v", err)
	case err != nil:
		x.step(RuleIntact, VerdictUnknown, "the rules of this host are not programmed, what gets through is not known: %v",
			err)
	}
	if g := h.Guard; g.Open {
		x.step(RuleLease, VerdictNext, "the lease is in force here since %s, under token %v", moment(g.Since), g.Token)
	} else {
		x.step(RuleLease, VerdictDrop, "the lease is not in force here, so that nothing gets through: %s; %s", g.Why,
			Recorded(v, v.PassDoor()))
	}
	// It never decides: whether a machine is behind a relay is not in the state, so that all that
	// follows is about one that is not.
	if h.Relays == RelaysMatched {
		x.step(RuleRelay, VerdictNext,
			"over IPv4 it may be behind a DHCP relay (firewall.match: chaddr); what a relay passes on over IPv6 is dropped")
	} else {
		x.step(RuleRelay, VerdictNext,
			"if it asks this host itself; what a DHCP relay passes on is dropped (firewall.match: ether; over IPv6 always)")
	}
	x.meetWhitelist(v, h)
	x.meetBlacklist(v, h)
	x.meetPass(v, h)
	return x, nil
}

// step adds a rule; the first that does not leave it to the next decides.
func (x *Explanation) step(r Rule, verdict Verdict, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	x.Steps = append(x.Steps, Step{Rule: r, Verdict: verdict, Reached: x.Verdict == "", Text: text})
	if x.Verdict == "" && verdict != VerdictNext {
		x.Verdict, x.Why = verdict, text
	}
}

func (x *Explanation) meetInterface(h HostState) {
	if h.InterfaceErr != nil {
		x.step(RuleInterface, VerdictDrop, "nothing arrives on %s: %v", h.Interface, h.InterfaceErr)
		return
	}
	ports := make([]string, 0, len(Gated()))
	for _, p := range Gated() {
		ports = append(ports, fmt.Sprint(p))
	}
	more := ""
	if h.Files {
		more = "; the lists are files for dnsmasq, which reads a change within 0.3 s and compares the client's address inside DHCP"
	}
	x.step(RuleInterface, VerdictNext, "requests to UDP %s that arrive on %s are filtered; nothing else is%s",
		strings.Join(ports, ", "), h.Interface, more)
}

// Recorded says in words who is recorded as having a door open.
func Recorded(v fsm.View, d doors.Door) string {
	switch {
	case d.Unknown && d.OpenBy.IsZero():
		return "who may have it open is not known since a restore or recovery"
	case d.OpenBy.IsZero():
		return "no peer is recorded as having it open"
	}
	name := d.Peer
	if m, ok := v.Member(d.Peer); ok {
		name = m.Name
	}
	return fmt.Sprintf("%s is recorded as having it open since %s, under token %v", name, moment(time.UnixMilli(d.Wall)),
		d.OpenBy)
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (x *Explanation) meetWhitelist(v fsm.View, h HostState) {
	var expected []string // boots
	for _, node := range v.InspectedByMAC(x.MAC) {
		expected = append(expected, fmt.Sprintf("Ironic itself inspects node %s", node))
	}
	for _, node := range v.BootingByMAC(x.MAC) {
		rec, _ := v.Record(node)
		expected = append(expected, fmt.Sprintf("node %s is introspected (%v)", node, rec.State))
	}
	booting := strings.Join(expected, ", ")
	switch leads := !h.Lists.Token.IsZero(); {
	case !leads && booting != "":
		x.step(RuleWhitelist, VerdictNext, "the whitelist is empty here, only the leader has one; there %s", booting)
	case !leads:
		x.step(RuleWhitelist, VerdictNext, "the whitelist is empty here, only the leader has one")
	case booting == "":
		x.step(RuleWhitelist, VerdictNext, "not on the whitelist: %s%s", idleText(v, x.MAC),
			pending(v.AllowedChangedSince, h, x.MAC))
	default:
		x.step(RuleWhitelist, VerdictAccept, "on the whitelist: %s%s", booting, pending(v.AllowedChangedSince, h, x.MAC))
	}
}

// idleText says why no boot is expected with this MAC.
func idleText(v fsm.View, mac string) string {
	var texts, nodes []string // nodes: those whose ports have the MAC, each once
	for _, p := range v.PortsByMAC(mac) {
		if !slices.Contains(nodes, p.Node) {
			nodes = append(nodes, p.Node)
		}
	}
	for _, node := range nodes {
		rec, ok := v.Record(node)
		switch {
		case !ok:
			texts = append(texts, fmt.Sprintf("node %s was not introspected", node))
		case rec.State == introspection.NodeReapplying:
			texts = append(texts, fmt.Sprintf("node %s has its stored data reapplied, which boots nothing", node))
		case rec.State.Active() && len(nodes) == 1 && len(v.NodesByMAC(mac)) == 0:
			texts = append(texts, fmt.Sprintf("node %s is introspected (%v), but this MAC was not saved for it at its start",
				node, rec.State))
		case rec.State.Active():
			texts = append(texts, fmt.Sprintf("node %s is introspected (%v), but another node has this MAC, too", node,
				rec.State))
		default:
			texts = append(texts, fmt.Sprintf("the introspection of node %s has ended (%v)", node, rec.State))
		}
	}
	for _, node := range v.NodesByMAC(mac) {
		if len(nodes) > 0 && !slices.Contains(nodes, node) {
			texts = append(texts, fmt.Sprintf("node %s was started with it, but it is another node's since", node))
		}
	}
	if texts == nil {
		return "no node under introspection has it"
	}
	return strings.Join(texts, ", ")
}

// pending tells when the kernel has yet to follow the state.
func pending(changedSince func(uint64) ([]string, bool), h HostState, mac string) string {
	macs, ok := changedSince(h.Lists.Index)
	if ok && !slices.Contains(macs, mac) {
		return ""
	}
	return "; that is on its way into the kernel"
}

func (x *Explanation) meetBlacklist(v fsm.View, h HostState) {
	ports := v.PortsByMAC(x.MAC)
	on := pending(v.PortsChangedSince, h, x.MAC)
	switch {
	case x.MAC == TestMAC:
		x.step(RuleBlacklist, VerdictDrop, "on the blacklist: every host denies the MAC that tests the filter")
	case len(ports) > 0:
		x.step(RuleBlacklist, VerdictDrop, "on the blacklist: Ironic knows it as port %s of node %s%s", ports[0].ID,
			ports[0].Node, on)
	default:
		x.step(RuleBlacklist, VerdictNext, "not on the blacklist: Ironic has no port with it, %s%s", pulled(v), on)
	}
}

// pulled says how old that knowledge is.
func pulled(v fsm.View) string {
	pull, ok := v.Pull()
	if !ok {
		return "but its ports were never listed completely"
	}
	return "as of " + moment(time.UnixMilli(pull.Wall))
}

func (x *Explanation) meetPass(v fsm.View, h HostState) {
	switch {
	case h.Lists.Token.IsZero():
		x.step(RulePass, VerdictDrop, "only the leader has a pass rule: what no list names is dropped here")
	case h.Lists.Pass && h.Policy.Discovery:
		x.step(RulePass, VerdictAccept, "what no list names may boot: unknown machines are enrolled")
	case h.Lists.Pass:
		x.step(RulePass, VerdictAccept, "what no list names may boot while nodes are introspected")
	case h.Policy.DenyUnknown:
		x.step(RulePass, VerdictDrop, "firewall.deny_unknown_macs drops what no list names")
	case passes(v, h.Policy):
		x.step(RulePass, VerdictDrop, "the pass rule is taken out; it is on its way back into the kernel")
	default:
		x.step(RulePass, VerdictDrop,
			"the pass rule is taken out: no node is introspected, so no machine has a reason to boot")
	}
}
