//go:build e2e

package labtest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/test/testenv"
)

// askEvery is how often a question is asked.
const askEvery = 50 * time.Millisecond

// asked is one time that a question was asked. Whether a door let it through was
// decided when it was sent; the answer may come later.
type asked struct {
	sent time.Time
	by   []int // the hosts that answered, each once
}

// asker asks a question from the client's interface, every askEvery, until the
// test ends. Its methods may be called concurrently.
type asker struct {
	name string
	q    question

	mu   sync.Mutex
	list []asked // one a time; a test is short
}

// ask begins to ask on a link of the client.
func (h *Host) ask(t testing.TB, name string, l Link, protocol uint16, q question) *asker {
	t.Helper()
	a := &asker{name: name, q: q}
	wire := h.hear(t, l, protocol, func(frame []byte) {
		if at, bits, host, ok := q.answer(frame); ok {
			a.note(at, bits, host)
		}
	})
	n, failed := 0, false
	repeated(t, askEvery, func() {
		if failed {
			return // the test has failed
		}
		a.mu.Lock()
		a.list = append(a.list, asked{sent: time.Now()})
		a.mu.Unlock()
		if err := wire.Send(q.frame(n)); err != nil {
			failed = true
			t.Errorf("ask for %s: %v", name, err)
		}
		n++
	})
	return a
}

// askFor begins to ask for who has an IPv4 address of the site.
func (h *Host) askFor(t testing.TB, name, address string) *asker {
	t.Helper()
	return h.ask(t, name, Site, unix.ETH_P_ARP, whoHas{hardware(t, mac(Site, h.number)), net.ParseIP(address)})
}

// hear calls do with each frame that comes to a link of the host until the test ends, and returns
// the socket.
func (h *Host) hear(t testing.TB, l Link, protocol uint16, do func(frame []byte)) rawsocket.Socket {
	t.Helper()
	wire, err := h.packets(l, protocol)
	testenv.Must(t, err)
	var closing atomic.Bool // a socket that is closed meanwhile fails in several ways
	var work sync.WaitGroup
	work.Go(func() {
		frame := make([]byte, rawsocket.MaxFrame)
		for {
			n, err := wire.Read(frame)
			if err != nil {
				if !closing.Load() {
					t.Errorf("hear %s of host %d: %v", l, h.number, err)
				}
				return
			}
			do(frame[:n])
		}
	})
	t.Cleanup(func() {
		closing.Store(true)
		if err := wire.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
	})
	return wire
}

// socket is packets until the test ends.
func (h *Host) socket(l Link, protocol uint16) rawsocket.Socket {
	t := h.net.t
	t.Helper()
	wire, err := h.packets(l, protocol)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := wire.Close(); err != nil {
			t.Error(err)
		}
	})
	return wire
}

// packets opens a packet socket on a link of the host; it stays in the host's
// namespace.
func (h *Host) packets(l Link, protocol uint16) (wire rawsocket.Socket, err error) {
	err = h.enter(func() error {
		link, err := net.InterfaceByName(string(l))
		if err == nil {
			wire, err = rawsocket.Open(link.Index, protocol, nil)
		}
		return err
	})
	return wire, err
}

// enter calls do on a thread that is in the host's namespace; sockets that are
// opened there stay there. The thread comes back: were it to end, it would take
// with it the processes that it had started (Pdeathsig).
func (h *Host) enter(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	there, err := os.Open("/run/netns/" + h.net.ns(h.number))
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the namespace of host %d: %w", h.number, err)
	}
	defer func() {
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			panic(back) // every test after this one would be on the wrong host
		}
	}()
	return do()
}

// note keeps an answer to the newest time whose number ends with these bits.
func (a *asker) note(n, bits, host int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	newest := len(a.list) - 1
	at := newest - (newest-n)&(1<<bits-1)
	if at >= 0 && !slices.Contains(a.list[at].by, host) {
		a.list[at].by = append(a.list[at].by, host)
	}
}

// since returns what was asked from a moment on.
func (a *asker) since(from time.Time) []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []asked
	for _, one := range a.list {
		if !one.sent.Before(from) {
			one.by = slices.Clone(one.by)
			out = append(out, one)
		}
	}
	return out
}

// between is since, up to a moment.
func (a *asker) between(from, to time.Time) []asked {
	all := a.since(from)
	return all[:len(all)-count(all, func(one asked) bool { return one.sent.After(to) })]
}

func count(all []asked, what func(asked) bool) (n int) {
	for _, one := range all {
		if what(one) {
			n++
		}
	}
	return n
}

// handOver is what a client saw of one.
type handOver struct {
	to      int           // the host that answered next, 0 if none did
	gap     time.Duration // without an answer, from the last of the old host to the first of the new
	late    time.Duration // from the first answer of the new host to the last of the old
	overlap int           // times that the old host answered from then on, or another beside the new
	again   int           // hand-overs from the new host on, each after a time without an answer
}

func (h handOver) String() string {
	text := fmt.Sprintf("host %d after %v without an answer", h.to, h.gap.Round(time.Millisecond))
	if h.overlap > 0 {
		text += fmt.Sprintf(", %d OVERLAPS in %v", h.overlap, h.late.Round(time.Millisecond))
	}
	if h.again > 0 {
		text += fmt.Sprintf(", and %d more hand-overs", h.again)
	}
	return text
}

// story tells which hosts answered when, counted from the first question: a part for each
// time that the same ones did.
func story(all []asked) string {
	var parts []string
	for n, one := range all {
		if n == 0 || !slices.Equal(one.by, all[n-1].by) {
			parts = append(parts, fmt.Sprintf("%v %d", one.sent.Sub(all[0].sent).Round(time.Millisecond), one.by))
		}
	}
	return strings.Join(parts, ", ")
}

// judge reads what was asked around a hand-over from the old host.
func judge(all []asked, old int) (h handOver) {
	var last, first time.Time
	before := []int{old} // hosts that have answered and were succeeded
	current, quiet := 0, false
	for _, one := range all {
		other := slices.IndexFunc(one.by, func(host int) bool { return host != old })
		if h.to == 0 && other >= 0 {
			h.to, first = one.by[other], one.sent
			current = h.to
		}
		for _, host := range one.by {
			switch {
			case h.to == 0:
				last = one.sent
			case host == current:
			case quiet && len(one.by) == 1 && !slices.Contains(before, host):
				before, current = append(before, current), host
				h.again++
			default:
				h.overlap++
				h.late = one.sent.Sub(first)
			}
		}
		quiet = len(one.by) == 0
	}
	if !last.IsZero() && h.to != 0 {
		h.gap = first.Sub(last)
	}
	return h
}

// steady counts the times that exactly the one host answered.
func steady(all []asked, host int) int {
	return count(all, func(one asked) bool { return len(one.by) == 1 && one.by[0] == host })
}

// answered counts the times that anybody did.
func answered(all []asked) int { return count(all, func(one asked) bool { return len(one.by) > 0 }) }

// answersOf are questions that hosts answered.
func answersOf(by ...[]int) (all []asked) {
	for n, hosts := range by {
		all = append(all, asked{time.Unix(0, int64(n)*int64(askEvery)), hosts})
	}
	return all
}

// lastBy returns the time that a host answered last.
func lastBy(all []asked, host int) (at time.Time) {
	for _, one := range all {
		if slices.Contains(one.by, host) {
			at = one.sent
		}
	}
	return at
}
