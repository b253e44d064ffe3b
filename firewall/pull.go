package firewall

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/nodesync"
)

// Bounds of a pull.
const (
	pullChunk = 200              // ports in one entry; a thousand hold up other commits for too long
	pullRetry = 2 * time.Second  // after a pull that failed
	pullLimit = 60 * time.Second // one whole list
	// pullDoubted is when a doubted list is looked at again where firewall.sync_period
	// says never: it may have been confirmed.
	pullDoubted = 30 * time.Second
)

// PortLister lists the ports of all nodes in Ironic: all of them, or an error.
type PortLister interface {
	AllPorts(ctx context.Context) ([]ironicports.Port, error)
}

// Pull is the leader's duty that keeps the blacklist: it lists Ironic's ports
// once for all three hosts and commits the difference. A list that fails on any
// page changes nothing, and one that lacks too many is doubted as the list of nodes
// is (docs/design.md#sync): it adds MACs and takes none away. All methods may be called
// concurrently.
type Pull struct {
	ironic PortLister
	log    Log
	logger *slog.Logger

	mu      sync.Mutex
	err     error
	doubted nodesync.Suspicion // of the newest list; zero: it was believed
	period  time.Duration      // 0: one complete pull a leadership
	renewed chan struct{}      // closed and replaced when period changes
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
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		if !p.wait(ctx, time.Now(), err) {
			return nil
		}
	}
}

// wait returns when the next pull is due after one that ended so, and false when
// ctx has ended.
func (p *Pull) wait(ctx context.Context, ended time.Time, err error) bool {
	for {
		p.mu.Lock()
		after, renewed := p.period, p.renewed
		switch {
		case err != nil:
			after = pullRetry
		case after == 0 && !p.doubted.IsZero():
			after = pullDoubted
		}
		p.mu.Unlock()
		var next <-chan time.Time
		if after > 0 {
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
	remove, kept, doubt := believed(v, listed, remove)
	for _, c := range chunks(put, remove) {
		if err := commit(limited, a, c); err != nil {
			return fmt.Errorf("commit the ports: %w", err)
		}
	}
	if err := p.noteDoubt(limited, a, v, doubt); err != nil {
		return fmt.Errorf("commit why %d MACs stay on the blacklist: %w", kept, err)
	}
	return nil
}

// commit proposes a command and returns why it was not applied.
func commit(ctx context.Context, a Authority, c fsm.Command) error {
	res, err := a.Propose(ctx, c)
	if err == nil {
		err = res.Err()
	}
	return err
}

// believed returns the removals that a list is believed, how many are kept, and why; the
// zero suspicion if none is. A port whose MAC another port has by now may go in any
// case: the MAC stays denied.
func believed(v fsm.View, listed []ironicports.Port, remove []string) (goes []string, kept int,
	doubt nodesync.Suspicion) {
	macs := make(map[string]bool, len(listed))
	for _, port := range listed {
		macs[port.MAC] = true
	}
	var bare []string // ports whose MAC would leave the blacklist
	for _, id := range remove {
		if port, _ := v.Port(id); macs[port.MAC] {
			goes = append(goes, id)
		} else {
			bare = append(bare, id)
		}
	}
	if len(bare) == 0 {
		return remove, 0, doubt
	}
	doubt.Reason = nodesync.WhyDoubted("ports", len(bare), v.PortCount(), len(listed))
	if doubt.Reason == "" {
		return remove, 0, doubt
	}
	slices.Sort(bare)
	doubt.Missing, doubt.Known, doubt.Digest = len(bare), v.PortCount(), nodesync.Digest(bare)
	if before, _ := v.PortSuspicion(); before.Settles(doubt, v.Now()) {
		return remove, 0, nodesync.Suspicion{}
	}
	return goes, len(bare), doubt
}

// noteDoubt tells why the newest list is doubted, once for as long as it says the same, so that
// every peer and every later leader knows it; the zero suspicion takes that back.
func (p *Pull) noteDoubt(ctx context.Context, a Authority, v fsm.View, doubt nodesync.Suspicion) error {
	p.mu.Lock()
	told := p.doubted
	p.doubted = doubt
	p.mu.Unlock()
	before, suspected := v.PortSuspicion()
	switch {
	case doubt.IsZero() && suspected:
		return commit(ctx, a, nodesync.Trust{Ports: true})
	case doubt.IsZero():
		return nil
	case told.Digest != doubt.Digest:
		p.logger.Warn("keep MACs on the blacklist: implausible port list from Ironic", "reason", doubt.Reason,
			"missing", doubt.Missing, "known", doubt.Known, "confirm", "trivet node sync --confirm")
	}
	note := nodesync.Suspect{Suspicion: doubt, Ports: true}
	if v.Admits(note) != nil || before.Digest == doubt.Digest && before.Reason == doubt.Reason {
		return nil // an older peer could not read it, or it is known; the MACs stay
	}
	return commit(ctx, a, note)
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
