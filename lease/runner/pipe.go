package runner

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
)

// What the runner tells the guard is a line each: a verb and a number.
const (
	verbDeadline = "deadline" // ns of CLOCK_BOOTTIME
	verbSignal   = "signal"   // its number
	verbKill     = "kill"     // 0: the lease is lost
)

// order is one line.
type order struct {
	verb  string
	value int64
}

func (o order) String() string { return fmt.Sprintf("%s %d\n", o.verb, o.value) }

// readOrders hands on what the runner says, and closes the channel when there is no
// runner any more, or none that makes sense.
func readOrders(r io.Reader) <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var o order
			if _, err := fmt.Sscanf(lines.Text(), "%s %d", &o.verb, &o.value); err != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// Why the program ended.
const (
	whyItself   = "itself"
	whyDeadline = "deadline" // the guard ended it, at the lease's
	whyLost     = "lost"     // the runner had it killed
	whyOrphaned = "orphaned" // the runner has died
	whyNoStart  = "nostart"  // it never began
	whyFailed   = "failed"   // the guard could not watch it, and ended it
)

// report is the guard's last word.
type report struct {
	why   string
	code  int           // as a shell tells it: 128 and a signal's number if one killed it
	after time.Duration // from the deadline to the end of the last process
	text  string        // of an error
}

func (r report) String() string { return fmt.Sprintf("%s %d %d %s\n", r.why, r.code, r.after, r.text) }

const maxReport = 4 << 10 // bytes

// readReport reads to the end of the guard. ok tells whether it said anything.
func readReport(in io.Reader) (r report, ok bool) {
	text, err := io.ReadAll(io.LimitReader(in, maxReport))
	if err != nil {
		return r, false
	}
	if _, err := fmt.Sscanf(string(text), "%s %d %d", &r.why, &r.code, &r.after); err != nil {
		return r, false
	}
	if words := strings.SplitN(strings.TrimSpace(string(text)), " ", 4); len(words) == 4 {
		r.text = words[3]
	}
	return r, true
}

// codeOf is a program's end as a shell tells it.
func codeOf(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
