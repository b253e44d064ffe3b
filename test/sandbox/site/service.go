package site

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/test/hostkernel"
	"github.com/trivet-ha/trivet/test/sandbox/trio"
)

// services are the PXE services of the three hosts, as models of their kernels
// have it: which of them lets machines boot. The kernels outlive the peers'
// processes, as real ones do. All fields are guarded by the cluster's lock.
type services struct {
	open   *slot         // that was open when it was looked at last; nil: none was
	closed time.Time     // when the last one that was open closed; zero: none did
	gap    time.Duration // the longest between a closing and the next opening
	double int           // how often one opened, or stayed open, while another was
}

// opened is called when the kernel of s has opened its PXE service, or holds it
// open. It looks at every other kernel: promise 2 is that none is open then.
func (t *cluster) opened(s *slot) {
	now := time.Now()
	var other *slot
	for _, o := range t.slots {
		if o != s && now.Before(o.kernel.Until()) {
			other = o
		}
	}
	t.mu.Lock()
	closed := t.followLocked(now)
	was, first := t.pxe.open, t.pxe.closed.IsZero()
	gap := now.Sub(t.pxe.closed)
	if t.pxe.open = s; was != s && !first {
		t.pxe.gap = max(t.pxe.gap, gap)
	}
	if other != nil {
		t.pxe.double++
	}
	t.mu.Unlock()
	t.tellClosed(closed)
	switch {
	case other != nil:
		t.tell("PXE service open on %s while it is open on %s", s.Name(), other.Name())
	case was == s:
	case first:
		t.tell("PXE service open on %s", s.Name())
	default:
		t.tell("PXE service open on %s, after none was for %v", s.Name(), gap.Round(time.Millisecond))
	}
}

// followLocked notes that the service that was open has closed, by itself or
// because it was shut, and returns its slot; nil: none closed.
func (t *cluster) followLocked(now time.Time) *slot {
	s := t.pxe.open
	if s == nil {
		return nil
	}
	until := s.kernel.Until()
	if now.Before(until) {
		return nil
	}
	if until.IsZero() { // it was shut a moment ago
		until = now
	}
	t.pxe.open, t.pxe.closed = nil, until
	return s
}

// follow tells when a PXE service closes, until ctx ends.
func (t *cluster) follow(ctx context.Context) {
	for pace.Wait(ctx, trio.Poll) {
		t.mu.Lock()
		s := t.followLocked(time.Now())
		t.mu.Unlock()
		t.tellClosed(s)
	}
}

func (t *cluster) tellClosed(s *slot) {
	if s != nil {
		t.tell("PXE service closed on %s", s.Name())
	}
}

// lets reports whether any host answers a machine that asks for a boot file from
// this address.
func (t *cluster) lets(mac string) bool {
	now := time.Now()
	for _, s := range t.slots {
		if s.kernel.Lets(mac, now) {
			return true
		}
	}
	return false
}

// service returns the longest time without a PXE service, and how often two were
// open.
func (t *cluster) service() (gap time.Duration, double int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pxe.gap, t.pxe.double
}

// process is the kernel as one process of the host sees it: one that was killed
// writes no more, and its lease ends by itself.
type process struct {
	*hostkernel.Model
	dead *atomic.Bool
}

var errKilled = errors.New("this process was killed")

// Arm implements firewall.Lease.
func (p process) Arm(ctx context.Context, d time.Duration) error {
	if p.dead.Load() {
		return errKilled
	}
	return p.Model.Arm(ctx, d)
}

// Open implements firewall.Lease.
func (p process) Open(ctx context.Context, d time.Duration) error {
	if p.dead.Load() {
		return errKilled
	}
	return p.Model.Open(ctx, d)
}

// Hold implements firewall.Lease.
func (p process) Hold(ctx context.Context, d time.Duration) error {
	if p.dead.Load() {
		return errKilled
	}
	return p.Model.Hold(ctx, d)
}

// Shut implements firewall.Lease.
func (p process) Shut(ctx context.Context) error {
	if p.dead.Load() {
		return errKilled
	}
	return p.Model.Shut(ctx)
}

// newKernel is the model of a host's kernel, which ends a lease a little late.
func newKernel() *hostkernel.Model { return &hostkernel.Model{Late: kernelLate} }

// kernelLate is how late a kernel was seen to end an element (measured: 41 ms).
const kernelLate = 40 * time.Millisecond
