package nftables

import (
	"context"
	"errors"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// setHeld has the address while this host holds it, or did when its process died; only
// then the lease is asked.
const setHeld = "held"

// AddressTable is the name of the tables that gate the floating IP: of family inet, and
// for an IPv4 address of family arp as well.
const AddressTable = "trivet_address"

// The fields that hold the sender's address.
var (
	source4   = field{expr.PayloadBaseNetworkHeader, 12, 4}
	source6   = field{expr.PayloadBaseNetworkHeader, 8, 16}
	sourceARP = field{expr.PayloadBaseNetworkHeader, 14, 4} // behind MACs of six bytes (RFC 826)
)

// Address lets the floating IP out of this host while a lease of it is in force. The
// kernel counts the life of an address in seconds and looks at it once a second at most;
// an element of a set ends on the millisecond, and can be swapped
// (docs/design.md#address). What is gated is all that has the address for its sender:
// answers to ARP and neighbour solicitations, which name it, and packets of every kind.
// From Arm to Release, that is: before and behind these the tables change nothing.
type Address struct{ filters []*Filter }

// NewAddress returns the gate of an address. It changes nothing yet.
func NewAddress(ip netip.Addr) *Address {
	if ip.Is6() {
		six := sending{unix.NF_INET_POST_ROUTING, behindNAT, nftables.TypeIP6Addr,
			append(overFamily(unix.NFPROTO_IPV6), load(source6)...)}
		return &Address{[]*Filter{addressFilter(unix.NFPROTO_INET, ip, discard6, six)}}
	}
	four := sending{unix.NF_INET_POST_ROUTING, behindNAT, nftables.TypeIPAddr,
		append(overFamily(unix.NFPROTO_IPV4), load(source4)...)}
	arp := sending{hookARPOut, priority, nftables.TypeIPAddr, load(sourceARP)}
	return &Address{[]*Filter{
		addressFilter(unix.NFPROTO_INET, ip, reserved4, four), addressFilter(unix.NFPROTO_ARP, ip, reserved4, arp),
	}}
}

// No host sends from these (RFC 1112 section 4, RFC 6666).
var (
	reserved4 = netip.MustParseAddr("240.0.0.0")
	discard6  = netip.MustParseAddr("100::")
)

// hookARPOut is the kernel's NF_ARP_OUT (linux/netfilter_arp.h).
const hookARPOut = 1

// sending is where and how the rules of a family see who sends.
type sending struct {
	hook     uint32
	priority int32
	address  nftables.SetDatatype
	load     []expr.Any // of the sender's address
}

// behindNAT is a priority at which a packet has the source that it leaves with: also an
// answer of a container, which this host forwards and gives its own address
// (NF_IP_PRI_NAT_SRC is 100).
const behindNAT = 110

func addressFilter(family byte, ip, nowhere netip.Addr, s sending) *Filter {
	f := emptyFilter(table{family, AddressTable}, [][]byte{ip.AsSlice()})
	f.held, f.planned, f.probe = setHeld, s.plan(ip), s.plan(nowhere)
	return f
}

// plan is a table that drops what is sent from the address, while this host holds it,
// unless the lease has it.
func (s sending) plan(ip netip.Addr) skeleton {
	k := skeleton{
		sets: []set{
			newSet(setLease, s.address, unix.NFT_SET_TIMEOUT, 0), newSet(setArm, s.address, unix.NFT_SET_TIMEOUT, 0),
			newSet(setHeld, s.address, 0, 0),
		},
		chains: []chain{{name: chainOutput, kind: "filter", hook: s.hook, priority: s.priority,
			policy: uint32(nftables.ChainPolicyAccept)}},
	}
	k.add(chainOutput, s.load, is(ip.AsSlice()), lookup(setHeld, true), lookup(setLease, false),
		verdict(expr.VerdictDrop, ""))
	return k
}

// Build builds the tables that are missing or not ours, or says why the kernel cannot have
// them.
func (a *Address) Build(ctx context.Context) error {
	for _, f := range a.filters {
		if err := f.Supported(ctx); err != nil {
			return err
		}
		if err := f.Mend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Lease returns the lease of the address; Close ends its socket, not the lease.
func (a *Address) Lease() *Lease { return newLease(a.filters...) }

// Hide ends the lease where there are tables, and builds none.
func (a *Address) Hide(ctx context.Context) error {
	return a.each(ctx, func(f *Filter) netlink.Message { return f.flushSet(setLease) })
}

// Release ends what Arm began: the lease is not asked any more.
func (a *Address) Release(ctx context.Context) error {
	return a.each(ctx, func(f *Filter) netlink.Message { return f.flushSet(setHeld) })
}

// Remove deletes the tables, so that another program may carry the address on this host. A
// kernel without nf_tables has none.
func (a *Address) Remove(ctx context.Context) error {
	if none, err := a.lacksTables(ctx); none || err != nil {
		return err
	}
	return a.each(ctx, func(f *Filter) netlink.Message { return f.table.remove() })
}

// lacksTables reports whether the kernel has no nf_tables.
func (a *Address) lacksTables(ctx context.Context) (none bool, err error) {
	s := a.filters[0].socket()
	defer func() { err = errors.Join(err, s.close()) }()
	switch _, err = generation(ctx, s); {
	case errors.Is(err, unix.EPERM), ctx.Err() != nil:
		return false, err
	default:
		return err != nil, nil
	}
}

// each changes the tables that are there: mostly all of them, or none.
func (a *Address) each(ctx context.Context, change func(*Filter) netlink.Message) (err error) {
	s := a.filters[0].socket()
	defer func() { err = errors.Join(err, s.close()) }()
	var all []netlink.Message
	for _, f := range a.filters {
		all = append(all, change(f))
	}
	if err = s.commit(ctx, 0, all...); !errors.Is(err, unix.ENOENT) {
		return err
	}
	err = nil
	for _, f := range a.filters {
		if one := s.commit(ctx, 0, change(f)); !errors.Is(one, unix.ENOENT) {
			err = errors.Join(err, one)
		}
	}
	return err
}
