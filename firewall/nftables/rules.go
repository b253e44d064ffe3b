package nftables

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
)

// The sets of our table, see the package's comment.
const (
	setLease   = "lease"
	setArm     = "arm"
	setAllow   = "allow"
	setDeny    = "deny"
	setPass    = "pass"
	setEdition = "edition"
)

const (
	chainInput = "input"
	chainGate  = "gate"
	// priority is before that of host firewalls (0): a drop here is final, an
	// accept here leaves the packet to them.
	priority = -10
)

// skeleton is what of a table does not change once it is built.
type skeleton struct {
	flags  uint32 // of the table: dormant, owned
	sets   []set
	chains []chain
	rules  []rule // in the order of the chain
}

type set struct {
	name      string
	flags     uint32
	keyType   uint32
	keyLength uint32
	// size is how many elements fit; zero leaves it open. Only for a set that
	// says so the kernel keeps a table of fixed size. Others it rearranges behind
	// our back as they grow, and lists some elements twice meanwhile and some
	// not at all.
	size uint32
	life uint64 // of an element that brings no timeout of its own, in ms
}

// chain is a chain; only one with a kind is hooked into the kernel.
type chain struct {
	name     string
	kind     string
	hook     uint32
	priority int32
	policy   uint32
}

type rule struct {
	chain       string
	expressions []expr.Any
}

// plan returns what our table has to look like. Without lists, everything that
// comes through the lease passes.
func plan(l firewall.Layout, lists bool) skeleton {
	k := skeleton{
		sets: []set{
			newSet(setLease, nftables.TypeInetService, unix.NFT_SET_TIMEOUT, 0),
			newSet(setArm, nftables.TypeInetService, unix.NFT_SET_TIMEOUT, 0),
		},
		chains: []chain{
			{name: chainInput, kind: "filter", hook: unix.NF_INET_LOCAL_IN, priority: priority,
				policy: uint32(nftables.ChainPolicyAccept)},
			{name: chainGate},
		},
	}
	for _, port := range firewall.Gated() {
		k.add(chainInput, from(l.Interface), udp(), load(portField), is(portKey(port)), verdict(expr.VerdictJump, chainGate))
	}
	k.addHeadless(l.Interface)
	k.add(chainGate, load(portField), lookup(setLease, false), verdict(expr.VerdictDrop, ""))
	k.add(chainGate, overFamily(unix.NFPROTO_IPV6), fragment(), verdict(expr.VerdictDrop, ""))
	k.addRelays(l.Match)
	if lists {
		k.addLists(l.Match)
	}
	k.addOffers(l.Interface)
	return k
}

// addHeadless drops what ends before its port. The kernel puts fragments of IPv4
// together before this hook, but those of IPv6 behind it, unless connection
// tracking does so earlier: the rules see them one by one.
//
// What the lists and the relay rule look for may be in a later fragment than the
// port. No DHCPv6 client sends a message in fragments, so the gate drops those to
// a gated port before it asks anything else. A first fragment that ends before
// its port, behind extension headers, may be on its way to any port, and is
// dropped here. (Newer kernels drop such fragments themselves.) Other fragments
// pass: without a first one they come to nothing.
func (k *skeleton) addHeadless(iface string) {
	// 7 is the greatest value of a first fragment: the offset is in the upper 13 bits.
	first := slices.Concat(from(iface), overFamily(unix.NFPROTO_IPV6), fragment(), atMost([]byte{0, 7}))
	k.add(chainInput, first, load(portField), verdict(expr.VerdictReturn, ""))
	k.add(chainInput, first, verdict(expr.VerdictDrop, ""))
}

// addRelays drops what relays pass on and no list could tell apart: the frame is
// the relay's, which no list knows, so that the pass rule would let in every
// machine behind it. No server answers a message that is too short to hold the
// field.
func (k *skeleton) addRelays(m firewall.Match) {
	if m != firewall.MatchChaddr {
		k.add(chainGate, overFamily(unix.NFPROTO_IPV4), load(relayAgent), not(make([]byte, 4)), verdict(expr.VerdictDrop, ""))
	}
	k.add(chainGate, overFamily(unix.NFPROTO_IPV6), load(messageType), is([]byte{relayForward}),
		verdict(expr.VerdictDrop, ""))
}

// addLists adds what lies below the lease. It compares a request's two addresses with
// the lists: the frame's source, and over IPv4 the client's address inside. The layout
// names the one that a machine is permitted by; either one denies, unless it is permitted
// itself, since a machine under introspection is on both lists. docs/pxe.md has the
// truth table.
//
// With MatchEther the client's address is asked first: a machine that renews
// through a router comes in the router's frame and names no relay. With
// MatchChaddr the frame of a relay says nothing, so that only one that no relay
// sent, whose giaddr is zero, denies.
func (k *skeleton) addLists(m firewall.Match) {
	k.sets = append(k.sets,
		newSet(setAllow, nftables.TypeEtherAddr, 0, maxMACs),
		newSet(setDeny, nftables.TypeEtherAddr, 0, maxMACs),
		newSet(setPass, nftables.TypeInetService, 0, 0),
		newSet(setEdition, nftables.TypeMark, 0, 0),
	)
	ethernet := meta(expr.MetaKeyIIFTYPE, binaryutil.NativeEndian.PutUint16(unix.ARPHRD_ETHER))
	frame := slices.Concat(ethernet, load(frameSource))
	client := slices.Concat(overFamily(unix.NFPROTO_IPV4), load(clientHardware))
	six := slices.Concat(overFamily(unix.NFPROTO_IPV6), frame)
	direct := slices.Concat(overFamily(unix.NFPROTO_IPV4), load(relayAgent), is(make([]byte, 4)))
	permit := func(address []expr.Any) {
		k.add(chainGate, address, lookup(setAllow, true), verdict(expr.VerdictAccept, ""))
	}
	deny := func(address []expr.Any) {
		k.add(chainGate, address, lookup(setAllow, false), lookup(setDeny, true), verdict(expr.VerdictDrop, ""))
	}
	if m == firewall.MatchChaddr {
		deny(slices.Concat(direct, frame))
		permit(client)
		deny(client)
		permit(six)
		deny(six)
	} else {
		deny(client)
		permit(frame)
		deny(frame)
	}
	k.add(chainGate, load(portField), lookup(setPass, true), verdict(expr.VerdictAccept, ""))
	k.add(chainGate, verdict(expr.VerdictDrop, ""))
}

