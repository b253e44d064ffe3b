package bounds

import (
	"errors"
	"sync"
	"time"
)

// FileLimit is how long a peer waits for a file of the site's, of which a good file system
// answers within milliseconds.
const FileLimit = 2 * time.Second

// hangPause is how long one call hangs before the next is tried: the path may lead to another file
// system by then. While n calls hang it is n² times as long, so an hour leaves 7 of them and a day 20.
const hangPause = 30 * time.Second

var (
	// ErrHangs says that a file system did not answer in time.
	ErrHangs = errors.New("the file system does not answer")
	// ErrBusy says that a call did not get its turn in time, of a file system that answers.
	ErrBusy = errors.New("the file system is too slow for all that is to be done there")
)

// Calls are calls of a file system that may hang, as a network share does whose server is gone:
// no signal ends them. They are made one at a time. While one hangs the next are refused at once but
// for a try now and then, so that it holds a few goroutines, and no caller. The zero Calls are ready for
// use, and may be used concurrently.
type Calls struct {
	mu     sync.Mutex
	newest *fileCall // nil once it has ended, or another one while it hung
	open   int       // calls that have not ended
	begun  int       // calls
	taken  int       // the number of the newest one that has ended
}

// fileCall is one call.
type fileCall struct {
	number int
	began  time.Time
	again  bool          // those before it hang
	ended  chan struct{} // closed when it has
}

// Do makes a call once those before it have ended, for which it waits up to limit. It returns ErrHangs
// when the call has taken limit: it goes on then, so its results are for who knows that it has ended.
func (c *Calls) Do(limit time.Duration, call func()) error { return c.DoInTurn(limit, limit, call) }

// DoInTurn is Do that waits up to turn for the calls before it, and returns ErrBusy if none of them hangs.
func (c *Calls) DoInTurn(turn, limit time.Duration, call func()) error {
	return c.do(turn, limit, func() func() { call(); return nil })
}

// Take is Do of a look whose result take puts in force, nil for none: also one that ends late, unless
// a later one has ended before it. Only one take runs at a time.
func (c *Calls) Take(limit time.Duration, look func() (take func())) error {
	return c.do(limit, limit, look)
}

func (c *Calls) do(turn, limit time.Duration, look func() func()) error {
	timer := time.NewTimer(turn)
	defer timer.Stop()
	for {
		made, own, err := c.begin(limit, look)
		switch {
		case err != nil:
			return err
		case own:
			return made.wait(limit)
		}
		select {
		case <-made.ended:
		case <-timer.C:
			if time.Since(made.began) < limit {
				return ErrBusy
			}
			return ErrHangs
		}
	}
}

// begin makes a call, unless another is made; own is false then.
func (c *Calls) begin(limit time.Duration, look func() func()) (made *fileCall, own bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.newest; n != nil {
		switch age := time.Since(n.began); {
		case !n.again && age < limit:
			return n, false, nil
		case age < time.Duration(c.open*c.open)*hangPause:
			return nil, false, ErrHangs
		}
	}
	c.begun++
	c.open++
	made = &fileCall{number: c.begun, began: time.Now(), again: c.newest != nil, ended: make(chan struct{})}
	c.newest = made
	go func() { c.end(made, look()) }() // its owner has given it up where it hangs
	return made, true, nil
}

// end ends a call. One that hung and ends shows that the file system answers.
func (c *Calls) end(made *fileCall, take func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.newest == made || c.newest != nil && c.newest.again {
		c.newest = nil
	}
	if made.number > c.taken {
		c.taken = made.number
		if take != nil {
			take()
		}
	}
	close(made.ended)
}

// wait waits for the end of a call by its owner.
func (made *fileCall) wait(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-made.ended:
		return nil
	case <-timer.C:
	}
	select {
	case <-made.ended: // just now
		return nil
	default:
		return ErrHangs
	}
}
