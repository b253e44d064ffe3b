package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// Values of the test.
const (
	// every is how often it is made.
	every = time.Minute
	// asks is how often the request is sent in one test, so that one lost frame
	// is not taken for silence, and patience how long is listened after each:
	// ISC dhcpd looks for another holder of an address for a second first.
	asks     = 2
	patience = 1500 * time.Millisecond
	// maxServers is how many are told apart; more is as wrong.
	maxServers = 16
)

// Options are the parts of a Probe.
type Options struct {
	Interface string // on which machines boot
	Random    io.Reader
	Logger    *slog.Logger
}

// Probe tests the other hosts' filters. Run does it; Found may be called
// concurrently.
type Probe struct {
	o Options

	mu      sync.Mutex
	servers []Server
	err     error
}

// New returns a probe that Run works with.
func New(o Options) *Probe { return &Probe{o: o} }

// Found returns the servers that answered the newest test, in order, and why it
// could not be made, if so. Before the first there is neither.
func (p *Probe) Found() ([]Server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servers, p.err
}

// Run tests at once and then every minute, until ctx ends. What it finds or
// fails at is logged when it changes.
func (p *Probe) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		servers, err := p.test(ctx)
		if ctx.Err() != nil {
			return
		}
		p.note(servers, err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (p *Probe) note(servers []Server, err error) {
	p.mu.Lock()
	before, failed := p.servers, p.err
	p.servers, p.err = servers, err
	p.mu.Unlock()
	switch {
	case err != nil && failed == nil:
		p.o.Logger.Warn("whether a DHCP server bypasses the PXE filter cannot be tested", "err", err)
	case err == nil && !slices.Equal(servers, before) && len(servers) > 0:
		p.o.Logger.Warn("DHCP servers answer a machine that every host denies", "servers", servers)
	case err == nil && !slices.Equal(servers, before):
		p.o.Logger.Info("no DHCP server answers a machine that every host denies any more")
	case err == nil && failed != nil:
		p.o.Logger.Info("the PXE filters of the other hosts are tested again")
	}
}

// test asks for an address and returns the servers that answer. It takes asks
// times patience.
func (p *Probe) test(ctx context.Context) ([]Server, error) {
	mac, err := net.ParseMAC(firewall.TestMAC)
	if err != nil {
		return nil, fmt.Errorf("the MAC of the test: %w", err)
	}
	var random [4]byte
	if _, err := io.ReadFull(p.o.Random, random[:]); err != nil {
		return nil, fmt.Errorf("draw a transaction: %w", err)
	}
	xid := binary.BigEndian.Uint32(random[:])
	w, err := openWire(p.o.Interface, xid)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var found []Server
	for range asks {
		if err := w.send(discover(mac, xid)); err != nil {
			return nil, fmt.Errorf("send a request on %s: %w", p.o.Interface, err)
		}
		err := listen(ctx, w, func(frame []byte) {
			s, ok := offer(frame, mac, xid)
			if ok && len(found) < maxServers && !slices.Contains(found, s) {
				found = append(found, s)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", p.o.Interface, err)
		}
	}
	slices.SortFunc(found, Server.compare)
	return found, nil
}

// listen hands what arrives within patience to heard.
func listen(ctx context.Context, w wire, heard func(frame []byte)) error {
	if err := w.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	// Registered behind the deadline, so that it is never put off by it.
	stop := context.AfterFunc(ctx, w.interrupt)
	defer stop()
	frame := make([]byte, maxFrame)
	for {
		n, err := w.Read(frame)
		if over := ctx.Err(); over != nil {
			return over
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		heard(frame[:n])
	}
}
