package work

import (
	"context"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
)

// Pick is pick.
func (p *Pool) Pick(v fsm.View, free int) ([]fencing.Token, time.Duration) {
	return p.pick(v, free)
}

// Occupy keeps all workers busy until the function that it returns is called.
func (p *Pool) Occupy() (leave func()) {
	p.mu.Lock()
	size := p.size
	p.mu.Unlock()
	for range size {
		p.acquire()
	}
	return func() {
		for range size {
			p.release()
		}
	}
}

// Live are the settings of the pool.
func (p *Pool) Live() *inspector.LiveSettings { return p.o.Live }

// Resize has as many workers as the settings say, and returns how many are free.
func (p *Pool) Resize() int { return p.resize(p.o.Live.Now().Workers()) }

// Allowed begins a job and returns its check before every outside effect.
func (p *Pool) Allowed(c introspection.ClaimedRequest) func(context.Context) error {
	return p.job(c).node.allowed
}

// StoresData begins a job and tells whether it stores data.
func (p *Pool) StoresData() func() bool {
	j := p.job(introspection.ClaimedRequest{})
	return func() bool { return j.by.Config.StoreData }
}

// For tests outside of this package.
const (
	CallGrace     = callGrace
	FlushGrace    = flushGrace
	HookPowerOff  = hookPowerOff
	KeyDiscovered = keyDiscovered
	ReapplyHead   = reapplyHead
	RenewalLimit  = renewalLimit
	RenewalPoll   = renewalPoll
	StopGrace     = stopGrace
	TextTimeout   = textTimeout
	TurnWait      = turnWait
)

// For tests outside of this package.
var (
	Enrolled = enrolled
	ErrLate  = errLate
)
