package iptables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

const (
	// minLength is the shortest lease, and leaseSeconds how long the kernel
	// itself counts from the newest stamp.
	minLength    = time.Second
	leaseSeconds = 1
	// clockStep is by how much the wall clock may move against the monotonic
	// one between two calls before somebody has set it.
	clockStep = 100 * time.Millisecond
	// datestop is how the match time wants its last second, in UTC.
	datestop = "2006-01-02T15:04:05"
)

// RecentLease is the lease for kernels without nf_tables; the package comment
// tells what it cannot promise. It is in force while two things hold: a stamp in
// the match recent is younger than a second of the kernel's own count, and the
// wall clock has not passed the end that the match time was given.
//
// The end is reckoned from an instant in the call before: in Arm for Open, in
// Open or Hold for Hold. That was before the proof of leadership began, so that
// the door is shut within twice the lease of it, as with the compare-and-swap.
type RecentLease struct {
	layout firewall.Layout
	tools  tools
	armed  mark // what Open swaps from
	held   mark // what Hold swaps from
}

var _ firewall.Lease = (*RecentLease)(nil)

// NewRecentLease returns the lease for a layout. It changes nothing yet, but
// fails where the kernel lacks what it is made of: a host whose door can never
// open should not lead.
func NewRecentLease(ctx context.Context, l firewall.Layout, all ...Option) (*RecentLease, error) {
	if err := check(l); err != nil {
		return nil, err
	}
	t, _, err := choose(ctx, chosen(all).backend)
	if err != nil {
		return nil, fmt.Errorf("firewall.driver: iptables: %w", err)
	}
	for _, f := range t.families {
		if err := f.tryLease(ctx); err != nil {
			return nil, fmt.Errorf("firewall.driver: iptables: the %s lease of a kernel without nf_tables: %w", f.name, err)
		}
	}
	return &RecentLease{layout: l, tools: t}, nil
}

// mark is what a swap starts from; zero: there is nothing to swap.
type mark struct {
	at     time.Time // the proof of leadership that the swap stands on began later
	length time.Duration
	ends   time.Time // what would be swapped has ended
}

// lapsed says whether a swap would come too late, or cannot know that it does
// not.
func (m mark) lapsed(now time.Time) error {
	if m.at.IsZero() {
		return fmt.Errorf("%w: nothing was there to swap", firewall.ErrLapsed)
	}
	elapsed := now.Sub(m.at)
	if !now.Before(m.ends) {
		return fmt.Errorf("%w: %v have passed", firewall.ErrLapsed, elapsed.Round(time.Millisecond))
	}
	// Without their monotonic part times differ by the wall clock.
	return clockSet(elapsed, now.Round(0).Sub(m.at.Round(0)))
}

// clockSet says whether the wall clock was set while time elapsed: then it does
// not tell when the lease ends.
func clockSet(elapsed, wall time.Duration) error {
	if step := wall - elapsed; step.Abs() > clockStep {
		return fmt.Errorf("%w: the wall clock was set by %v", firewall.ErrLapsed, step.Round(time.Millisecond))
	}
	return nil
}

// end is when the kernel shuts by the wall clock what is swapped from m for d: a
// whole second, and not after twice the lease.
func (m mark) end(d time.Duration) time.Time {
	return m.at.Add(m.length + d).UTC().Truncate(time.Second)
}

// Arm implements firewall.Lease. It writes nothing: what can be known about a
// sleep is known to this process alone.
func (r *RecentLease) Arm(_ context.Context, d time.Duration) error {
	if d < minLength {
		return fmt.Errorf("firewall.lease: %v is too short where the kernel has no nf_tables, and counts in seconds; write at least %v", d, minLength)
	}
	now := time.Now()
	r.armed = mark{at: now, length: d, ends: now.Add(d)}
	return nil
}

// Open implements firewall.Lease.
func (r *RecentLease) Open(ctx context.Context, d time.Duration) error {
	from := r.armed
	r.armed = mark{}
	return r.swap(ctx, from, d)
}

// Hold implements firewall.Lease.
func (r *RecentLease) Hold(ctx context.Context, d time.Duration) error {
	return r.swap(ctx, r.held, d)
}

