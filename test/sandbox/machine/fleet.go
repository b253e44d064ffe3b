package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
)

// tryLimit bounds one POST to one address, as in the ramdisk.
const tryLimit = 30 * time.Second

// askEvery is how often a machine that gets no answer asks again, until its power
// is cut. Firmware waits longer each time, up to 16 s; a run of minutes cannot.
const askEvery = 500 * time.Millisecond

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 4 << 10

// pauses are those between the ramdisk's tries: five tries in 28 s.
func pauses() []time.Duration {
	return []time.Duration{time.Second, 3 * time.Second, 8 * time.Second, 16 * time.Second}
}

// Options are what a Fleet is made from.
type Options struct {
	// Callbacks are the addresses that a ramdisk posts to, in turn within each
	// try, such as http://127.0.0.1:5050/v1/continue. Each machine begins with
	// another.
	Callbacks []string
	// BootLeast and BootMost bound how long a machine takes until it asks for
	// something to boot.
	BootLeast, BootMost time.Duration
	// Answered reports whether a DHCP server answers a machine that asks from its
	// first MAC; the ramdisk is there at once then. nil: one always does.
	Answered func(mac string) bool
	Seed     uint64 // of the boot times
	Client   *http.Client
	Logger   *slog.Logger
}

// Stats are what machines have met so far.
type Stats struct {
	Boots    int // begun
	Accepted int // callbacks that were answered 2xx
	Refused  int // callbacks that were answered 4xx, which ends them
	GaveUp   int // callbacks that no address took in five tries
	Retries  int // tries beyond the first, over all callbacks
}

// Fleet are machines under one roof. All its methods may be called
// concurrently.
type Fleet struct {
	opts Options
	life context.Context // of all machines
	stop context.CancelFunc
	runs sync.WaitGroup // one per machine that is on

	mu    sync.Mutex // guards all below
	units map[string]*unit
	dice  *rand.Rand
	stats Stats
}

// unit is a machine and its power.
type unit struct {
	Machine
	start int                // which callback address it begins with
	off   context.CancelFunc // cuts its power; nil while it is off
}

// NewFleet returns a fleet without machines.
func NewFleet(o Options) *Fleet {
	life, stop := context.WithCancel(context.Background())
	return &Fleet{opts: o, life: life, stop: stop, units: make(map[string]*unit), dice: rand.New(rand.NewPCG(o.Seed, 1))}
}

// Add brings a machine, switched off. One of the same UUID is replaced, and
// its power cut.
func (f *Fleet) Add(m Machine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.units[m.UUID]; old != nil {
		old.cut()
	}
	f.units[m.UUID] = &unit{Machine: m, start: len(f.units)}
}

// Power does to a machine what Ironic was asked for: "power on" and the
// "rebooting" kinds boot it, "power off" kinds cut its power, whatever it is
// doing. A machine that nobody added is ignored. It does not block.
func (f *Fleet) Power(node, target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.units[node]
	if u == nil || f.life.Err() != nil {
		return
	}
	switch target {
	case "power off", "soft power off":
		u.cut()
	case "power on":
		if u.off == nil {
			f.boot(u)
		}
	case "rebooting", "soft rebooting":
		u.cut()
		f.boot(u)
	}
}

func (u *unit) cut() {
	if u.off != nil {
		u.off()
		u.off = nil
	}
}

// boot switches a unit on, under the lock.
func (f *Fleet) boot(u *unit) {
	ctx, off := context.WithCancel(f.life)
	u.off = off
	f.stats.Boots++
	delay := f.opts.BootLeast
	if spread := f.opts.BootMost - f.opts.BootLeast; spread > 0 {
		delay += time.Duration(f.dice.Int64N(int64(spread)))
	}
	f.runs.Go(func() { f.run(ctx, u.Machine, u.start, delay) })
}

// run is one life of a machine, from power on until it has called back or its
// power is cut.
func (f *Fleet) run(ctx context.Context, m Machine, start int, delay time.Duration) {
	if !pace.Wait(ctx, delay) || m.Silent {
		return
	}
	for f.opts.Answered != nil && !f.opts.Answered(m.MACs[0]) {
		if !pace.Wait(ctx, askEvery) {
			return
		}
	}
	err := f.callBack(ctx, start, Inventory(m))
	if ctx.Err() != nil {
		return
	}
	f.opts.Logger.Debug("send callback failed", "node", m.UUID, "err", err)
	f.count(func(s *Stats) {
		switch {
		case err == nil:
			s.Accepted++
		case errors.Is(err, errRefused):
			s.Refused++
		default:
			s.GaveUp++
		}
	})
}

func (f *Fleet) count(add func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	add(&f.stats)
}

var errRefused = errors.New("refused")

// callBack posts the inventory as the ramdisk does: in each try to one address
// after the other until one takes it; what is refused with 4xx is not repeated.
func (f *Fleet) callBack(ctx context.Context, start int, body []byte) (err error) {
	for _, wait := range append(pauses(), 0) {
		for i := range f.opts.Callbacks {
			url := f.opts.Callbacks[(start+i)%len(f.opts.Callbacks)]
			if err = f.post(ctx, url, body); err == nil || errors.Is(err, errRefused) {
				return err
			}
		}
		if !pace.Wait(ctx, wait) {
			return err
		}
		if wait > 0 {
			f.count(func(s *Stats) { s.Retries++ })
		}
	}
	return err
}

func (f *Fleet) post(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.opts.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode >= 500:
		return fmt.Errorf("%s: %s %s", url, resp.Status, answer)
	case resp.StatusCode >= 400:
		return fmt.Errorf("%w: %s: %s %s", errRefused, url, resp.Status, answer)
	default:
		return err
	}
}

// Stats returns the counts of this moment.
func (f *Fleet) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// Close cuts the power of all machines and waits until they are quiet.
func (f *Fleet) Close() {
	f.stop()
	f.mu.Lock()
	for _, u := range f.units { // order-free: all of them
		u.cut()
	}
	f.mu.Unlock()
	f.runs.Wait()
}