func (k *skeleton) add(chain string, parts ...[]expr.Any) {
	k.rules = append(k.rules, rule{chain, slices.Concat(parts...)})
}

func newSet(name string, t nftables.SetDatatype, flags, size uint32) set {
	return set{name: name, flags: flags, keyType: t.GetNFTMagic(), keyLength: t.Bytes, size: size}
}

// field is a part of a packet.
type field struct {
	base           expr.PayloadBase
	offset, length uint32
}

// The fields that rules read.
var (
	portField   = field{expr.PayloadBaseTransportHeader, 2, 2} // the destination's
	frameSource = field{expr.PayloadBaseLLHeader, 6, 6}
	// relayAgent is giaddr and clientHardware chaddr, so many bytes into BOOTP,
	// behind 8 bytes of UDP (RFC 2131 section 2).
	relayAgent     = field{expr.PayloadBaseTransportHeader, 8 + 24, 4}
	clientHardware = field{expr.PayloadBaseTransportHeader, 8 + 28, 6}
	messageType    = field{expr.PayloadBaseTransportHeader, 8, 1} // of DHCPv6 (RFC 8415 section 8)
)

// relayForward is what a DHCPv6 relay sends to a server (RFC 8415 section 7.3).
const relayForward = 12

const register = unix.NFT_REG_1

func load(f field) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: register, Base: f.base, Offset: f.offset, Len: f.length}}
}

// fragment loads, from an IPv6 fragment header, the two bytes that hold the
// fragment's offset and flags (RFC 8200 section 4.5); a packet that has no such
// header ends the rule. The flag that asks for the header's presence alone is
// not used: older kernels lack it.
func fragment() []expr.Any {
	return []expr.Any{&expr.Exthdr{DestRegister: register, Type: unix.IPPROTO_FRAGMENT, Offset: 2, Len: 2,
		Op: expr.ExthdrOpIpv6}}
}

func meta(key expr.MetaKey, value []byte) []expr.Any {
	return append([]expr.Any{&expr.Meta{Key: key, Register: register}}, is(value)...)
}

// is and not compare what was loaded.
func is(value []byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value}}
}

func not(value []byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: value}}
}

func atMost(value []byte) []expr.Any {
	return []expr.Any{&expr.Cmp{Op: expr.CmpOpLte, Register: register, Data: value}}
}

// from matches the interface by all 16 bytes of its name: fewer would match
// every name that begins with them.
func from(name string) []expr.Any { return meta(expr.MetaKeyIIFNAME, padded(name)) }

func padded(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func udp() []expr.Any { return meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_UDP}) }

func overFamily(protocol byte) []expr.Any { return meta(expr.MetaKeyNFPROTO, []byte{protocol}) }

func lookup(name string, in bool) []expr.Any {
	return []expr.Any{&expr.Lookup{SourceRegister: register, SetName: name, Invert: !in}}
}

func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// differs says in a few words what is not as planned, "" if nothing is.
func (k skeleton) differs(found skeleton) string {
	if found.flags != k.flags {
		return fmt.Sprintf("the table has flags %#x", found.flags)
	}
	for _, want := range k.sets {
		i := slices.IndexFunc(found.sets, func(s set) bool { return s.name == want.name })
		switch {
		case i < 0:
			return "set " + want.name + " is missing"
		case found.sets[i] != want:
			return "set " + want.name + " is of another type"
		}
	}
	for _, want := range k.chains {
		i := slices.IndexFunc(found.chains, func(c chain) bool { return c.name == want.name })
		switch {
		case i < 0:
			return "chain " + want.name + " is missing"
		case found.chains[i] != want:
			return "chain " + want.name + " is hooked elsewhere"
		}
		planned, there := k.rulesOf(want.name), found.rulesOf(want.name)
		for n := range min(len(planned), len(there)) {
			if !reflect.DeepEqual(planned[n], there[n]) {
				return fmt.Sprintf("rule %d of chain %s is another", n+1, want.name)
			}
		}
		if len(planned) != len(there) {
			return fmt.Sprintf("chain %s has %d rules instead of %d", want.name, len(there), len(planned))
		}
	}
	if len(found.chains)+len(found.sets) != len(k.chains)+len(k.sets) {
		return fmt.Sprintf("there are %d chains and %d sets instead of %d and %d",
			len(found.chains), len(found.sets), len(k.chains), len(k.sets))
	}
	return ""
}

// rulesOf returns the rules of a chain.
func (k skeleton) rulesOf(chain string) []rule {
	return slices.DeleteFunc(slices.Clone(k.rules), func(r rule) bool { return r.chain != chain })
}
