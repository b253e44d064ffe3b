package firewall

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ironicports"
)

// Bounds of a pull.
const (
	pullChunk = 200              // ports in one entry; a thousand hold up other commits for too long
	pullRetry = 2 * time.Second  // after a pull that failed
	pullLimit = 60 * time.Second // one whole list
)

// PortLister lists the ports of all nodes in Ironic: all of them, or an error.
type PortLister interface {
	AllPorts(ctx context.Context) ([]ironicports.Port, error)
}

// Pull is the leader's duty that keeps the blacklist: it lists Ironic's ports
// once for all three hosts and commits the difference. A list that fails on any
// page changes nothing. All methods may be called concurrently.
type Pull struct {
	ironic PortLister
	log    Log
	logger *slog.Logger

	mu      sync.Mutex
	err     error
	period  time.Duration // 0: one complete pull a leadership
	renewed chan struct{} // closed and replaced when period changes
}

// NewPull returns the duty.
func NewPull(ironic PortLister, log Log, period time.Duration, logger *slog.Logger) *Pull {
	return &Pull{ironic: ironic, log: log, period: period, renewed: make(chan struct{}), logger: logger}
}

// Err returns why the newest pull of this peer failed, nil if it did not.
func (p *Pull) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Renew makes another period count, from the newest pull on. It may be called
// concurrently.
func (p *Pull) Renew(period time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.period = period
	close(p.renewed)
	p.renewed = make(chan struct{})
}

// pause returns how long to wait after a pull that ended so, and a channel that
// is closed when that is another time.
func (p *Pull) pause(err error) (d time.Duration, again bool, renewed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		return pullRetry, true, p.renewed
	}
	return p.period, p.period > 0, p.renewed
}

func (p *Pull) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// Run pulls until ctx ends. A failure is logged and tried again; the rules stay
// as they are meanwhile.
func (p *Pull) Run(ctx context.Context, a Authority) error {
	for {
		err := p.once(ctx, a)
		if ctx.Err() != nil {
			return nil
		}
		if was := p.Err(); err != nil && was == nil {
			p.logger.Warn("list ports from Ironic failed, keeping the current filter lists", "err", err)
		} else if err == nil && was != nil {
			p.logger.Info("ports are listed from Ironic again")
		}
		p.set(err)
		if !p.wait(ctx, time.Now(), err) {
			return nil
		}
	}
}

// wait returns when the next pull is due after one that ended so, and false when
// ctx has ended.
func (p *Pull) wait(ctx context.Context, ended time.Time, err error) bool {
	for {
		after, again, renewed := p.pause(err)
		var next <-chan time.Time
		if again {
			next = time.After(time.Until(ended.Add(after)))
		}
		select {
		case <-next:
			return true
		case <-renewed:
		case <-ctx.Done():
			return false
		}
	}
}

// once lists and commits the difference.
func (p *Pull) once(ctx context.Context, a Authority) error {
	limited, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	listed, err := p.ironic.AllPorts(limited)
	if err != nil {
		return fmt.Errorf("list the ports: %w", err)
	}
	v, _ := p.log.Changed()
	put, remove := portDifference(v, listed)
	for _, c := range chunks(put, remove) {
		res, err := a.Propose(limited, c)
		if err == nil {
			err = res.Err()
		}
		if err != nil {
			return fmt.Errorf("commit the ports: %w", err)
		}
	}
	return nil
}

// portDifference compares a list with the state. A port that two pages show,
// because ports were made or deleted between them, is one port.
func portDifference(v fsm.View, listed []ironicports.Port) (put []ironicports.Port, remove []string) {
	there := make(map[string]bool, len(listed))
	for _, port := range listed {
		if there[port.ID] {
			continue
		}
		there[port.ID] = true
		if known, ok := v.Port(port.ID); !ok || known != port {
			put = append(put, port)
		}
	}
	for port := range v.Ports() {
		if !there[port.ID] {
			remove = append(remove, port.ID)
		}
	}
	return put, remove
}

// chunks cuts a difference into entries; the last one, which may be empty, says
// that the pull is complete.
func chunks(put []ironicports.Port, remove []string) []ironicports.PutPorts {
	var out []ironicports.PutPorts
	for len(put)+len(remove) > 0 {
		ports := put[:min(len(put), pullChunk)]
		ids := remove[:min(len(remove), pullChunk-len(ports))]
		out = append(out, ironicports.PutPorts{Ports: ports, Remove: ids})
		put, remove = put[len(ports):], remove[len(ids):]
	}
	if len(out) == 0 {
		out = append(out, ironicports.PutPorts{})
	}
	out[len(out)-1].Complete = true
	return out
}
