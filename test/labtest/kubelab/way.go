//go:build e2e

package kubelab

import (
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"sync"

	"github.com/trivet-ha/trivet/test/testenv"
)

// Way is a way to the API server that can be cut.
type Way struct {
	// Kubeconfig leads this way.
	Kubeconfig string

	listener net.Listener
	server   string
	mu       sync.Mutex
	cut      bool
	open     map[net.Conn]bool
}

// Way opens a way of its own to the API server for who has a kubeconfig.
func (k *Cluster) Way(kubeconfig string) *Way {
	k.t.Helper()
	text, err := os.ReadFile(kubeconfig)
	testenv.Must(k.t, err)
	found := regexp.MustCompile(`https://(127\.0\.0\.1:\d+)`).FindSubmatch(text)
	if found == nil {
		k.t.Fatalf("%s names no server", kubeconfig)
	}
	c := &Way{Kubeconfig: kubeconfig + "-way", server: string(found[1]), open: map[net.Conn]bool{}}
	c.listener, err = net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(k.t, err)
	text = regexp.MustCompile(`https://127\.0\.0\.1:\d+`).ReplaceAll(text, []byte("https://"+c.listener.Addr().String()))
	testenv.Must(k.t, os.WriteFile(c.Kubeconfig, text, 0o600))
	var workers sync.WaitGroup
	workers.Go(c.serve)
	k.t.Cleanup(func() {
		_ = c.listener.Close() // it was open
		c.Cut()
		workers.Wait()
	})
	return c
}

// serve relays connections until the listener is closed.
func (c *Way) serve() {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		workers.Go(func() { c.relay(near) })
	}
}

func (c *Way) relay(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.server)
	if err != nil {
		return // the server's refusal is a connection that ends at once
	}
	defer far.Close()
	if !c.enter(near) {
		return
	}
	defer c.leave(near)
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

func (c *Way) enter(near net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cut {
		c.open[near] = true
	}
	return !c.cut
}

func (c *Way) leave(near net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, near)
}

// Cut ends all connections and every new one at once.
func (c *Way) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for near := range c.open {
		_ = near.Close() // it may have ended by itself
	}
}

// Mend ends a Cut.
func (c *Way) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = false
}
