// Package labstop stops the process where a test asks for it, and turns its wall
// clock back. Only a test's binary has it (labtest.StoppableBinary).
package labstop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dir is where requests lie; the linker sets it. A request is a file PID.PLACE;
// it is met once, and "back" in it turns the clock back meanwhile.
var dir string

// turn is by how much, in seconds.
const turn = 5 * 3600

// step is by how many seconds the wall clock is ahead.
var step atomic.Int64

// follow has the clock step to what a file says, in seconds, within a tenth of a second.
// The variable LABSTOP_CLOCK names it; a test may write it at any time.
var follow = sync.OnceFunc(func() {
	path := os.Getenv("LABSTOP_CLOCK")
	if path == "" {
		return
	}
	read := func() {
		text, err := os.ReadFile(path)
		if err != nil {
			return
		}
		if ahead, err := strconv.ParseInt(string(text), 10, 32); err == nil {
			step.Store(ahead)
		}
	}
	read()
	go func() {
		for range time.Tick(100 * time.Millisecond) {
			read()
		}
	}()
})

func request(place string) string {
	return filepath.Join(dir, fmt.Sprintf("%d.%s", os.Getpid(), place))
}

// At stops the process, if that was asked for at this place. The signal goes to
// the calling thread, which therefore does not come back from sending it before
// somebody lets it go on.
func At(place string) {
	how, err := os.ReadFile(request(place))
	if err != nil || os.Remove(request(place)) != nil {
		return
	}
	if string(how) == "back" {
		step.Store(-turn)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		panic(err)
	}
}

type key struct{}

// Mark leads a write to a place: Before, called with the context that comes
// back, is At. If a stop is asked for there the context never ends, so that the
// write is made however late it is, and the kernel alone can refuse it.
func Mark(ctx context.Context, place string) context.Context {
	if _, err := os.Stat(request(place)); err != nil {
		return ctx
	}
	return context.WithValue(context.WithoutCancel(ctx), key{}, place)
}

// Before is At, if the write was marked.
func Before(ctx context.Context) {
	if place, marked := ctx.Value(key{}).(string); marked {
		At(place)
	}
}

// Lacks is what the kernel says to a request for a part that it was built
// without, if the process shall believe that of this one.
func Lacks(part string, said error) error {
	if os.Getenv("LABSTOP_LACKS") == part {
		return said
	}
	return nil
}

// Said writes to the log what the kernel said to a marked write.
func Said(ctx context.Context, err error) error {
	if place, marked := ctx.Value(key{}).(string); marked {
		fmt.Fprintf(os.Stderr, "the kernel said to the late %s: %v\n", place, err)
	}
	return err
}

// Now is time.Now as it is after somebody set the wall clock: the monotonic reading goes
// on. A Time with both has its wall clock's seconds in 33 bits above 30 of nanoseconds.
func Now() time.Time {
	follow()
	now := time.Now()
	if wall := (*uint64)(unsafe.Pointer(&now)); *wall>>63 == 1 {
		*wall += uint64(step.Load()) << 30
	}
	return now
}
