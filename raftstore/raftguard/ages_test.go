package raftguard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// says returns a voter that answers with an age at once.
func says(age time.Duration) Question {
	return func(context.Context, uint64) (time.Duration, error) { return age, nil }
}

// refuses returns a voter that does not answer.
func refuses(context.Context, uint64) (time.Duration, error) { return 0, ErrNotYet }

// Of the majority that was silent for longest, the one that was silent for shortest counts.
func TestUntilIsOfTheMajorityWithTheGreatestAges(t *testing.T) {
	for name, c := range map[string]struct {
		voters []Question
		want   time.Duration // before now; negative: unknown
	}{
		"one of one":     {[]Question{says(5)}, 5},
		"one of two":     {[]Question{says(5), refuses}, -1},
		"two of two":     {[]Question{says(5), says(9)}, 5},
		"one of three":   {[]Question{says(5), refuses, refuses}, -1},
		"two of three":   {[]Question{refuses, says(5), says(9)}, 5},
		"three of three": {[]Question{says(5), says(1), says(9)}, 5},
		"two of four":    {[]Question{says(5), says(9), refuses, refuses}, -1},
		"three of four":  {[]Question{says(5), says(9), refuses, says(7)}, 5},
		"five of five":   {[]Question{says(1), says(2), says(3), says(4), says(5)}, 3},
		"no voters":      {nil, -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := NewAges(t.Context(), 7, c.voters)
			began := time.Now()
			go a.Ask()
			synctest.Wait()
			until, ok := a.Until(7)
			if ok != (c.want >= 0) || ok && began.Sub(until) != c.want {
				t.Errorf("majority-of-ages: %s: %v before, %v; want %v", name, began.Sub(until), ok, c.want)
			}
			if _, ok := a.Until(8); ok {
				t.Errorf("ages-of-one-term: %s: the answers for term 7 count for term 8", name)
			}
			a.End()
			synctest.Wait()
		})
	}
}

// An age counts from the arrival of its answer, and is that of the question that was
// answered: an answer is never earlier than its question.
func TestAgeCountsFromItsArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		slow := func(_ context.Context, term uint64) (time.Duration, error) {
			if asked++; asked < 3 || term != 7 {
				return time.Hour, ErrNotYet // what comes with an error is no age
			}
			time.Sleep(30 * time.Millisecond) // in a bubble: on the way
			return time.Second, nil
		}
		a := NewAges(t.Context(), 7, []Question{slow})
		began := time.Now()
		a.Ask()
		until, ok := a.Until(7)
		if after := until.Sub(began); !ok || after != 2*askPause+30*time.Millisecond-time.Second {
			t.Errorf("age-from-its-arrival: %v after the first question, %v", after, ok)
		}
	})
}

// A voter that does not answer is asked again, until the limit or the end of the leadership;
// one that hangs does not hold the others up.
func TestAskingIsBounded(t *testing.T) {
	hangs := func(ctx context.Context, _ uint64) (time.Duration, error) {
		<-ctx.Done() // in a bubble
		return 0, context.Cause(ctx)
	}
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		a := NewAges(t.Context(), 7, []Question{hangs, says(1), func(context.Context, uint64) (time.Duration, error) {
			if asked++; asked < 3 {
				return 0, errors.New("no route")
			}
			return time.Second, nil
		}})
		began := time.Now()
		go a.Ask()
		time.Sleep(2*askPause + 1) // in a bubble
		synctest.Wait()
		if _, ok := a.Until(7); !ok || asked != 3 {
			t.Errorf("asked-again: no majority after %v, a voter was asked %d times", time.Since(began), asked)
		}
		<-a.life.Done() // in a bubble
		synctest.Wait()
		if took := time.Since(began); took != agesLimit {
			t.Errorf("asking-is-bounded: a voter that hangs is asked for %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a := NewAges(t.Context(), 7, []Question{refuses, hangs})
		began := time.Now()
		time.AfterFunc(time.Second/2, a.End)
		if a.Ask(); time.Since(began) != time.Second/2 {
			t.Errorf("asking-is-bounded: voters are asked for %v, the leadership ended after 500 ms", time.Since(began))
		}
	})
}
