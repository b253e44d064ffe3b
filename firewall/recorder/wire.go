package recorder

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
)

// lookEvery is how often the interface is looked for: one that went and came back, or became the
// port of a bridge, needs another socket.
const lookEvery = 5 * time.Second

// errMoved ends listening where the packets of the interface arrive no more.
var errMoved = errors.New("the interface has changed")

// Interface is the Wire of an interface of this host.
type Interface struct {
	Name string
	// Place finds the interface on which its packets arrive, by its name or by the index under
	// which it was known; 0: there is none.
	Place func(name string, known int) (index int, err error)
}

// Listen implements Wire, by a packet socket, which gets copies. The calling
// thread's network namespace counts.
func (i Interface) Listen(ctx context.Context, heard func(frame []byte, own net.HardwareAddr)) error {
	at, err := i.Place(i.Name, 0)
	if err == nil && at == 0 {
		err = fmt.Errorf("there is no interface %s", i.Name)
	}
	if err != nil {
		return err
	}
	link, err := net.InterfaceByIndex(at)
	if err != nil {
		return fmt.Errorf("look at interface %s: %w", i.Name, err)
	}
	program, err := filter()
	if err != nil {
		return fmt.Errorf("make the packet socket's filter: %w", err)
	}
	socket, err := rawsocket.Open(at, unix.ETH_P_ALL, program)
	if err != nil {
		return fmt.Errorf("on %s: %w", link.Name, err)
	}
	defer func() { _ = socket.Close() }() // nothing is lost with it
	for {
		err := socket.Listen(ctx, lookEvery, func(frame []byte) bool {
			heard(frame, link.HardwareAddr)
			return false
		})
		if err != nil {
			return fmt.Errorf("listen on %s: %w", link.Name, err)
		}
		now, err := i.Place(i.Name, at)
		if err != nil {
			return err
		}
		if now != at {
			return errMoved
		}
		if link, err = net.InterfaceByIndex(at); err != nil { // a bridge's MAC changes with its ports
			return fmt.Errorf("look at interface %s: %w", i.Name, err)
		}
	}
}
