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
