package nftables

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// pxeTable is the table of the PXE filter.
var pxeTable = table{unix.NFPROTO_INET, Table}

func newFilter(t *testing.T, m firewall.Match, options ...Option) *Filter {
	t.Helper()
	f, err := New(firewall.Layout{Interface: "br-pxe", Match: m}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestNewNamesTheField(t *testing.T) {
	for _, tt := range []struct{ iface, match, want string }{
		{"br-pxe", "ether", ""},
		{"fifteen-letters", "chaddr", ""},
		{"", "ether", "firewall.interface"},
		{"sixteen-letters-", "ether", "firewall.interface"},
		{"br-pxe", "", "firewall.match"},
	} {
		_, err := New(firewall.Layout{Interface: tt.iface, Match: firewall.Match(tt.match)})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s by %s: %v", tt.iface, tt.match, err)
		case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
			t.Errorf("%q by %q: %v, want %s named", tt.iface, tt.match, err, tt.want)
		}
	}
}

// built returns the table as it would be read back.
func built(t *testing.T, f *Filter) (k skeleton) {
	t.Helper()
	changes, err := f.build(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range changes {
		name, err := tableOf(m)
		if err != nil || name != f.table.name || m.Data[0] != f.table.family {
			t.Fatalf("a message about table %q, %v", name, err)
		}
		switch kind, _ := kindOf(m); kind {
		case unix.NFT_MSG_NEWTABLE:
			k.flags, err = parseTable(m)
		case unix.NFT_MSG_NEWCHAIN:
			var c chain
			c, err = parseChain(m)
			k.chains = append(k.chains, c)
		case unix.NFT_MSG_NEWSET:
			var s set
			s, err = parseSet(m)
			k.sets = append(k.sets, s)
		case unix.NFT_MSG_NEWRULE:
			var r rule
			r, err = parseRule(m)
			k.rules = append(k.rules, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// everyFilter returns the filters of all plans, by what they are.
func everyFilter(t *testing.T) map[string]*Filter {
	t.Helper()
	four, six := NewAddress(netip.MustParseAddr("192.0.2.10")), NewAddress(netip.MustParseAddr("2001:db8::10"))
	return map[string]*Filter{
		"matched by ether":            newFilter(t, firewall.MatchEther),
		"matched by chaddr":           newFilter(t, firewall.MatchChaddr),
		"matched by ether, no lists":  newFilter(t, firewall.MatchEther, LeaseOnly()),
		"matched by chaddr, no lists": newFilter(t, firewall.MatchChaddr, LeaseOnly()),
		"IPv4 address, packets":       four.filters[0],
		"IPv4 address, ARP":           four.filters[1],
		"IPv6 address":                six.filters[0],
	}
}

func TestWhatIsBuiltIsWhatIsPlanned(t *testing.T) {
	for name, f := range everyFilter(t) {
		if d := f.planned.differs(built(t, f)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestNothingAcceptsAboveTheLease holds promise 2 to the letter: the first rule
// of the gate drops what the lease does not let through, and every way into the
// gate is its beginning.
func TestNothingAcceptsAboveTheLease(t *testing.T) {
	for _, m := range []firewall.Match{firewall.MatchEther, firewall.MatchChaddr} {
		k := newFilter(t, m).planned
		first := k.rulesOf(chainGate)[0].expressions
		closed, ok := first[1].(*expr.Lookup)
		if v, isVerdict := first[2].(*expr.Verdict); !ok || !isVerdict || len(first) != 3 ||
			closed.SetName != setLease || !closed.Invert || v.Kind != expr.VerdictDrop {
			t.Errorf("%s: the gate begins with %+v", m, first)
		}
		for i, r := range k.rulesOf(chainInput) {
			v := r.expressions[len(r.expressions)-1].(*expr.Verdict)
			toGate := v.Kind == expr.VerdictJump && v.Chain == chainGate
			below := i >= len(firewall.Gated()) // past no jump
			if !toGate && (!below || v.Kind != expr.VerdictDrop && v.Kind != expr.VerdictReturn) {
				t.Errorf("%s: chain input does %+v", m, v)
			}
		}
		for _, r := range k.rules {
			for _, e := range r.expressions {
				if l, ok := e.(*expr.Lookup); ok && (l.SetName == setArm || l.SetName == setEdition) {
					t.Errorf("%s: a rule reads set %s", m, l.SetName)
				}
			}
		}
	}
}

func TestEveryDifferenceIsTold(t *testing.T) {
	f := newFilter(t, firewall.MatchEther)
	for want, spoil := range map[string]func(k *skeleton){
		"flags 0x1":                  func(k *skeleton) { k.flags = 1 },
		"set lease is missing":       func(k *skeleton) { k.sets = k.sets[1:] },
		"set lease is of another":    func(k *skeleton) { k.sets[0].flags = 0 },
		"set arm is of another":      func(k *skeleton) { k.sets[1].life = 1 },
		"chain input is missing":     func(k *skeleton) { k.chains = k.chains[1:] },
		"chain input is hooked":      func(k *skeleton) { k.chains[0].priority++ },
		"4 chains and 12 sets":       func(k *skeleton) { k.sets = append(k.sets, set{name: "more"}) },
		"rule 2 of chain input":      func(k *skeleton) { k.rules[1].expressions = nil },
		"rule 1 of chain gate":       func(k *skeleton) { k.rules[5].expressions[1].(*expr.Lookup).Invert = false },
		"chain offer has 5 rules":    func(k *skeleton) { k.rules = k.rules[:len(k.rules)-1] },
		"rule 1 of chain offer":      func(k *skeleton) { k.rulesOf(chainOffer)[0].expressions[3].(*expr.Dynset).Timeout++ },
		"chain gate has 10 rules":    func(k *skeleton) { k.add(chainGate, verdict(expr.VerdictAccept, "")) },
		"rule 3 of chain input is a": func(k *skeleton) { k.rules[2].expressions = append(k.rules[2].expressions, nil) },
	} {
		k := built(t, f)
		spoil(&k)
		if d := f.planned.differs(k); !strings.Contains(d, want) {
			t.Errorf("%q is told, want %q", d, want)
		}
	}
}

func TestAnExpressionThatWeNeverWriteIsNotOverlooked(t *testing.T) {
	e, err := parseExpression(slices.Concat(text(unix.NFTA_EXPR_NAME, "osf"), nested(unix.NFTA_EXPR_DATA)))
	if e != nil || err != nil {
		t.Errorf("parsed as %+v, %v", e, err)
	}
}

func TestElementsAreReadAsWritten(t *testing.T) {
	f := newFilter(t, firewall.MatchEther)
	keys, err := macKeys("deny", []string{"52:54:00:00:00:01", "52:54:00:00:00:02"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseElements(f.addElements(setDeny, 1500*time.Millisecond, keys...)[0])
	if err != nil || len(all) != 2 || all[1].life != 1500*time.Millisecond {
		t.Fatalf("read %+v, %v", all, err)
	}
	if got := macs(all); !slices.Equal(got, []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}) {
		t.Errorf("read %v", got)
	}
	many := f.addElements(setDeny, 0, make([][]byte, 2*chunk+1)...)
	if len(many) != 3 {
		t.Errorf("%d messages for %d elements", len(many), 2*chunk+1)
	}
}

func TestWhatTheListsRefuse(t *testing.T) {
	for _, bad := range []string{"", "52:54:00:00:00:0A", "52-54-00-00-00-0a", "52:54:00:00:00",
		"52:54:00:00:00:0a:0b:0c"} {
		if _, err := macKeys("allow", []string{bad}); err == nil || !strings.HasPrefix(err.Error(), "list allow") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, port := range [][]element{{{key: portKey(67)}}, {{key: portKey(67)}, {key: portKey(547)}, {key: portKey(69)}}} {
		if _, err := passes(port); !errors.Is(err, firewall.ErrForeign) {
			t.Errorf("ports %v: %v", port, err)
		}
	}
}

// TestALeaseAlwaysEnds: a timeout of zero would be for ever.
func TestALeaseAlwaysEnds(t *testing.T) {
	l := newFilter(t, firewall.MatchEther).Lease()
	for _, d := range []time.Duration{-time.Second, 0, time.Millisecond - 1, maxLife + 1} {
		for name, verb := range map[string]func(context.Context, time.Duration) error{"Arm": l.Arm, "Open": l.Open,
			"Hold": l.Hold} {
			if err := verb(t.Context(), d); err == nil || !strings.Contains(err.Error(), "must last") {
				t.Errorf("%s for %v: %v", name, d, err)
			}
		}
	}
	if l.socket.conn != nil {
		t.Error("the kernel was asked")
	}
}

// answering returns a socket to a kernel that answers a transaction so.
func answering(answer func(sent []netlink.Message) ([]netlink.Message, error)) *socket {
	return &socket{ports: new(ports), conn: nltest.Dial(answer)}
}

func TestAnAnswerToSomethingElseIsAFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(sent []netlink.Message) ([]netlink.Message, error)
		want   string
	}{
		"to an older transaction": {func(sent []netlink.Message) ([]netlink.Message, error) {
			stale := netlink.Message{
				Header: netlink.Header{Type: netlink.Error, Sequence: sent[0].Header.Sequence - 1, PID: nltest.PID},
				Data:   make([]byte, 20)}
			return []netlink.Message{stale}, nil
		}, "outcome unknown"},
		"no permission": {func(sent []netlink.Message) ([]netlink.Message, error) {
			return nltest.Error(int(unix.EPERM), sent[:1])
		}, "CAP_NET_ADMIN"},
		"too long": {func([]netlink.Message) ([]netlink.Message, error) { return nil, unix.EMSGSIZE }, "wmem_max"},
		"stale": {func(sent []netlink.Message) ([]netlink.Message, error) {
			return nltest.Error(int(unix.ERESTART), sent[:1])
		}, errStale.Error()},
	} {
		s := answering(tt.answer)
		err := s.commit(t.Context(), 7, pxeTable.remove())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if s.conn != nil {
			t.Errorf("%s: the socket is used again", name)
		}
	}
}

func TestATransactionAsksForOneAnswer(t *testing.T) {
	var sent []netlink.Message
	s := answering(func(m []netlink.Message) ([]netlink.Message, error) {
		sent = m
		last := m[len(m)-2]
		return []netlink.Message{
			{Header: netlink.Header{Type: netlink.Error, Sequence: last.Header.Sequence, PID: nltest.PID},
				Data: make([]byte, 20)}}, nil
	})
	if err := s.commit(t.Context(), 7, pxeTable.add(), pxeTable.add(), pxeTable.remove()); err != nil {
		t.Fatal(err)
	}
	var asked int
	for _, m := range sent {
		if m.Header.Flags&netlink.Acknowledge != 0 {
			asked++
		}
	}
	if asked != 1 || len(sent) != 5 {
		t.Errorf("%d of %d messages ask for an answer", asked, len(sent))
	}
	if begin := sent[0].Data; binary.BigEndian.Uint32(begin[len(begin)-4:]) != 7 {
		t.Errorf("the transaction begins with %v, want generation 7 in it", begin)
	}
}

// notice is a notification from a socket.
func notice(m netlink.Message, port uint32) netlink.Message {
	m.Header.PID = port
	return m
}

func TestWatchTellsAtTheEndOfATransaction(t *testing.T) {
	const own, stranger = 11, 22
	f := newFilter(t, firewall.MatchEther)
	f.ports.add(own)
	end := pxeTable.message(unix.NFT_MSG_NEWGEN, 0, attributeUint32(unix.NFTA_GEN_ID, 5),
		attributeUint32(unix.NFTA_GEN_PROC_PID, 4711), text(unix.NFTA_GEN_PROC_NAME, "nft"))
	other := f.addElements(setDeny, 0, make([]byte, 6))[0]
	other.Data[0] = unix.NFPROTO_IPV4
	for name, tt := range map[string]struct {
		part netlink.Message
		told bool
	}{
		"another program's element": {notice(f.addElements(setDeny, 0, make([]byte, 6))[0], stranger), true},
		"our element":               {notice(f.addElements(setDeny, 0, make([]byte, 6))[0], own), false},
		"our table again":           {notice(pxeTable.add(), own), true},
		"another table":             {notice(table{unix.NFPROTO_INET, "neighbour"}.add(), stranger), false},
		"our name in another ip":    {notice(other, stranger), false},
	} {
		var said strings.Builder
		w := &Watch{filter: f, log: slog.New(slog.NewTextHandler(&said, nil)), changed: make(chan struct{}, 1)}
		if err := w.handleNotification(tt.part); err != nil || len(w.changed) != 0 {
			t.Errorf("%s: told %d times before the end, %v", name, len(w.changed), err)
		}
		for range 2 { // the second transaction has nothing of ours
			if err := w.handleNotification(notice(end, tt.part.Header.PID)); err != nil {
				t.Error(err)
			}
		}
		if told := len(w.changed) == 1; told != tt.told {
			t.Errorf("%s: told is %v", name, told)
		}
		if named := strings.Contains(
			said.String(), "process=nft pid=4711"); named != (tt.told && tt.part.Header.PID == stranger) {
			t.Errorf("%s: logged %q", name, said.String())
		}
	}
}
