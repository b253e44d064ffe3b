package nftables

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// datagram is what rules see of one that came by Ethernet.
type datagram struct {
	protocol byte // of the network: unix.NFPROTO_IPV4 or NFPROTO_IPV6
	frame    []byte
	udp      []byte
	// fragment are offset and flags of an IPv6 fragment header; nil: there is none.
	fragment []byte
}

// load returns a field; not ok where the datagram ends before it.
func (d datagram) load(p *expr.Payload) (value []byte, ok bool) {
	from := d.udp
	if p.Base == expr.PayloadBaseLLHeader {
		from = d.frame
	} else if d.fragment != nil && binary.BigEndian.Uint16(d.fragment) > 7 {
		return nil, false // a later fragment has no transport header
	}
	if int(p.Offset+p.Len) > len(from) {
		return nil, false
	}
	return from[p.Offset : p.Offset+p.Len], true
}

// meta returns what rules may ask beside the datagram.
func (d datagram) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyNFPROTO:
		return []byte{d.protocol}
	case expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME:
		return append([]byte("br-pxe"), make([]byte, 10)...)
	case expr.MetaKeyL4PROTO:
		return []byte{unix.IPPROTO_UDP}
	case expr.MetaKeyIIFTYPE:
		return binaryutil.NativeEndian.PutUint16(unix.ARPHRD_ETHER)
	}
	return nil
}

// contents are the elements of each set; what a packet put there ends.
type contents map[string][]member

type member struct {
	key  []byte
	ends time.Time // zero: it does not
}

// find is the place of an element that has not ended, negative if there is none.
func (c contents) find(name string, key []byte) int {
	return slices.IndexFunc(c[name], func(m member) bool {
		return bytes.Equal(m.key, key) && (m.ends.IsZero() || time.Now().Before(m.ends)) // in a bubble
	})
}

// update lets an element last from now on.
func (c contents) update(name string, key []byte, life time.Duration) {
	i := c.find(name, key)
	if i < 0 {
		c[name] = append(c[name], member{key: key})
		i = len(c[name]) - 1
	}
	c[name][i].ends = time.Now().Add(life) // in a bubble
}

// decide does what the kernel does with a datagram that comes in: an expression
// that does not match, or loads what is not there, ends its rule. Without a
// verdict the datagram passes.
func (k skeleton) decide(t *testing.T, d datagram, sets contents) expr.VerdictKind {
	t.Helper()
	if kind, decided := k.decideIn(t, chainInput, d, sets); decided {
		return kind
	}
	return expr.VerdictAccept
}

// decideIn tells what the rules of one chain decide; not decided if the datagram
// goes on where it came from.
func (k skeleton) decideIn(t *testing.T, chain string, d datagram, sets contents) (kind expr.VerdictKind,
	decided bool) {
	t.Helper()
rules:
	for _, r := range k.rulesOf(chain) {
		var value []byte // in the registers, from the first one on
		for _, e := range r.expressions {
			matches := true
			switch e := e.(type) {
			case *expr.Payload:
				var loaded []byte
				if loaded, matches = d.load(e); e.DestRegister == secondRegister {
					value = slices.Concat(value[:4:4], loaded, []byte{0, 0})
				} else {
					value = loaded
				}
			case *expr.Exthdr:
				value, matches = d.fragment, d.fragment != nil
			case *expr.Meta:
				value = d.meta(e.Key)
			case *expr.Cmp:
				matches = holds(t, e, value)
			case *expr.Lookup:
				matches = sets.find(e.SetName, k.key(e.SetName, value)) >= 0 != e.Invert
			case *expr.Dynset:
				sets.update(e.SetName, k.key(e.SetName, value), e.Timeout)
			case *expr.Verdict:
				switch e.Kind {
				case expr.VerdictJump:
					if kind, decided := k.decideIn(t, e.Chain, d, sets); decided {
						return kind, true
					}
					continue rules
				case expr.VerdictReturn:
					return 0, false
				}
				return e.Kind, true
			default:
				t.Fatalf("a rule has a %T", e)
			}
			if !matches {
				continue rules
			}
		}
	}
	return 0, false
}

