package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fill takes as many places of a class as a thousand sources can have.
func fill(t *testing.T, c *Controller, class Class) (taken []*Place) {
	t.Helper()
	for n := range 4000 {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it does not wait
		if p, err := c.Admit(ctx, class, Caller{Source: numbered(1 + n%1000)}); err == nil {
			taken = append(taken, p)
		}
	}
	return taken
}

// What fills one class leaves every place of the others.
func TestAClassTakesNoPlaceOfAnother(t *testing.T) {
	for flooded := Callback; flooded < classes; flooded++ {
		c := NewController()
		if taken := fill(t, c, flooded); len(taken) != places[flooded].AtOnce-places[flooded].OfKnown {
			t.Errorf("class-places: %d requests of class %v are in, want %d", len(taken), flooded, places[flooded].AtOnce)
		}
		for class := Callback; class < classes; class++ {
			if class == flooded {
				continue
			}
			if _, err := c.Admit(t.Context(), class, Caller{Source: numbered(5000)}); err != nil {
				t.Errorf("class-places: class %v is full: a request of class %v: %v", flooded, class, err)
			}
		}
		for class := Callback; class < classes; class++ {
			if _, err := c.Admit(t.Context(), class, Caller{}); err != nil {
				t.Errorf("socket-places: class %v is full: a request of class %v on the socket: %v", flooded, class, err)
			}
			if _, err := c.Admit(t.Context(), class, Caller{Port: Peers, Source: Named("h2")}); err != nil {
				t.Errorf("peer-places: class %v is full: a question of class %v of a peer: %v", flooded, class, err)
			}
			if _, err := c.Admit(t.Context(), class, Caller{Port: Webhook, Source: numbered(5000)}); err != nil {
				t.Errorf("webhook-places: class %v is full: class %v of an API server: %v", flooded, class, err)
			}
		}
	}
}

// Streams of readers leave places for those of operators.
func TestStreamsOfOperatorsHavePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		taken := fill(t, c, Stream)
		if _, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(1)}); !errors.Is(err, ErrBusy) {
			t.Errorf("stream-places: one more stream: %v", err)
		}
		operators, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(1), Known: true})
		if err != nil {
			t.Fatalf("stream-places: a stream of an operator: %v", err)
		}
		operators.Leave()
		if _, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(1)}); !errors.Is(err, ErrBusy) {
			t.Errorf("stream-places: one more stream when an operator's has ended: %v", err)
		}
		taken[0].Leave()
		if _, err := c.Admit(t.Context(), Stream, Caller{Source: numbered(1)}); err != nil {
			t.Errorf("stream-places: after one has left: %v", err)
		}
	})
}

