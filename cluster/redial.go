package cluster

import (
	"net"
	"sync"
	"time"
)

// redial closes raft's connections to a peer that answers again, and ends its
// dials: those that began before the peer was found silent wait for TCP's next
// repetition, up to raft's limit of ten seconds.
type redial struct {
	mu       sync.Mutex
	attempts map[*attempt]struct{}
}

// attempt is a connection of raft to a peer, or a dial under way.
type attempt struct {
	id    string
	began time.Time
	end   func()
}

// begin notes a dial to a peer; end must be able to end it at any time.
func (r *redial) begin(id string, end func()) *attempt {
	w := &attempt{id: id, began: time.Now(), end: end}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts == nil {
		r.attempts = make(map[*attempt]struct{})
	}
	r.attempts[w] = struct{}{}
	return w
}

// connected makes closing the connection the end of the attempt.
func (r *redial) connected(w *attempt, conn net.Conn) net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.end = func() { conn.Close() }
	return &trackedConn{Conn: conn, over: func() { r.forget(w) }}
}

func (r *redial) forget(w *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, w)
}

// trackedConn tells when it is closed.
type trackedConn struct {
	net.Conn
	over func()
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.over()
	return c.Conn.Close()
}

// Redial makes raft connect to a peer again: connections and dials to it that began
// before failed end.
func (p *Port) Redial(id string, failed time.Time) {
	p.redial.mu.Lock()
	var ends []func()
	for w := range p.redial.attempts { // order-free: each on its own
		if w.id == id && w.began.Before(failed) {
			ends = append(ends, w.end)
		}
	}
	p.redial.mu.Unlock()
	for _, end := range ends {
		end()
	}
}
