package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// stub serves a handler over HTTP/1.1, each connection in one goroutine. It
// leaves out what net/http's server does for guests of all kinds, which would
// take the measured peers' processor: deadlines, a second reader that notices
// who goes away, dates.
type stub struct {
	ln      net.Listener
	handler http.Handler

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // nil: closed
	running sync.WaitGroup
}

func newStub(ln net.Listener, handler http.Handler) *stub {
	s := &stub{ln: ln, handler: handler, conns: make(map[net.Conn]struct{})}
	s.running.Go(s.accept)
	return s
}

func (s *stub) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return // closed
		}
		if !s.enter(conn) {
			return
		}
		s.running.Go(func() {
			defer s.leave(conn)
			s.serve(conn)
		})
	}
}

func (s *stub) enter(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = conn.Close() // nothing was said
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *stub) leave(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = conn.Close() // everything was said
	delete(s.conns, conn)
}

// serve answers one request after the other until the client hangs up.
func (s *stub) serve(conn net.Conn) {
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn)
	w := &answer{header: make(http.Header)}
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		clear(w.header)
		w.status, w.body = http.StatusOK, w.body[:0]
		s.handler.ServeHTTP(w, r)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if w.writeTo(out) != nil {
			return
		}
	}
}

// close ends all connections and waits.
func (s *stub) close() error {
	err := s.ln.Close()
	s.mu.Lock()
	for conn := range s.conns {
		err = errors.Join(err, conn.Close())
	}
	s.conns = nil
	s.mu.Unlock()
	s.running.Wait()
	return err
}

// answer is a whole answer before it is sent.
type answer struct {
	header http.Header
	status int
	body   []byte
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *answer) writeTo(out *bufio.Writer) error {
	fmt.Fprintf(out, "HTTP/1.1 %d %s\r\n", a.status, http.StatusText(a.status))
	if a.status != http.StatusNoContent {
		a.header["Content-Length"] = []string{fmt.Sprint(len(a.body))}
	}
	for name, values := range a.header {
		for _, value := range values {
			fmt.Fprintf(out, "%s: %s\r\n", name, value)
		}
	}
	out.WriteString("\r\n") // errors stay with the writer
	out.Write(a.body)
	return out.Flush()
}
