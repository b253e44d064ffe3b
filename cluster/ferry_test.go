package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/raftstore"
)

// pier is a ferry whose calls wait until the test lets them go, one at a time.
type pier struct {
	ferry
	carried chan []string // the questions of each call that left
	release chan struct{}
	ended   chan error // why a call that was abandoned ended
	stop    context.CancelFunc
}

func newPier(t *testing.T, calls int) *pier {
	life, stop := context.WithCancel(t.Context())
	p := &pier{carried: make(chan []string, 64), release: make(chan struct{}), ended: make(chan error, 64), stop: stop}
	p.ferry = ferry{life: life, calls: calls, most: 3, room: 10, carry: p.carry}
	return p
}

func (p *pier) carry(ctx context.Context, tickets []*ticket) {
	var questions []string
	for _, t := range tickets {
		questions = append(questions, string(t.question))
	}
	p.carried <- questions
	select {
	case <-p.release:
	case <-ctx.Done():
		p.ended <- ctx.Err()
	}
	for _, t := range tickets {
		t.answer, t.err = bytes.ToUpper(t.question), ctx.Err()
	}
}

// left returns the questions of the calls that left since the last look.
func (p *pier) left() [][]string {
	synctest.Wait()
	var all [][]string
	for {
		select {
		case questions := <-p.carried:
			all = append(all, questions)
		default:
			return all
		}
	}
}

// asked is the end of an ask.
type asked struct {
	answer string
	err    error
}

func (p *pier) ask(ctx context.Context, question string) <-chan asked {
	out := make(chan asked, 1)
	go func() {
		answer, err := p.ferry.ask(ctx, []byte(question))
		out <- asked{string(answer), err}
	}()
	synctest.Wait() // so that questions come in the order of the test
	return out
}

func same(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) }

func TestQuestionsGatherWhileACallIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPier(t, 1)
		var answers []<-chan asked
		for _, q := range []string{"a", "b", "c", "d", "e", "1234567", "890", "1"} {
			answers = append(answers, p.ask(t.Context(), q))
		}
		if got := p.left(); !same(got, [][]string{{"a"}}) {
			t.Fatalf("under way: %q; a question that waits must not join a call that left", got)
		}
		var rest [][]string
		for range 4 {
			p.release <- struct{}{}
			rest = append(rest, p.left()...)
		}
		if want := [][]string{{"b", "c", "d"}, {"e", "1234567"}, {"890", "1"}}; !same(rest, want) {
			t.Errorf("then %q, want %q: three questions and ten bytes a call", rest, want)
		}
		for i, q := range []string{"A", "B", "C", "D", "E", "1234567", "890", "1"} {
			if got := <-answers[i]; got.answer != q || got.err != nil {
				t.Errorf("answer %d is %q, %v", i, got.answer, got.err)
			}
		}
		p.close()
	})
}

func TestTwoCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPier(t, 2)
		for _, q := range []string{"a", "b", "c", "d"} {
			p.ask(t.Context(), q)
		}
		if got := p.left(); !same(got, [][]string{{"a"}, {"b"}}) {
			t.Errorf("under way: %q", got)
		}
		p.release <- struct{}{}
		if got := p.left(); !same(got, [][]string{{"c", "d"}}) {
			t.Errorf("then %q", got)
		}
		p.stop()
		p.close()
	})
}

// A question that is given up before it left was asked of nobody, and never
// will be; after that nobody can say.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPier(t, 1)
		why := errors.New("no patience")
		first, give := context.WithCancelCause(t.Context())
		one := p.ask(first, "one")
		second, giveToo := context.WithCancelCause(t.Context())
		two := p.ask(second, "two")
		three := p.ask(t.Context(), "three")

		giveToo(why)
		if got := <-two; !errors.Is(got.err, raftstore.ErrBusy) || !errors.Is(got.err, why) {
			t.Errorf("withdrawn: %v, want ErrBusy and the cause", got.err)
		}
		p.left()
		give(why)
		if got := <-one; !errors.Is(got.err, why) || errors.Is(got.err, raftstore.ErrBusy) {
			t.Errorf("given up under way: %v, want the cause and no promise", got.err)
		}
		if err := <-p.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a call that nobody waits for ended with %v", err)
		}
		if got := p.left(); !same(got, [][]string{{"three"}}) {
			t.Errorf("then %q; what was withdrawn must not be sent", got)
		}
		p.release <- struct{}{}
		if got := <-three; got.answer != "THREE" || got.err != nil {
			t.Errorf("%q, %v", got.answer, got.err)
		}
		p.close()
	})
}

// A call goes on while anybody waits for it.
func TestOneOfTwoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPier(t, 1)
		p.ask(t.Context(), "a")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b, c := p.ask(short, "b"), p.ask(t.Context(), "c")
		p.release <- struct{}{}
		if got := <-b; !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("b: %v", got.err)
		}
		p.release <- struct{}{}
		if got := <-c; got.answer != "C" || got.err != nil {
			t.Errorf("c: %q, %v", got.answer, got.err)
		}
		p.close()
	})
}

func TestClosedFerry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPier(t, 1)
		a, b := p.ask(t.Context(), "a"), p.ask(t.Context(), "b")
		p.stop()
		p.close()
		for i, end := range []<-chan asked{a, b} {
			if got := <-end; got.err == nil {
				t.Errorf("question %d was answered %q", i, got.answer)
			}
		}
		if got := <-p.ask(t.Context(), "c"); !errors.Is(got.err, raftstore.ErrNoLeader) {
			t.Errorf("afterwards: %v", got.err)
		}
	})
}

func TestParcels(t *testing.T) {
	tickets := func() []*ticket { return []*ticket{{question: []byte("one")}, {}, {question: []byte("three")}} }
	commands, err := unpackParcels(packParcels(tickets()))
	if err != nil || fmt.Sprintf("%q", commands) != `["one" "" "three"]` {
		t.Fatalf("%q, %v", commands, err)
	}
	whole := packParcels(tickets())
	for n := range whole {
		got, err := unpackParcels(whole[:n])
		if err == nil && len(packParcels(tickets()[:len(got)])) != n {
			t.Errorf("%d of %d bytes are taken for %q", n, len(whole), got)
		}
	}
	if _, err := unpackParcels(make([]byte, (maxParcels+1)*parcelHead)); err == nil {
		t.Errorf("%d commands are taken", maxParcels+1)
	}
}

func TestResults(t *testing.T) {
	var whole []byte
	whole = appendResult(whole, []byte("done"), nil)
	whole = appendResult(whole, nil, raftstore.ErrBusy)
	whole = appendResult(whole, nil, raftstore.ErrNotLeader)
	whole = appendResult(whole, nil, errors.New("something else"))
	for n := range len(whole) + 1 {
		tickets := []*ticket{{}, {}, {}, {}}
		readResults(whole[:n], tickets)
		for i, want := range []error{nil, raftstore.ErrBusy, raftstore.ErrNotLeader} {
			got := tickets[i].err
			if errors.Is(got, errParcels) { // cut off: unknown
				continue
			}
			if !errors.Is(got, want) {
				t.Errorf("%d bytes: outcome %d is %v, want %v", n, i, got, want)
			}
		}
		if n == len(whole) && (string(tickets[0].answer) != "done" || tickets[3].err == nil || errors.Is(tickets[3].err, errParcels)) {
			t.Errorf("%q, %v", tickets[0].answer, tickets[3].err)
		}
		if n < len(whole) && !errors.Is(tickets[3].err, errParcels) {
			t.Errorf("%d bytes: the last outcome, cut off, is %v", n, tickets[3].err)
		}
	}
}
