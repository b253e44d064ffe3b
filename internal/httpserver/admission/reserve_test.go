package admission

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// reserved is room for 12 MB, of which one source has 6.
var reserved = Bytes{All: 12 << 20, Share: 6 << 20, Small: 1 << 10, Large: 11 << 20, Known: 2 << 20, Strange: 8 << 20,
	Waiting: 100}

// rooms asks for room in the background.
type rooms struct {
	t *testing.T
	m *Memory
}

// asked is one that waits for room.
type asked struct {
	room *Room
	err  error
	took time.Duration
	lost bool
	done bool
}

// ask returns once the room is there, waits, or is refused.
func (r rooms) ask(source netip.Prefix, known bool, bytes int64) *asked {
	a := new(asked)
	go func() {
		began := time.Now()
		a.room, a.err = r.m.Reserve(r.t.Context(), source, known, bytes, CallbackWait, func() { a.lost = true })
		a.took, a.done = time.Since(began), true
	}()
	synctest.Wait()
	return a
}

// A body waits until it fits, for as long as it may, and those of one source wait for each
// other and not for another's.
func TestABodyWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rooms{t, NewMemory(reserved)}
		one := []*asked{r.ask(numbered(1), false, 3<<20), r.ask(numbered(1), false, 3<<20), r.ask(numbered(1), false, 3<<20),
			r.ask(numbered(1), false, 3<<20)}
		for _, a := range one[:2] {
			a.room.Settle()
		}
		if one[2].done || r.m.Waiting() != 2 {
			t.Errorf("room-share: a third document of a source does not wait: %v", one[2].err)
		}
		if other := r.ask(numbered(2), false, 2<<20); !other.done || other.err != nil {
			t.Errorf("room-share: another source waits for the first: %v", other.err)
		}
		time.Sleep(CallbackWait / 2) // in a bubble
		one[0].room.Release()
		synctest.Wait()
		if !one[2].done || one[2].err != nil || one[2].took != CallbackWait/2 {
			t.Errorf("room-wait: after the first was done with: %v, %v", one[2].done, one[2].err)
		}
		time.Sleep(CallbackWait) // in a bubble
		synctest.Wait()
		if !errors.Is(one[3].err, ErrBusy) || one[3].took != CallbackWait {
			t.Errorf("room-wait: without room: %v after %v", one[3].err, one[3].took)
		}
		if left := r.m.Waiting(); left != 0 {
			t.Errorf("room-wait: %d wait still", left)
		}
	})
}

// Who is known is served before those that are not, and finds room beside them.
func TestTheKnownHaveRoomFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rooms{t, NewMemory(reserved)}
		var in []*asked
		for n := range 4 {
			a := r.ask(numbered(n), false, 2<<20)
			a.room.Settle()
			in = append(in, a)
		}
		first := r.ask(numbered(10), false, 2<<20)
		if first.done {
			t.Error("room-strange: bodies of strangers have all the room of large ones")
		}
		known := r.ask(numbered(11), true, 2<<20)
		if !known.done || known.err != nil {
			t.Fatalf("room-strange: a known sender has no room next to strangers: %v", known.err)
		}
		if second := r.ask(numbered(11), true, 1<<20); second.done {
			t.Errorf("room-known: one machine has more than its share: %v", second.err)
		}
		later := r.ask(numbered(12), true, 2<<20)
		if later.done {
			t.Fatal("there is room for all")
		}
		in[0].room.Release()
		synctest.Wait()
		if !later.done || first.done {
			t.Errorf("room-first: a stranger is served before a known sender: %v, %v", later.done, first.done)
		}
		time.Sleep(CallbackWait) // in a bubble
		synctest.Wait()
	})
}

// What is not read yet of a stranger gives way to a known sender, and not the other way.
func TestStrangersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := reserved
		b.Strange = b.Large
		r := rooms{t, NewMemory(b)}
		var in []*asked
		for n := range 5 {
			in = append(in, r.ask(numbered(n), n == 0, 2<<20))
		}
		one := r.ask(numbered(9), true, 2<<20)
		if one.done {
			t.Error("room-gives: a body that has just been let in is lost")
		}
		time.Sleep(arriveFor) // in a bubble
		synctest.Wait()
		if !one.done || one.err != nil || in[0].lost || !in[1].lost {
			t.Errorf("room-gives: a known sender: %v, %v; lost %v %v", one.done, one.err, in[0].lost, in[1].lost)
		}
		if one := r.ask(numbered(8), false, 1<<20); one.done && in[0].lost {
			t.Error("room-gives: a known sender gave way to a stranger")
		}
		time.Sleep(CallbackWait) // in a bubble
		synctest.Wait()
	})
}

// halting is a body that stops after its text until it is cut.
type halting struct {
	io.Reader
	cut chan struct{}
}

func (h halting) Read(p []byte) (int, error) {
	if n, err := h.Reader.Read(p); err == nil {
		return n, nil
	}
	<-h.cut // in a bubble
	return 0, io.ErrUnexpectedEOF
}