// swap puts the lease in force for another while. The clock is looked at before
// each write; after the last one it is only looked at to take back what came
// too late.
func (r *RecentLease) swap(ctx context.Context, from mark, d time.Duration) error {
	r.held = mark{}
	if err := from.lapsed(time.Now()); err != nil {
		return err
	}
	end := from.end(d)
	for _, f := range r.tools.families {
		if err := f.commit(ctx, f.opened(r.layout, end)); err != nil {
			if rule := missed(err); rule != "" {
				err = fmt.Errorf("%w: this is not there any more: %s", firewall.ErrForeign, rule)
			}
			return fmt.Errorf("renew the %s lease: %w", f.name, err)
		}
	}
	now := time.Now()
	err := from.lapsed(now)
	if err == nil {
		err = r.stamp()
	}
	if err == nil {
		err = from.lapsed(time.Now())
	}
	if err != nil {
		return errors.Join(err, r.forget())
	}
	r.held = mark{at: now, length: d, ends: now.Add(leaseSeconds * time.Second)}
	if end.Before(r.held.ends) {
		r.held.ends = end
	}
	return nil
}

// Shut implements firewall.Lease.
func (r *RecentLease) Shut(ctx context.Context) error {
	r.armed, r.held = mark{}, mark{}
	// First what needs no lock.
	if err := r.forget(); err != nil {
		return fmt.Errorf("shut: %w", err)
	}
	for _, f := range r.tools.families {
		if err := r.shut(ctx, f); err != nil {
			return fmt.Errorf("shut (%s): %w", f.name, err)
		}
	}
	return nil
}

// shut builds the closed chain of one family and reads it back.
func (r *RecentLease) shut(ctx context.Context, f family) error {
	if err := f.commit(ctx, f.closed()); err != nil {
		return err
	}
	if err := f.enter(ctx, r.layout, leaseTable, leaseChain); err != nil {
		return err
	}
	now, err := f.read(ctx, leaseTable)
	if err != nil {
		return err
	}
	if err := now.entrance(r.layout, leaseChain); err != nil {
		return err
	}
	return now.exactly(leaseChain, f.fresh()+" -j DROP", "-j DROP")
}

// fresh matches while the newest stamp is young. The mask makes one source of
// all: DHCP comes from nowhere at first, and from an address later.
func (f family) fresh() string {
	return fmt.Sprintf("-m recent --rcheck --seconds %d --name %s --mask %s --rsource", leaseSeconds, f.recent, f.mask)
}

// closed is the commit that lets nothing through, whatever stamps there are.
// The match stays, since the kernel keeps its list while a rule names it.
func (f family) closed() string {
	return script(leaseTable, []string{
		declare(leaseChain),
		"-A " + leaseChain + " " + f.fresh() + " -j DROP",
		"-A " + leaseChain + " -j DROP",
	})
}

// opened is the commit that lets packets through until the end, while there is
// a stamp. It fails if nothing leads to the chain any more. The match time lets
// all of its last second through.
func (f family) opened(l firewall.Layout, end time.Time) string {
	stop := end.Add(-time.Second).Format(datestop)
	return script(leaseTable, []string{
		declare(leaseChain),
		"-C " + input + " " + jumpText(l, leaseChain),
		"-A " + leaseChain + " " + f.fresh() + " -m time --datestop " + stop + " -j RETURN",
		"-A " + leaseChain + " -j DROP",
	})
}

// tryLease fails where the kernel has not both matches of the lease. Nothing is
// committed.
func (f family) tryLease(ctx context.Context) error {
	text := script(leaseTable, []string{
		declare(leaseChain),
		"-A " + leaseChain + " " + f.fresh() + " -m time --datestop " + time.Unix(0, 0).UTC().Format(datestop) + " -j RETURN",
	})
	_, err := run(ctx, text, f.restore, append([]string{"--test", "--noflush"}, wait()...)...)
	return err
}

// stamp begins the kernel's own count in both families.
func (r *RecentLease) stamp() error {
	var errs []error
	for _, f := range r.tools.families {
		if err := writeRecent(f.recent, "+"+f.any); err != nil {
			errs = append(errs, fmt.Errorf("stamp the %s lease: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// forget removes all stamps. A list that is not there has none.
func (r *RecentLease) forget() error {
	var errs []error
	for _, f := range r.tools.families {
		if err := writeRecent(f.recent, "/"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("end the %s lease: %w", f.name, err))
		}
	}
	return errors.Join(errs...)
}

// writeRecent writes a word to a list, which exists as a file. The file is that
// of the thread's network namespace, where the commands run too.
func writeRecent(name, word string) (err error) {
	file, err := os.OpenFile(filepath.Join("/proc/thread-self/net/xt_recent", name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(word + "\n")
	return err
}
