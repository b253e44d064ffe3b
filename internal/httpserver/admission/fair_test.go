package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request that stood still for long has waited for something: it is charged with little of
// that, so that its source is not kept waiting for minutes.
func TestARequestThatStoodStillIsChargedWithLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		lines := []*Line{c.documents}
		for port := range ports {
			lines = append(lines, c.lines[port][Callback:]...)
		}
		for _, line := range lines {
			p := line.places
			if p.Waits || p.Each == (Pace{}) {
				continue
			}
			place := &Place{of: c, caller: Caller{Source: numbered(1)}}
			if err := place.enterLine(t.Context(), line); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // in a bubble
			place.Leave()
			time.Sleep(1900 * time.Millisecond) // in a bubble: no line keeps a place for less than 2 s
			if idle, _ := line.Idle(); idle != p.AtOnce {
				t.Errorf("charge-cap: the place of a request that stood still stays taken: %+v", p)
			}
			time.Sleep(time.Hour) // in a bubble
		}
	})
}

// inLine sends callers of sources to a line of one place, which is taken.
func inLine(t *testing.T, waiting int) *queued {
	q := &queued{t: t, q: NewLine(Places{AtOnce: 1, Share: 1, Waiting: waiting, Wait: time.Hour, Refusal: refusal}, 1)}
	if err := q.q.Enter(t.Context(), 0, numbered(0)); err != nil {
		t.Fatal(err)
	}
	return q
}

// end lets all in that wait.
func (q *queued) end() {
	q.q.Leave(numbered(0))
	time.Sleep(2 * refusal) // in a bubble
	synctest.Wait()
}

// One source has half of a line, also when nobody else waits: there is room for others.
func TestASourceHasHalfOfALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := inLine(t, 8)
		for n := range 8 {
			q.come(fmt.Sprint("a", n), 0, 1)
		}
		if _, waiting := q.q.Idle(); waiting != 4 {
			t.Errorf("line-half: %d callers of one source wait in a line of 8", waiting)
		}
		q.come("b", 0, 2)
		if _, waiting := q.q.Idle(); waiting != 5 {
			t.Errorf("line-half: another source does not wait: %d do", waiting)
		}
		q.end()
	})
}

// A source takes the place in line of one that has more still afterwards. Equal ones would
// take it from each other without end.
func TestEqualSourcesDisplaceNoneOfEachOther(t *testing.T) {
	for _, c := range []struct {
		inLine  []int // callers of source 1, 2, …
		comes   int
		refused string
	}{
		{[]int{2, 2, 2, 2}, 1, "1-2"},
		{[]int{3, 2, 2, 1}, 2, "2-2"},
		{[]int{3, 2, 2, 1}, 4, "1-2"},
		{[]int{2, 2, 2, 2}, 5, "4-1"}, // of equal ones the first or the last, as it happens
	} {
		synctest.Test(t, func(t *testing.T) {
			q := inLine(t, 8)
			for source, callers := range c.inLine {
				for n := range callers {
					q.come(fmt.Sprintf("%d-%d", source+1, n), 0, source+1)
				}
			}
			own := 0
			if c.comes <= len(c.inLine) {
				own = c.inLine[c.comes-1]
			}
			q.come(fmt.Sprintf("%d-%d", c.comes, own), 0, c.comes)
			time.Sleep(refusal) // in a bubble
			synctest.Wait()
			_, refused := q.outcome()
			if equal := c.comes > len(c.inLine) && strings.HasSuffix(refused, "-1"); refused != c.refused && !equal {
				t.Errorf("line-equal: %v in line, and one of source %d: refused %q, want %s", c.inLine, c.comes, refused, c.refused)
			}
			q.end()
		})
	}
}

// Who loses a place in line is answered as late as one for whom there was none: it would come
// again at once otherwise.
func TestADisplacedCallerIsRefusedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := inLine(t, 4)
		for n := range 4 {
			q.come(fmt.Sprint(n), 0, 1+n/2)
		}
		q.come("other", 0, 3)
		time.Sleep(refusal - 1) // in a bubble
		synctest.Wait()
		if _, refused := q.outcome(); refused != "" {
			t.Errorf("line-slow: %s is refused before %v", refused, refusal)
		}
		time.Sleep(time.Nanosecond) // in a bubble
		synctest.Wait()
		if _, refused := q.outcome(); len(strings.Fields(refused)) != 1 {
			t.Errorf("line-slow: after %v %q are refused, want one", refusal, refused)
		}
		q.end()
	})
}

