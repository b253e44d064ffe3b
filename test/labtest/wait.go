//go:build e2e

package labtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/testwait"
)

// worthTelling is how long a wait must be to appear in the test's output, so
// that one sees where the time goes.
const worthTelling = 2 * time.Second

// eventually polls until check returns nil, and fails the test with its last
// error if it does not within limit.
func eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	began := time.Now()
	if err := testwait.Poll(context.Background(), limit, what, check); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > worthTelling {
		t.Logf("waited %v: %s", took.Round(100*time.Millisecond), what)
	}
}

// parallel calls do with 0 to n-1, at most width calls at once, and joins their
// errors.
func parallel(n, width int, do func(k int) error) error {
	var workers sync.WaitGroup
	places := make(chan struct{}, width)
	errs := make([]error, n)
	for k := range n {
		places <- struct{}{}
		workers.Go(func() {
			defer func() { <-places }()
			errs[k] = do(k)
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// freePort finds a free port of the loopback interface, below the range from
// which the kernel takes the near ends of connections: a server that is down
// for a while must find its port free.
func freePort(t testing.TB) string {
	t.Helper()
	const first, last, tries = 10000, 30000, 200
	for range tries {
		addr := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first))
		// Whoever it is for may be stopped while others look for a port: a name
		// that ends with this process keeps it.
		taken, err := net.Listen("unix", "@trivet-labtest-"+addr)
		if err != nil {
			continue
		}
		if !free(addr) {
			taken.Close()
			continue
		}
		t.Cleanup(func() { taken.Close() })
		return addr
	}
	t.Fatal("labtest: no free port was found")
	return ""
}

func free(addr string) bool {
	tcp, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	udp.Close()
	return true
}
