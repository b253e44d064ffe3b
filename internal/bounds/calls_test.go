package bounds

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call that hangs is waited for up to the limit, and the next are refused at once, until it ends.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		made := 0
		do := func(what string, call func(), want error, wait time.Duration) {
			t.Helper()
			began := time.Now()
			if err := c.Do(FileLimit, call); !errors.Is(err, want) || time.Since(began) != wait {
				t.Errorf("hang-is-bounded: %s: %v after %v, want %v after %v", what, err, time.Since(began), want, wait)
			}
		}
		do("a call", func() { made++ }, nil, 0)
		do("a slow one", func() { time.Sleep(time.Second) }, nil, time.Second)
		share := make(chan struct{})
		go do("one that hangs", func() { <-share }, ErrHangs, FileLimit)
		synctest.Wait()
		do("one that waits for it", func() { made++ }, ErrHangs, FileLimit)
		synctest.Wait()
		do("the next", func() { made++ }, ErrHangs, 0)
		close(share)
		synctest.Wait()
		do("after it ended", func() { made++ }, nil, 0)
		if made != 2 {
			t.Errorf("hang-is-bounded: %d calls were made", made)
		}
	})
}

// A path that leads to another file system is found although the call of the one before never ends, and what
// that had to say counts no more.
func TestCallsGoOnAfterOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		share, state := make(chan struct{}), "none"
		take := func(found string, wait chan struct{}) error {
			return c.Take(FileLimit, func() func() {
				if wait != nil {
					<-wait
				}
				return func() { state = found }
			})
		}
		if err := take("old", share); !errors.Is(err, ErrHangs) {
			t.Error(err)
		}
		for began := time.Now(); time.Since(began) < time.Minute && take("new", nil) != nil; {
			time.Sleep(time.Second) // in a bubble
		}
		close(share)
		synctest.Wait()
		if state != "new" || c.open != 0 {
			t.Errorf("hang-ends: the state is %q, %d calls are open", state, c.open)
		}
	})
}

// Few calls hang of a share that is away for a day, none holds another caller, and one that ends ends that.
func TestCallsThatHangAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		share, waited := make(chan struct{}), time.Duration(0)
		began := time.Now()
		for time.Since(began) < 24*time.Hour {
			since := time.Now()
			if err := c.Do(FileLimit, func() { <-share }); !errors.Is(err, ErrHangs) {
				t.Errorf("hang-is-bounded: %v", err)
			}
			waited += time.Since(since)
			time.Sleep(time.Second) // in a bubble
		}
		made := c.open
		if made < 10 || made > 24 || waited != time.Duration(made)*FileLimit {
			t.Errorf("hang-is-bounded: %d calls hang, and were waited for for %v", made, waited)
		}
		share <- struct{}{}
		synctest.Wait()
		if err := c.Do(FileLimit, func() {}); err != nil || c.open != made-1 {
			t.Errorf("hang-ends: %v, %d calls hang", err, c.open)
		}
		close(share)
	})
}

// Calls that wait for their turn on a file system that answers do not make it one that hangs.
func TestCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		errs := make(chan error)
		for range 10 {
			go func() { errs <- c.DoInTurn(5*time.Second, FileLimit, func() { time.Sleep(time.Second) }) }() // in a bubble
		}
		late := 0
		for range 10 {
			if err := <-errs; errors.Is(err, ErrBusy) {
				late++
			} else if err != nil {
				t.Errorf("turn-is-no-hang: %v", err)
			}
		}
		if late < 4 || late > 5 {
			t.Errorf("turn-is-no-hang: %d calls did not get their turn within 5 s", late)
		}
	})
}