// Holdings of sources that have as many are not taken from each other.
func TestEqualSourcesKeepTheirHoldings(t *testing.T) {
	table := NewTable(4, 4)
	var ended []int
	hold := func(source int) (h, surplus *Holding) {
		h, surplus = table.Enter(numbered(source), false, func() { ended = append(ended, source) })
		h.Idle(false)
		return h, surplus
	}
	for n := range 4 {
		hold(1 + n/2)
	}
	for _, source := range []int{1, 2} {
		if h, surplus := hold(source); surplus != h {
			t.Errorf("table-equal: a third holding of source %d is taken from source %v", source, surplus.Source())
		}
	}
	if h, surplus := hold(3); surplus == h || surplus == nil {
		t.Error("table-equal: a source with two keeps one out that has none")
	}
	if h, surplus := hold(3); surplus != h {
		t.Errorf("table-equal: a second holding of source 3 is taken from source %v, which has two", surplus.Source())
	}
}

// Bodies of sources that have as much room are not taken from each other.
func TestEqualSourcesKeepTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := reserved
		b.Strange = b.Large
		r := rooms{t, NewMemory(b)}
		var in []*asked
		for n := range 5 {
			in = append(in, r.ask(numbered(n), false, 2<<20))
		}
		time.Sleep(2 * arriveFor) // in a bubble
		next := r.ask(numbered(9), false, 2<<20)
		time.Sleep(CallbackWait) // in a bubble
		synctest.Wait()
		if !errors.Is(next.err, ErrBusy) {
			t.Errorf("room-equal: %v", next.err)
		}
		for n, a := range in {
			if a.lost {
				t.Errorf("room-equal: body %d gave way to one of its size", n)
			}
		}
	})
}

// A body of unknown length has room for the longest until it is there, and what it has of
// that then.
func TestARoomIsAsLargeAsItsBody(t *testing.T) {
	for _, length := range []int{0, 10, firstPiece, 3 * firstPiece} {
		m := NewMemory(bodies)
		room, err := m.Reserve(t.Context(), numbered(1), false, MaxBody+1, CallbackWait, func() {})
		if err != nil {
			t.Fatal(err)
		}
		body, err := room.Fill(io.LimitReader(zeros{}, int64(length)), -1, MaxBody)
		if err != nil || len(body) != length {
			t.Fatalf("room-exact: %d bytes: %v", len(body), err)
		}
		if held := m.Held(); held != int64(cap(body)) || held > int64(max(2*length, firstPiece)+1) {
			t.Errorf("room-exact: %d bytes are held for a body of %d", held, length)
		}
		room.Release()
	}
}

// zeros are without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// What is read of documents and sent as answers counts as work.
func TestAnswersAndReadingsCount(t *testing.T) {
	for name, c := range map[string]struct {
		class Class
		work  func(context.Context, *Place) error
		each  time.Duration
	}{
		"answers": {Dear, func(_ context.Context, p *Place) error { return p.Answer(8 << 20) }, (8 << 20) * sendByte},
		"readings": {Callback, func(ctx context.Context, p *Place) error {
			return p.Document(ctx, func() error { p.Read(4 << 20); return nil })
		}, (4 << 20) * readByte},
	} {
		synctest.Test(t, func(t *testing.T) {
			const times = 400
			by, began := NewController(), time.Now()
			for range times {
				p, err := by.Admit(t.Context(), c.class, Caller{Source: numbered(1)})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.work(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				p.Leave()
			}
			pace := places[c.class].Each
			least := (times*c.each.Seconds()*1000 - float64(pace.Burst)) / pace.Rate
			if took := time.Since(began); took.Seconds() < least/2 {
				t.Errorf("work-counts: %d %s take %v, want %.0f s", times, name, took, least)
			}
			time.Sleep(time.Minute) // in a bubble
		})
	}
}

// What a request of a class that waits computes meanwhile counts: its places stay taken.
func TestComputationsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, work := range []time.Duration{0, 200 * time.Millisecond} {
			by := NewController()
			for range 40 {
				p, err := by.Admit(t.Context(), Callback, Caller{Source: numbered(1)})
				if err != nil {
					t.Fatal(err)
				}
				p.Compute(work)
				p.Leave()
			}
			if in, _ := by.Taken(Callback); (in > 0) != (work > 0) {
				t.Errorf("work-counts: after 40 computations of %v, %d places are taken", work, in)
			}
			time.Sleep(time.Minute) // in a bubble
		}
	})
}