// key is what registers that begin with value hold for a set.
func (k skeleton) key(name string, value []byte) []byte {
	i := slices.IndexFunc(k.sets, func(s set) bool { return s.name == name })
	return value[:k.sets[i].keyLength]
}

// holds compares as the kernel does, byte by byte.
func holds(t *testing.T, e *expr.Cmp, value []byte) bool {
	t.Helper()
	order := bytes.Compare(value, e.Data)
	switch e.Op {
	case expr.CmpOpEq:
		return order == 0
	case expr.CmpOpNeq:
		return order != 0
	case expr.CmpOpLte:
		return order <= 0
	}
	t.Fatalf("a rule compares by %v", e.Op)
	return false
}

// The last bytes of machines' addresses; see members.
const (
	mayBoot  = 1
	mayNot   = 2
	isBoth   = 3 // known, and under introspection
	anybody  = 4
	aRouter  = 9
	dhcpPort = 67
)

// members are the sets while a leader lets in what it does not know.
func members() contents {
	return contents{
		setLease: keys(gatedPorts()...), setPass: keys(gatedPorts()...),
		setAllow: keys([]byte{5: mayBoot}, []byte{5: isBoth}),
		setDeny:  keys([]byte{5: mayNot}, []byte{5: isBoth}),
	}
}

// keys are elements that do not end.
func keys(all ...[]byte) (out []member) {
	for _, key := range all {
		out = append(out, member{key: key})
	}
	return out
}

// bootp is a request about a machine, in the frame of another or its own.
func bootp(frame, client byte, agent ...byte) datagram {
	d := datagram{protocol: unix.NFPROTO_IPV4, frame: []byte{11: frame, 13: 0}, udp: []byte{3: dhcpPort, 8 + 35: 0}}
	copy(d.udp[8+24:], agent)
	d.udp[8+33] = client
	return d
}

// dhcp6 is a message of DHCPv6.
func dhcp6(frame, kind byte) datagram {
	return datagram{protocol: unix.NFPROTO_IPV6, frame: []byte{11: frame, 13: 0},
		udp: []byte{2: 547 >> 8, 3: 547 & 0xff, 8: kind, 11: 0}}
}

// TestWhoIsBehindARouter tries the rules on requests that do not come in the
// frame of the machine that they are about.
func TestWhoIsBehindARouter(t *testing.T) {
	agent := []byte{198, 51, 100, 7}
	const accept, drop = expr.VerdictAccept, expr.VerdictDrop
	for name, c := range map[string]struct {
		d                   datagram
		ether, chaddr, bare expr.VerdictKind // bare: a table without lists
	}{
		"may boot":               {bootp(mayBoot, mayBoot), accept, accept, accept},
		"may not":                {bootp(mayNot, mayNot), drop, drop, accept},
		"any machine":            {bootp(anybody, anybody), accept, accept, accept},
		"relayed, may boot":      {bootp(aRouter, mayBoot, agent...), drop, accept, drop},
		"relayed, may not":       {bootp(aRouter, mayNot, agent...), drop, drop, drop},
		"relayed, any machine":   {bootp(aRouter, anybody, agent...), drop, accept, drop},
		"a relay that may boot":  {bootp(mayBoot, anybody, agent...), drop, accept, drop},
		"an agent of one bit":    {bootp(aRouter, anybody, 0, 0, 0, 1), drop, accept, drop},
		"renews, may boot":       {bootp(aRouter, mayBoot), accept, accept, accept},
		"renews, may not":        {bootp(aRouter, mayNot), drop, drop, accept},
		"renews, any machine":    {bootp(aRouter, anybody), accept, accept, accept},
		"over IPv6, may boot":    {dhcp6(mayBoot, 1), accept, accept, accept},
		"over IPv6, may not":     {dhcp6(mayNot, 1), drop, drop, accept},
		"over IPv6, any machine": {dhcp6(anybody, 1), accept, accept, accept},
		"relayed over IPv6":      {dhcp6(aRouter, 12), drop, drop, drop},
		"a relay there that may": {dhcp6(mayBoot, 12), drop, drop, drop},
		"too short for a BOOTP": {
			datagram{protocol: unix.NFPROTO_IPV4, frame: []byte{11: mayNot, 13: 0}, udp: []byte{3: dhcpPort, 7: 0}}, drop,
			accept, accept},
		"what relays are answered": {dhcp6(anybody, 13), accept, accept, accept},
		"a relay's type over IPv4": {
			datagram{protocol: unix.NFPROTO_IPV4, frame: bootp(anybody, 0).frame,
				udp: append([]byte{3: dhcpPort}, dhcp6(anybody, 12).udp[4:]...)}, accept, accept, accept},
		"an agent's place, in IPv6": {
			datagram{protocol: unix.NFPROTO_IPV6, frame: bootp(anybody, 0).frame, udp: bootp(anybody, anybody, agent...).udp},
			accept, accept, accept},
	} {
		ether, chaddr := newFilter(t, firewall.MatchEther), newFilter(t, firewall.MatchChaddr)
		for of, want := range map[*Filter]expr.VerdictKind{ether: c.ether, chaddr: c.chaddr, bareFilter(t): c.bare} {
			if got := of.planned.decide(t, c.d, members()); got != want {
				t.Errorf("relays: %s: by %s, with lists %v: verdict %d, want %d", name, of.layout.Match, of.lists, got, want)
			}
			if got := of.planned.decide(t, c.d, nil); got != drop {
				t.Errorf("relays: %s: by %s, with lists %v: verdict %d without a lease", name, of.layout.Match, of.lists, got)
			}
		}
	}
}