// A place is given back once, whatever its request became.
func TestPlacesAreGivenBack(t *testing.T) {
	c := NewController()
	source := Caller{Source: numbered(1)}
	p, err := c.Admit(t.Context(), Dear, source)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Document(t.Context(), func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := p.Switch(t.Context(), Stream); err != nil {
		t.Error(err)
	}
	if err := p.Switch(t.Context(), Dear); err != nil {
		t.Error(err)
	}
	if err := p.Answer(1 << 20); err != nil {
		t.Error(err)
	}
	if in, _ := c.Taken(Dear); in != 0 {
		t.Error("answer-place: a request whose answer is sent keeps the place of a dear one")
	}
	if c.answers.Held() != 1<<20 {
		t.Errorf("answer-bytes: %d bytes are held", c.answers.Held())
	}
	p.Leave()
	for class := Callback; class < classes; class++ {
		if in, waiting := c.Taken(class); in+waiting != 0 {
			t.Errorf("class %v: %d places are taken", class, in)
		}
	}
	if idle, _ := c.documents.Idle(); idle != documents.AtOnce {
		t.Errorf("documents: %d places are idle, want %d", idle, documents.AtOnce)
	}
	if c.answers.Held() != 0 {
		t.Errorf("answer-bytes: %d bytes are held by none", c.answers.Held())
	}
}

// Answers that one source does not take leave room for those of others.
func TestAnswersThatAreNotTaken(t *testing.T) {
	c := NewController()
	refused := 0
	for range 512 {
		p, err := c.Admit(t.Context(), Dear, Caller{Source: numbered(1)})
		if err != nil {
			t.Fatal(err)
		}
		if p.Answer(1<<20) != nil {
			refused++
			p.Leave()
		}
	}
	if held := c.answers.Held(); held != answers.Share || refused != 512-int(answers.Share>>20) {
		t.Errorf("answer-share: one source holds %d bytes, %d answers are refused", held, refused)
	}
	p, err := c.Admit(t.Context(), Dear, Caller{Source: numbered(2)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Answer(8 << 20); err != nil {
		t.Errorf("answer-share: another source: %v", err)
	}
}

// A class has a name for documents.
func TestClassesHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for class := Class(0); class < classes; class++ {
		seen[class.String()] = true
	}
	if len(seen) != int(classes) {
		t.Errorf("%d classes have %d names", classes, len(seen))
	}
}

// Many who ask at about the same time cost one computation.
func TestResultsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared[string, int](time.Second, 2)
		computed := 0
		get := func(key string) int {
			v, err := s.Get(key, func() (int, error) {
				computed++
				time.Sleep(time.Millisecond) // in a bubble
				return computed, nil
			})
			if err != nil {
				t.Error(err)
			}
			return v
		}
		done := make(chan int, 100)
		for range 100 {
			go func() { done <- get("a") }()
		}
		for range 100 {
			if v := <-done; v != 1 { // in a bubble
				t.Errorf("shared-once: result %d", v)
			}
		}
		time.Sleep(time.Second) // in a bubble
		if v := get("a"); v != 2 {
			t.Errorf("shared-fresh: result %d after a second", v)
		}
		for n := range 10 {
			get(fmt.Sprint(n))
		}
		if len(s.kept) > 2 {
			t.Errorf("shared-bound: %d results are kept", len(s.kept))
		}
	})
}

// Sources are an IPv4 address, a /64, or the socket.
func TestSources(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32",
		"2001:db8::1": "2001:db8::/64", "2001:db8::ffff:2": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := SourceOf(netip.MustParseAddr(text)); got.String() != want {
			t.Errorf("%s is of source %v, want %s", text, got, want)
		}
	}
	if SourceOf(netip.Addr{}).IsValid() {
		t.Error("the socket is a source of the network")
	}
}

// Work that never stops takes its part of a processor, and others of its class go on.
func TestWorkIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewController()
		const lasts, each = time.Minute, 50 * time.Millisecond
		var worked [3]atomic.Int64 // ns, of two that never stop, and one that asks now and then
		begin := func(n int, pause time.Duration) {
			for began := time.Now(); time.Since(began) < lasts; time.Sleep(pause) { // in a bubble
				p, err := c.Admit(t.Context(), Dear, Caller{Source: numbered(n)})
				if err != nil {
					continue
				}
				time.Sleep(each) // in a bubble
				worked[n].Add(int64(each))
				p.Leave()
			}
		}
		for n, connections := range []int{64, 64, 1} {
			pause := time.Duration(n/2) * time.Second
			for range connections {
				go func() { begin(n, pause) }()
			}
		}
		time.Sleep(2 * lasts) // in a bubble
		synctest.Wait()
		all := time.Duration(worked[0].Load() + worked[1].Load() + worked[2].Load())
		pace := places[Dear].All
		// the last ones wait
		most := time.Duration(pace.Burst)*time.Millisecond + time.Duration(pace.Rate/1000*float64(lasts+places[Dear].Wait))
		if all > most {
			t.Errorf("work-pace: %v of work in %v, want at most %v", all, lasts, most)
		}
		asked := lasts / (time.Second + each)
		if got := time.Duration(worked[2].Load()); got < asked/2*each {
			t.Errorf("work-pace: who asks now and then had %v of work beside a flood, asked for some %v", got, asked*each)
		}
	})
}