// A body that was let in and does not come gives its room to the next soon, also one of a
// known sender; while none waits it may take its time.
func TestASlowBodyGivesItsRoomUp(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := reserved
			b.Strange = b.Large
			r := rooms{t, NewMemory(b)}
			cut := make(chan struct{})
			filled := make(chan error, 1)
			room, err := r.m.Reserve(t.Context(), numbered(1), known, 2<<20, CallbackWait, func() { close(cut) })
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, err := room.Fill(&throughRoom{room, halting{strings.NewReader("beginning"), cut}}, 2<<20-1, 2<<20)
				room.Release()
				filled <- err
			}()
			for n := range 4 {
				r.ask(numbered(2+n), known, 2<<20).room.Settle()
			}
			time.Sleep(time.Minute) // in a bubble
			if room.Lost() {
				t.Error("slow-gives: a slow body is cut though none waits")
			}
			next := r.ask(numbered(9), known, 2<<20)
			time.Sleep(slowFor) // in a bubble
			synctest.Wait()
			if !next.done || next.err != nil || !room.Lost() {
				t.Errorf("slow-gives: known %v: the next waits %v for a body that does not come: %v", known, slowFor, next.err)
			}
			if err := <-filled; !errors.Is(err, ErrBusy) { // in a bubble
				t.Errorf("slow-gives: the slow body ends with %v", err)
			}
		})
	}
}

// throughRoom reads a body by way of the room that it fills.
type throughRoom struct {
	room *Room
	body io.Reader
}

func (r *throughRoom) Read(p []byte) (int, error) { return r.room.Read(r.body, p) }

// A large body is not starved by smaller ones, and keeps only those back that hold as much.
func TestALargeBodyIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := reserved
		b.Strange = b.Large
		r := rooms{t, NewMemory(b)}
		var in []*asked
		for n := range 10 {
			a := r.ask(numbered(n), false, 1<<20)
			a.room.Settle()
			in = append(in, a)
		}
		large := r.ask(numbered(20), false, 6<<20)
		small := r.ask(numbered(21), false, 1<<20)
		for _, a := range in[:5] {
			a.room.Release()
		}
		synctest.Wait()
		if small.done {
			t.Error("room-starved: a small body of another took what a large one waits for")
		}
		if !large.done || large.err != nil || large.lost {
			t.Errorf("room-starved: the large one: %v, %v, lost %v", large.done, large.err, large.lost)
		}
		time.Sleep(CallbackWait) // in a bubble
		synctest.Wait()
	})
}

// fillDocuments takes all places of large documents.
func fillDocuments(t *testing.T, c *Controller) {
	for n := range documents.AtOnce {
		if err := c.documents.Enter(t.Context(), unknownLane, numbered(1+n)); err != nil {
			t.Fatal(err)
		}
	}
}

// A request waits in all lines together for as long as it may, and no longer in each.
func TestWaitsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		fillDocuments(t, c)
		began := time.Now()
		p, err := c.Admit(t.Context(), Callback, Caller{Source: numbered(1), Until: began.Add(CallbackWait)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(CallbackWait - time.Second) // in a bubble
		err = p.Document(t.Context(), func() error { return nil })
		if took := time.Since(began); !errors.Is(err, ErrBusy) || took > CallbackWait+refusal {
			t.Errorf("waits-sum: %v after %v, want ErrBusy after %v", err, took, CallbackWait)
		}
		p.Leave()
	})
}

// A machine that is known stands before strangers in each line, and has a share of its own.
func TestTheKnownStandFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		fillDocuments(t, c)
		order := make(chan string, 10)
		come := func(name string, known bool) {
			go func() {
				p, err := c.Admit(t.Context(), Callback, Caller{Source: numbered(1)})
				if err != nil {
					t.Error(err)
					return
				}
				defer p.Leave()
				if known {
					p.Vouch(Named(name))
				}
				err = p.Document(context.WithoutCancel(t.Context()), func() error {
					order <- name
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		come("stranger 1", false)
		come("stranger 2", false)
		come("known 1", true)
		come("known 2", true)
		c.documents.Leave(numbered(1)) // one after the other
		synctest.Wait()
		var got []string
		for len(order) > 0 {
			got = append(got, <-order) // in a bubble
		}
		if text := strings.Join(got, ", "); text != "known 1, known 2, stranger 1, stranger 2" {
			t.Errorf("known-first: served %s", text)
		}
	})
}

// Machines that are known share nothing, though they call from one address.
func TestAKnownMachineIsASourceOfItsOwn(t *testing.T) {
	c := NewController()
	for n := range documents.AtOnce {
		p, err := c.Admit(t.Context(), Callback, Caller{Source: numbered(1)})
		if err != nil {
			t.Fatal(err)
		}
		p.Vouch(Named(string(rune('a' + n))))
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it does not wait
		p.vacate()
		if err := p.enterLine(ctx, c.documents); err != nil {
			t.Errorf("known-source: machine %d of an address: %v", n, err)
		}
		defer p.Leave()
	}
}