// TestFragmentsOfIPv6 cuts requests so that no rule sees all that it looks for.
// Whatever fragments the kernel puts together behind the rules must lack one.
func TestFragmentsOfIPv6(t *testing.T) {
	const accept, drop = expr.VerdictAccept, expr.VerdictDrop
	cut := func(d datagram, offset, length int, more uint16) datagram {
		d.fragment = binary.BigEndian.AppendUint16(nil, uint16(offset)|more)
		d.udp = d.udp[offset : offset+length]
		return d
	}
	other := dhcp6(anybody, 1)
	copy(other.udp[2:], portKey(69))
	for name, c := range map[string]struct {
		d    datagram
		want expr.VerdictKind
	}{
		"whole":                             {dhcp6(mayBoot, 1), accept},
		"a relay's, the type in the second": {cut(dhcp6(aRouter, relayForward), 0, 8, 1), drop},
		"a relay's, in one fragment":        {cut(dhcp6(aRouter, relayForward), 0, 12, 0), drop},
		"of one that may boot":              {cut(dhcp6(mayBoot, 1), 0, 8, 1), drop},
		"of one that may not":               {cut(dhcp6(mayNot, 1), 0, 8, 1), drop},
		"with reserved bits":                {cut(dhcp6(anybody, 1), 0, 8, 7), drop},
		"to the boot server": {
			cut(datagram{protocol: unix.NFPROTO_IPV6, frame: other.frame, udp: []byte{2: 4011 >> 8, 3: 4011 & 0xff, 11: 0}}, 0,
				8, 1), drop},
		"to another port":                    {cut(other, 0, 8, 1), accept},
		"the second":                         {cut(dhcp6(anybody, 1), 8, 4, 0), accept},
		"headers that leave no port":         {cut(dhcp6(anybody, 1), 0, 0, 1), drop},
		"headers that leave half a port":     {cut(dhcp6(anybody, 1), 0, 3, 1), drop},
		"headers that leave no port, to 69":  {cut(other, 0, 0, 1), drop},
		"IPv4, whose fragments are complete": {bootp(mayBoot, mayBoot), accept},
	} {
		for _, of := range []*Filter{newFilter(t, firewall.MatchEther), newFilter(t, firewall.MatchChaddr), bareFilter(t)} {
			if got := of.planned.decide(t, c.d, members()); got != c.want {
				t.Errorf("fragments: %s: by %s, with lists %v: verdict %d, want %d", name, of.layout.Match, of.lists, got, c.want)
			}
		}
	}
}

// bareFilter has no lists.
func bareFilter(t *testing.T) *Filter {
	t.Helper()
	return newFilter(t, firewall.MatchEther, LeaseOnly())
}
