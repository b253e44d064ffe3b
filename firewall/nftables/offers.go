package nftables

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The sets and chains that withhold a second offer of an address.
const (
	setOffered  = "offered"
	setOffers   = "offers"
	chainOutput = "output"
	chainOffer  = "offer"
)

// offerLife is how long an address stays offered to one machine. The third time that
// UEFI asks it waits 16 s for offers, and takes one up then.
const offerLife = 20 * time.Second

// maxWithheld is how often a machine is withheld an address, and withheldLife how long
// that counts. PXE firmware asks four times, up to 16 s apart.
const (
	maxWithheld  = 3
	withheldLife = time.Minute
)

// maxOffers bounds what is remembered: a full set remembers no more, and offers pass.
const maxOffers = 1 << 16

// dhcpServer is the port from which a server answers.
const dhcpServer = 67

// secondRegister lies behind the four bytes of an IPv4 address in register.
const secondRegister = unix.NFT_REG32_01

// The fields of an answer over IPv4.
var (
	sourcePort  = field{expr.PayloadBaseTransportHeader, 0, 2}
	yourAddress = field{expr.PayloadBaseTransportHeader, 8 + 16, 4}  // yiaddr
	firstOption = field{expr.PayloadBaseTransportHeader, 8 + 236, 7} // behind the magic cookie
)

// addOffers drops the offer of an address that another machine was offered less than
// offerLife ago: of both, one would take it up and the other be refused
// (docs/design.md#offers). The machine that gets no offer asks again. If the other one
// has not taken the address up by the fourth time, as firmware without a boot file never
// does, the offer passes: it may be the last. dnsmasq writes the kind of a message as
// its first option; an offer that begins otherwise passes.
func (k *skeleton) addOffers(iface string) {
	lease, _ := nftables.ConcatSetType(nftables.TypeIPAddr, nftables.TypeEtherAddr) // fails from six types on
	k.sets = append(k.sets,
		newSet(setOffered, nftables.TypeIPAddr, unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL, maxOffers),
		newSet(setOffers, lease, unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL, maxOffers))
	k.chains = append(k.chains,
		chain{name: chainOutput, kind: "filter", hook: unix.NF_INET_LOCAL_OUT, priority: priority,
			policy: uint32(nftables.ChainPolicyAccept)},
		chain{name: chainOffer})
	k.add(chainOutput, to(iface), overFamily(unix.NFPROTO_IPV4), udp(), load(sourcePort), is(portKey(dhcpServer)),
		load(firstOption), is([]byte{0x63, 0x82, 0x53, 0x63, 53, 1, 2}), verdict(expr.VerdictJump, chainOffer))
	machine := []expr.Any{&expr.Payload{DestRegister: secondRegister, Base: clientHardware.base,
		Offset: clientHardware.offset, Len: clientHardware.length}}
	both := slices.Concat(load(yourAddress), machine)
	hold := slices.Concat(remember(setOffers, offerLife), remember(setOffered, offerLife))
	for _, name := range []string{setOffers, setWithheld(maxWithheld)} {
		k.add(chainOffer, both, lookup(name, true), hold, verdict(expr.VerdictAccept, ""))
	}
	for times := maxWithheld; times > 0; times-- {
		k.sets = append(k.sets, newSet(setWithheld(times), lease, unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL, maxOffers))
		var before []expr.Any
		if times > 1 {
			before = lookup(setWithheld(times-1), true)
		}
		k.add(chainOffer, load(yourAddress), lookup(setOffered, true), machine, before,
			remember(setWithheld(times), withheldLife), verdict(expr.VerdictDrop, ""))
	}
	k.add(chainOffer, both, hold)
}

// setWithheld has the machines that were withheld an address so many times.
func setWithheld(times int) string { return fmt.Sprintf("withheld%d", times) }

// remember puts what was loaded into a set for so long, from now on if it is
// there. A full set ends the rule, and the offer passes.
func remember(name string, life time.Duration) []expr.Any {
	return []expr.Any{&expr.Dynset{SrcRegKey: register, SetName: name, Operation: unix.NFT_DYNSET_OP_UPDATE,
		Timeout: life}}
}

// to matches the interface that a packet leaves by, as from does.
func to(name string) []expr.Any { return meta(expr.MetaKeyOIFNAME, padded(name)) }
