//go:build e2e

package wiretap

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trivet-ha/trivet/test/testenv"
)

// Way is a way to a server, over TCP, that can be cut.
type Way struct {
	// Addr is host:port of its near end.
	Addr string

	listener net.Listener
	server   func() string
	drops    atomic.Int64
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
}

// NewWay opens one until the test ends. A connection leads to the server's host:port at that time;
// it ends where that is "".
func NewWay(t testing.TB, server func() string) *Way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	w := &Way{Addr: listener.Addr().String(), listener: listener, server: server, open: map[net.Conn]bool{}}
	var workers sync.WaitGroup
	workers.Go(w.serve)
	t.Cleanup(func() {
		_ = listener.Close() // it was open
		w.Cut()
		workers.Wait()
	})
	return w
}

// serve relays connections until the listener is closed.
func (w *Way) serve() {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		workers.Go(func() { w.relay(near) })
	}
}

func (w *Way) relay(near net.Conn) {
	defer near.Close()
	server := w.server()
	drops := w.drops.Load()
	far, err := net.Dial("tcp", server)
	if err != nil {
		return // the server's refusal is a connection that ends at once
	}
	defer far.Close()
	if !w.enter(near, drops) {
		return
	}
	defer w.leave(near)
	if w.server() != server { // it changed before the drops were counted
		return
	}
	done := make(chan error, 2)
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() { // ends when either connection does
			_, err := io.Copy(pair[0], pair[1])
			done <- errors.Join(err, near.Close(), far.Close())
		}()
	}
	<-done
	<-done
}

// enter reports whether a connection goes on, for which nothing was dropped or cut meanwhile.
func (w *Way) enter(near net.Conn, drops int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut || w.drops.Load() != drops {
		return false
	}
	w.open[near] = true
	return true
}

func (w *Way) leave(near net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
}

// Drop ends all connections.
func (w *Way) Drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drops.Add(1)
	for near := range w.open {
		_ = near.Close() // it may have ended by itself
	}
}

// Cut ends all connections and every new one at once.
func (w *Way) Cut() {
	w.set(true)
	w.Drop()
}

// Mend ends a Cut.
func (w *Way) Mend() { w.set(false) }

func (w *Way) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}
