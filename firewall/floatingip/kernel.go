package floatingip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// kernelLimit bounds the wait for one answer of the kernel. No timeout covers
// its work, which it does while the request is handed over, and which waits for
// other programs that change the host's network.
const kernelLimit = time.Second

// maxDumps bounds how often a list is asked for that changed while it was read.
const maxDumps = 5

// kernel is a conversation with the kernel about addresses.
type kernel struct{ *netlink.Handle }

// withKernel has one conversation, in the network namespace of the calling thread,
// unless ctx has ended.
func withKernel(ctx context.Context, talk func(*kernel) error) error {
	if err := ended(ctx); err != nil {
		return err
	}
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer h.Close()
	if err := h.SetSocketTimeout(kernelLimit); err != nil {
		return fmt.Errorf("bound the wait for netlink: %w", err)
	}
	return talk(&kernel{h})
}

// withStation has one about the interface that is to carry the address.
func (a *Address) withStation(ctx context.Context, talk func(*kernel, station) error) error {
	return withKernel(ctx, func(k *kernel) error {
		at, err := k.station(a.iface)
		if err != nil {
			return err
		}
		return talk(k, at)
	})
}

// ended reports why ctx is over. It looks at the clock too: in a process that
// was stopped, the timers that end contexts are late.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, bounded := ctx.Deadline(); bounded && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// station is where the host meets its neighbours.
type station struct {
	index int
	mac   mac
}

// station finds an interface that can carry the address and speak of it.
func (k *kernel) station(name string) (station, error) {
	link, err := k.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return station{}, fmt.Errorf("floating_ip.interface: this host has no interface %q; create it, or correct the name",
			name)
	}
	if err != nil {
		return station{}, fmt.Errorf("look for interface %s: %w", name, err)
	}
	at := link.Attrs()
	switch {
	case len(at.HardwareAddr) != len(mac{}), at.Flags&net.FlagLoopback != 0:
		return station{}, fmt.Errorf("floating_ip.interface: %s is no Ethernet interface; name one that faces the clients",
			name)
	case at.Flags&net.FlagUp == 0:
		return station{}, fmt.Errorf("floating_ip.interface: %s is down; set it up", name)
	}
	if err := k.hears(link); err != nil {
		return station{}, err
	}
	return station{index: at.Index, mac: mac(at.HardwareAddr)}, nil
}

// hears fails for an interface on which no claim of another host is heard.
func (k *kernel) hears(link netlink.Link) error {
	at := link.Attrs()
	if at.MasterIndex == 0 {
		return nil
	}
	master, err := k.LinkByIndex(at.MasterIndex)
	if err != nil {
		return fmt.Errorf("look for the master of interface %s: %w", at.Name, err)
	}
	return isPort(at.Name, master)
}

// isPort is an error for a port of a bridge, or of what works like one: its master takes the frames. An interface in
// a VRF has its own.
func isPort(name string, master netlink.Link) error {
	write := master.Attrs().Name
	switch master.Type() {
	case "openvswitch":
		write = "the internal port of its bridge"
	case "bridge", "bond", "team":
	default:
		return nil
	}
	return fmt.Errorf("floating_ip.interface: %s is a port of %s (%s), which takes its frames; write %s", name,
		master.Attrs().Name, master.Type(), write)
}

// entries lists where and how this host has ip.
func (k *kernel) entries(ip netip.Addr) ([]netlink.Addr, error) {
	all, err := k.addresses(ip.Is6())
	return slices.DeleteFunc(all, func(e netlink.Addr) bool { return !isOf(e, ip) }), err
}

// isOf reports whether an entry gives this host ip.
func isOf(e netlink.Addr, ip netip.Addr) bool {
	if e.IPNet == nil {
		return false
	}
	has, ok := netip.AddrFromSlice(e.IP)
	return ok && has.Unmap() == ip
}

// addresses lists all of this host of one version, in the order in which its programs find them.
func (k *kernel) addresses(six bool) ([]netlink.Addr, error) {
	family := netlink.FAMILY_V4
	if six {
		family = netlink.FAMILY_V6
	}
	all, err := k.AddrList(nil, family)
	for again := 1; errors.Is(err, netlink.ErrDumpInterrupted) && again < maxDumps; again++ {
		all, err = k.AddrList(nil, family)
	}
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this host: %w", err)
	}
	return all, nil
}

// name names an interface for a person.
func (k *kernel) name(index int) string {
	link, err := k.LinkByIndex(index)
	if err != nil {
		return "interface " + strconv.Itoa(index) // it went; its number is what is left to say
	}
	return link.Attrs().Name
}

// stations lists the MACs of this host.
func (k *kernel) stations() (map[mac]bool, error) {
	links, err := k.LinkList()
	for again := 1; errors.Is(err, netlink.ErrDumpInterrupted) && again < maxDumps; again++ {
		links, err = k.LinkList()
	}
	if err != nil {
		return nil, fmt.Errorf("list the interfaces of this host: %w", err)
	}
	own := make(map[mac]bool, len(links))
	for _, link := range links {
		if address := link.Attrs().HardwareAddr; len(address) == len(mac{}) {
			own[mac(address)] = true
		}
	}
	return own, nil
}
