package bounds

import (
	"errors"
	"sync"
	"time"
)

// FileLimit is how long a peer waits for a file of the site's, of which a good file system
// answers within milliseconds.
const FileLimit = 2 * time.Second

// ErrHangs says that a file system did not answer in time.
var ErrHangs = errors.New("the file system does not answer")

// Calls are calls of a file system that may hang, as a network share does whose server is gone:
// no signal ends them. They are made one at a time. While one hangs the next are refused at once,
// so that it holds one goroutine, and no caller. The zero Calls are ready for use, and may be
// used concurrently.
type Calls struct {
	mu    sync.Mutex
	ended chan struct{} // closed when the call that is made has ended; nil while none is made
	hangs bool          // it takes longer than its caller waited
}

// Do makes a call once those before it have ended. It returns ErrHangs after limit: the call goes
// on then, if it has begun, so its results are for who knows that it has ended.
func (c *Calls) Do(limit time.Duration, call func()) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		ended, own, err := c.begin(call)
		if err != nil {
			return err
		}
		select {
		case <-ended:
			if own {
				return nil
			}
		case <-timer.C:
			return c.giveUp(ended, own)
		}
	}
}

// begin makes a call, unless another is made; own is false then.
func (c *Calls) begin(call func()) (ended chan struct{}, own bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.hangs:
		return nil, false, ErrHangs
	case c.ended != nil:
		return c.ended, false, nil
	}
	ended = make(chan struct{})
	c.ended = ended
	go func() { // its owner has given it up where it hangs
		call()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ended, c.hangs = nil, false
		close(ended)
	}()
	return ended, true, nil
}

// giveUp ends the wait for a call, which has perhaps just ended.
func (c *Calls) giveUp(ended chan struct{}, own bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own && c.ended != ended {
		return nil
	}
	c.hangs = c.hangs || own
	return ErrHangs
}
