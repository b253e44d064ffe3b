package firewall

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/membership"
)

const (
	explainedNode = "11111111-1111-4111-8111-111111111111"
	otherNode     = "22222222-2222-4222-8222-222222222222"
	booting       = "52:54:00:00:00:01" // introspected, and known to Ironic
	resting       = "52:54:00:00:00:02" // known to Ironic
	stranger      = "52:54:00:00:00:03"
)

// fakeStore is a state that a test writes.
type fakeStore struct {
	t     *testing.T
	state *fsm.State
	index uint64
	token fencing.Token
}

// newFakeStore is led by peer a.
func newFakeStore(t *testing.T) *fakeStore {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "5f0c1f3e-0000-4000-8000-000000000001", CACert: []byte("-----BEGIN CERTIFICATE-----"),
		CAKey: []byte("-----BEGIN PRIVATE KEY-----"), GossipKey: make([]byte, 32),
		Member: membership.Member{ID: "a", Name: "h1", Address: "a:7350", Version: fsm.Version},
	}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	b := &fakeStore{t: t, state: state, index: 1}
	b.do(fsm.Lead{Peer: "a", Boot: "b1", Version: fsm.Version})
	b.token = b.state.View().Leadership().Token
	return b
}

func (b *fakeStore) do(c fsm.Command) {
	b.t.Helper()
	data, err := fsm.Encode(fsm.Header{Token: b.token, WallMillis: 1_700_000_000_000}, c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.index++
	if res := b.state.Apply(fsm.Entry{Index: b.index, Term: 1, Data: data}); res.Code != fsm.OK {
		b.t.Fatalf("%v: %v", fsm.KindOf(c), res.Message)
	}
}

func (b *fakeStore) lists() {
	b.t.Helper()
	b.do(ironicports.PutPorts{Complete: true,
		Ports: []ironicports.Port{{ID: "p1", MAC: booting, Node: explainedNode}, {ID: "p2", MAC: resting, Node: otherNode}}})
}

func (b *fakeStore) introspects(node string, macs ...string) {
	b.t.Helper()
	b.do(introspection.Start{Node: node, Event: introspection.EventStart, Timeout: time.Hour,
		Attributes: introspection.Attributes{MACs: macs}})
}

// leading is the host of the leader, its door open and its rules in force.
func (b *fakeStore) leading() HostState {
	v := b.state.View()
	return HostState{
		Interface: "br-pxe",
		Lists:     ListState{Token: b.token, Index: v.Index(), Counts: Count(v, true, Policy{})},
		Guard:     GuardStatus{Open: true, Token: b.token, Since: time.Unix(1_700_000_000, 0)},
	}
}

// following is a host whose door is shut.
func (b *fakeStore) following() HostState {
	return HostState{
		Interface: "br-pxe",
		Lists:     ListState{Index: b.state.View().Index()},
		Guard:     GuardStatus{Why: "this peer does not lead"},
	}
}

// explained checks an explanation: its verdict, the rule that decided, and that
// the text of each of the named rules holds the words.
func (b *fakeStore) explained(h HostState, mac string, verdict Verdict, decides Rule, commands map[Rule]string) {
	b.t.Helper()
	x, err := Explain(b.state.View(), h, mac)
	if err != nil {
		b.t.Fatal(err)
	}
	at := slices.IndexFunc(x.Steps, func(s Step) bool { return s.Reached && s.Verdict != VerdictNext })
	if x.Verdict != verdict || at < 0 || x.Steps[at].Rule != decides || x.Steps[at].Text != x.Why {
		b.t.Errorf("%s: %s because %q, want %s by the %s:%s", mac, x.Verdict, x.Why, verdict, decides, printed(x))
	}
	for i, s := range x.Steps {
		if s.Reached != (i <= at) {
			b.t.Errorf("%s: reached is %v:%s", s.Rule, s.Reached, printed(x))
		}
		if !strings.Contains(s.Text, commands[s.Rule]) {
			b.t.Errorf("the %s says %q, want %q in it", s.Rule, s.Text, commands[s.Rule])
		}
	}
}

func printed(x Explanation) string {
	var text strings.Builder
	for _, s := range x.Steps {
		fmt.Fprintf(&text, "\n%s: %s (reached %v): %s", s.Rule, s.Verdict, s.Reached, s.Text)
	}
	return text.String()
}

func TestLeaderExplainsItsLists(t *testing.T) {
	b := newFakeStore(t)
	b.lists()
	b.introspects(explainedNode, booting)
	b.explained(b.leading(), booting, VerdictAccept, RuleWhitelist, map[Rule]string{
		RuleInterface: "UDP 67, 547, 4011 that arrive on br-pxe",
		RuleLease:     "in force here since 2023-11-14T22:13:20Z, under token " + b.token.String(),
		RuleRelay:     "what a DHCP relay passes on is dropped (firewall.match: ether; over IPv6 always)",
		RuleWhitelist: "node " + explainedNode + " is introspected (starting)",
		RuleBlacklist: "port p1 of node " + explainedNode,
	})
	b.explained(b.leading(), resting, VerdictDrop, RuleBlacklist, map[Rule]string{
		RuleWhitelist: "node " + otherNode + " was not introspected",
		RuleBlacklist: "port p2",
	})
	b.explained(b.leading(), stranger, VerdictAccept, RulePass, map[Rule]string{
		RuleWhitelist: "no node under introspection has it",
		RuleBlacklist: "no port with it, as of 2023-11-14T22:13:20Z",
		RulePass:      "while nodes are introspected",
	})
	b.explained(b.leading(), TestMAC, VerdictDrop, RuleBlacklist, map[Rule]string{RuleBlacklist: "tests the filter"})
}

func TestPassRuleIsExplained(t *testing.T) {
	b := newFakeStore(t)
	b.explained(b.leading(), stranger, VerdictDrop, RulePass, map[Rule]string{
		RuleBlacklist: "its ports were never listed completely", RulePass: "no machine has a reason to boot",
	})
	denies := b.leading()
	denies.Policy.DenyUnknown = true
	b.explained(denies, stranger, VerdictDrop, RulePass, map[Rule]string{RulePass: "firewall.deny_unknown_macs"})
	discovers := b.leading()
	discovers.Policy.Discovery, discovers.Lists.Pass = true, true
	b.explained(discovers, stranger, VerdictAccept, RulePass, map[Rule]string{RulePass: "unknown machines are enrolled"})
	discovers.Lists.Pass = false
	b.explained(discovers, stranger, VerdictDrop, RulePass, map[Rule]string{RulePass: "on its way back"})
}

// A node boots with the MAC of a port that its record lacks, unless that is from before the start, or another
// node has it, too.
func TestWhitelistSaysWhyAMACIsNotOnIt(t *testing.T) {
	b := newFakeStore(t)
	b.introspects(explainedNode)
	b.lists()
	b.explained(b.leading(), booting, VerdictAccept, RuleWhitelist, map[Rule]string{
		RuleWhitelist: "on the whitelist: node " + explainedNode + " is introspected (starting)",
	})
	b.do(ironicports.PutPorts{Ports: []ironicports.Port{{ID: "p3", MAC: booting, Node: otherNode}}})
	b.explained(b.leading(), booting, VerdictDrop, RuleBlacklist, map[Rule]string{
		RuleWhitelist: "node " + explainedNode + " is introspected (starting), but another node has this MAC, too",
	})
	b = newFakeStore(t)
	b.lists()
	b.introspects(explainedNode)
	b.explained(b.leading(), booting, VerdictDrop, RuleBlacklist, map[Rule]string{
		RuleWhitelist: "node " + explainedNode +
			" is introspected (starting), but this MAC was not saved for it at its start",
	})
}

func TestShutDoorIsExplained(t *testing.T) {
	b := newFakeStore(t)
	b.lists()
	b.introspects(explainedNode, booting)
	b.explained(b.following(), booting, VerdictDrop, RuleLease, map[Rule]string{
		RuleLease:     "not in force here, so that nothing gets through: this peer does not lead; no peer is recorded",
		RuleWhitelist: "empty here, only the leader has one; there node " + explainedNode + " is introspected",
		RulePass:      "only the leader has a pass rule",
	})
	b.do(doors.PassOpen{})
	b.explained(b.following(), stranger, VerdictDrop, RuleLease, map[Rule]string{
		RuleLease:     "h1 is recorded as having it open since 2023-11-14T22:13:20Z, under token " + b.token.String(),
		RuleWhitelist: "empty here",
	})
	if text := Recorded(b.state.View(), doors.Door{Unknown: true}); !strings.Contains(text, "restore or recovery") {
		t.Errorf("a door of an earlier history: %q", text)
	}
	if text := Recorded(b.state.View(), doors.Door{OpenBy: 9, Peer: "gone"}); !strings.HasPrefix(text,
		"gone is recorded") {
		t.Errorf("a holder who is no member any more: %q", text)
	}
}

// While the kernel's rules are not those of the state, the verdict is not known.
func TestDoubtfulRulesAreNotExplainedAway(t *testing.T) {
	b := newFakeStore(t)
	b.lists()
	for _, c := range []struct {
		err  error
		want string
	}{
		{errNotYet, "are not programmed"},
		{fmt.Errorf("%w: the table is gone", ErrForeign), "until the rules are rebuilt"},
	} {
		h := b.leading()
		h.Lists.Err = c.err
		b.explained(h, resting, VerdictUnknown, RuleIntact, map[Rule]string{RuleIntact: c.want})
	}
	gone := b.leading()
	gone.InterfaceErr = errors.New("no such network interface")
	b.explained(gone, booting, VerdictDrop, RuleInterface,
		map[Rule]string{RuleInterface: "nothing arrives on br-pxe: no such network interface"})
	b.explained(HostState{Unfiltered: true}, resting, VerdictAccept, RuleDriver,
		map[Rule]string{RuleDriver: "filters nothing"})
}

// What was committed after the rules were programmed is said to be on its way.
func TestExplanationTellsWhatTheKernelHasYetToLearn(t *testing.T) {
	b := newFakeStore(t)
	b.lists()
	before := b.leading()
	b.introspects(explainedNode, booting)
	b.explained(before, booting, VerdictAccept, RuleWhitelist,
		map[Rule]string{RuleWhitelist: "on its way into the kernel"})
	b.do(ironicports.PutPorts{Remove: []string{"p2"}})
	b.explained(before, resting, VerdictDrop, RulePass,
		map[Rule]string{RuleBlacklist: "on its way into the kernel", RulePass: "on its way back"})
	for _, mac := range []string{booting, resting} {
		x, err := Explain(b.state.View(), b.leading(), mac)
		if err != nil || strings.Contains(printed(x), "on its way into the kernel") {
			t.Errorf("the kernel has learnt it, and of %s it is said:%s (%v)", mac, printed(x), err)
		}
	}
}

func TestMACsAreReadInTheUsualForms(t *testing.T) {
	for _, s := range []string{"52:54:00:AB:cd:01", "52-54-00-ab-CD-01", "5254.00AB.cd01"} {
		if got, err := ParseMAC(s); err != nil || got != "52:54:00:ab:cd:01" {
			t.Errorf("%s is read as %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "52:54:00", "52:54:00:ab:cd:01:02:03", "node-7", "52:54:00:ab:cd:0g"} {
		if got, err := ParseMAC(s); err == nil || !strings.Contains(err.Error(), "is not a MAC; write six bytes") {
			t.Errorf("%q is read as %q, %v", s, got, err)
		}
		if _, err := Explain(newFakeStore(t).state.View(), HostState{}, s); err == nil {
			t.Errorf("%q is explained", s)
		}
	}
}

func TestCountsAreThoseOfWhatIsDesired(t *testing.T) {
	b := newFakeStore(t)
	check := func() {
		t.Helper()
		v := b.state.View()
		for _, leads := range []bool{false, true} {
			if got, want := Count(v, leads, Policy{}), Desired(v, leads, Policy{}).Counts(); got != want {
				t.Errorf("leads %v: %+v, want %+v", leads, got, want)
			}
		}
	}
	check()
	b.lists()
	b.introspects(explainedNode, booting)
	check()
	b.do(ironicports.PutPorts{Ports: []ironicports.Port{{ID: "p3", MAC: TestMAC, Node: otherNode}}})
	check()
}

// TestRelaysAreExplained says of every kind of host what a relay makes of it,
// which decides nothing.
func TestRelaysAreExplained(t *testing.T) {
	b := newFakeStore(t)
	b.lists()
	for relays, commands := range map[Relays]string{
		"":            "is dropped (firewall.match: ether; over IPv6 always)",
		RelaysDropped: "is dropped (firewall.match: ether; over IPv6 always)",
		RelaysMatched: "over IPv4 it may be behind a DHCP relay",
	} {
		h := b.leading()
		h.Relays = relays
		b.explained(h, resting, VerdictDrop, RuleBlacklist, map[Rule]string{RuleRelay: commands})
	}
}
