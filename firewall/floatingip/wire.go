package floatingip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// Bounds of a probe: how often it asks, so that one lost frame is not taken for
// silence, and how long it may take.
const (
	probes  = 3
	maxWait = 10 * time.Second
)

// lastLook is for an answer that came while this process was not running: at
// the end of a wait the clock may be seen first, and the answer behind it.
const lastLook = 5 * time.Millisecond

// Announce announces to the neighbours that this host has the address, in every
// form that they may heed. A host that does not have it announces nothing: the
// error is ErrNotHeld; nor does it when ctx has ended or its deadline has passed. It takes 5
// to 25 ms, most of it to close the socket.
func (a *Address) Announce(ctx context.Context) error {
	return a.withStation(ctx, func(k *kernel, at station) error {
		found, err := k.entries(a.ip)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("announce %s: %w", a.ip, ErrNotHeld)
		}
		w, err := openSocket(at.index, a.ip)
		if err != nil {
			return fmt.Errorf("announce %s on %s: %w", a.ip, a.iface, err)
		}
		defer w.Close()
		for _, frame := range announcements(a.ip, at.mac) {
			err := ended(ctx) // what the socket sends, nothing gates
			if err == nil {
				err = w.Send(frame)
			}
			if err != nil {
				return fmt.Errorf("announce %s on %s: %w", a.ip, a.iface, err)
			}
		}
		return nil
	})
}

// Conflict asks the neighbours for the address, three times within wait, at
// most ten seconds, and returns the MAC of the first that is not of this host
// and claims it, or "" if no host did. The question leaves no trace with the
// neighbours. If ctx ends before, the silence proves nothing, and Conflict returns
// the error of ctx.
func (a *Address) Conflict(ctx context.Context, wait time.Duration) (holder string, err error) {
	if wait <= 0 || wait > maxWait {
		return "", fmt.Errorf("probe for %s: a wait of %v is not within %v", a.ip, wait, maxWait)
	}
	err = a.withStation(ctx, func(k *kernel, at station) error {
		w, err := openSocket(at.index, a.ip)
		if err != nil {
			return fmt.Errorf("probe for %s on %s: %w", a.ip, a.iface, err)
		}
		defer w.Close()
		own, err := k.stations()
		if err != nil {
			return err
		}
		s := search{ip: a.ip, own: own, socket: w}
		if holder, err = s.ask(ctx, probe(a.ip, at.mac), wait); err != nil {
			return fmt.Errorf("probe for %s on %s: %w", a.ip, a.iface, err)
		}
		return nil
	})
	return holder, err
}

// search looks for another host that has the address. A host with two interfaces
// on one link answers itself: its own MACs do not count.
type search struct {
	ip     netip.Addr
	own    map[mac]bool
	socket rawsocket.Socket
}

// ask sends the question and listens, as often as probes says.
func (s search) ask(ctx context.Context, question []byte, wait time.Duration) (string, error) {
	for range probes {
		if err := s.socket.Send(question); err != nil {
			return "", err
		}
		if holder, err := s.listen(ctx, wait/probes); holder != "" || err != nil {
			return holder, err
		}
	}
	return s.listen(ctx, lastLook)
}

// listen waits for a claim, for as long as wait; "" says that there was none.
func (s search) listen(ctx context.Context, wait time.Duration) (holder string, err error) {
	err = s.socket.Listen(ctx, wait, func(frame []byte) bool {
		if who, ok := claimant(s.ip, frame); ok && !s.own[who] {
			holder = net.HardwareAddr(who[:]).String()
		}
		return holder != ""
	})
	if err == nil {
		err = ended(ctx)
	}
	if err != nil {
		return "", err
	}
	return holder, nil
}

// openSocket opens a socket that hears the claims of one address. In a VLAN on the same cable another host may have it.
func openSocket(index int, ip netip.Addr) (rawsocket.Socket, error) {
	program, err := claims(ip)
	if err == nil {
		program, err = rawsocket.SameNetwork(index, program)
	}
	if err != nil {
		return rawsocket.Socket{}, fmt.Errorf("filter for the claims of %s: %w", ip, err)
	}
	return rawsocket.Open(index, etherType(ip), program)
}
