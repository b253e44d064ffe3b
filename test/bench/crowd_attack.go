package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// crowdRoute is what an attack asks for.
type crowdRoute struct {
	method, path string
	accept       string // a header
	body         string
	unread       bool // answers are not taken
	peers        bool // of the peers' port, whose handshakes are made and nothing else
}

func (r crowdRoute) name() string {
	name := r.method + " " + r.path
	if r.unread {
		name += " (unread)"
	}
	return name
}

// routes are those of the description of the API, those of the page, of health and of
// the peers' port, and what cost the most before work was bounded.
func (c *crowd) routes(ctx context.Context) ([]crowdRoute, error) {
	_, text, err := c.call(ctx, http.MethodGet, "http://"+c.cluster[0].api+"/v1/openapi.json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	fill := strings.NewReplacer("{node}", uuid.NewString(), "{rule}", uuid.NewString(), "{lease}", "crowd", "{key}", "crowd", "{component}", "crowd", "{member}", "crowd")
	var all []crowdRoute
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range []string{"get", "post", "put", "delete"} {
			if _, ok := document.Paths[path][method]; ok {
				all = append(all, crowdRoute{method: strings.ToUpper(method), path: fill.Replace(path), body: "{}"})
			}
		}
	}
	known := "/v1/introspection/" + c.nodes[0]
	for _, path := range []string{
		"/metrics", "/readyz", "/livez", "/v1/events?limit=10000", "/v1/events?node=" + c.nodes[0], "/v1/events?wait=50s&" + strings.Repeat("a&", 60),
		"/v1/introspection?limit=1000", known, known + "/data", "/v1/nodes/" + c.nodes[0],
		"/ui/", "/ui/api/session", "/ui/api/machines", "/ui/api/machines?q=52:54", "/ui/api/findings", "/ui/api/v1/status", "/ui/api/v1/members", "/ui/api/v1/failover",
		"/ui/api/v1/failover/remediations", "/ui/api/v1/firewall/explain/52:54:c0:00:00:01",
	} {
		all = append(all, crowdRoute{method: http.MethodGet, path: path})
	}
	return append(all,
		crowdRoute{method: http.MethodGet, path: "/v1/events?after=0", accept: "text/event-stream", unread: true},
		crowdRoute{method: http.MethodGet, path: "/v1/events?limit=1000", unread: true},
		crowdRoute{method: http.MethodGet, path: known + "/data", unread: true},
		crowdRoute{method: http.MethodPost, path: "/ui/api/session", body: `{"user":"a","password":"b"}`},
		crowdRoute{method: "handshake", path: "of the peers' port", peers: true},
	), nil
}

// attack is a number of connections that ask for one route.
type attack struct {
	route   crowdRoute
	address string
	sources int

	running  sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{} // nil: it is over
	answered map[int]int           // by status
	begun    atomic.Int64          // connections
}

func newAttack(p *process, r crowdRoute, sources int) *attack {
	a := &attack{route: r, address: p.api, sources: sources, open: make(map[net.Conn]struct{}), answered: make(map[int]int)}
	if r.peers {
		a.address = p.address
	}
	return a
}

// begin opens the connections; end closes them.
func (a *attack) begin(ctx context.Context) {
	for range crowdConns {
		a.running.Go(func() {
			for ctx.Err() == nil {
				a.connection(ctx)
				if pause(ctx, 10*time.Millisecond) != nil {
					return
				}
			}
		})
	}
}

func (a *attack) end() {
	a.mu.Lock()
	for c := range a.open {
		_ = c.Close() // wakes what it waits for
	}
	a.open = nil
	a.mu.Unlock()
	a.running.Wait()
}

// String tells what the attack was answered.
func (a *attack) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var text strings.Builder
	for _, status := range slices.Sorted(maps.Keys(a.answered)) {
		fmt.Fprintf(&text, "%d × %d, ", a.answered[status], status)
	}
	return fmt.Sprintf("%s%d connections", text.String(), a.begun.Load())
}

// keep notes an open connection, unless the attack is over.
func (a *attack) keep(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		return false
	}
	a.open[c] = struct{}{}
	return true
}

func (a *attack) forget(c net.Conn) {
	_ = c.Close() // whatever became of it
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, c)
}

// connection asks on one connection until that ends. With many sources each connection
// has another one.
func (a *attack) connection(ctx context.Context) {
	n := int(a.begun.Add(1)) % a.sources
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, byte(n>>8), byte(n&0xff)|1)}, Timeout: 5 * time.Second}
	if a.sources > 1 {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, byte(10+n/250), byte(n%250), 1)}
	}
	c, err := d.DialContext(ctx, "tcp", a.address)
	if err != nil {
		return // the peer has no more room
	}
	defer a.forget(c)
	if !a.keep(c) {
		return
	}
	if a.route.peers {
		t := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // it attacks
		if t.HandshakeContext(ctx) == nil {
			a.note(http.StatusOK)
		}
		return
	}
	a.ask(c)
}

func (a *attack) note(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered[status]++
}

// ask sends requests and takes their answers, or leaves them.
func (a *attack) ask(c net.Conn) {
	r := a.route
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		r.method, r.path, r.accept, len(r.body), r.body)
	in := bufio.NewReader(c)
	for {
		if _, err := io.WriteString(c, request); err != nil {
			return
		}
		resp, err := http.ReadResponse(in, &http.Request{Method: r.method})
		if err != nil {
			return
		}
		a.note(resp.StatusCode)
		if r.unread && resp.StatusCode == http.StatusOK {
			one := make([]byte, 1)
			for err := error(nil); err == nil; { // a byte a second
				_, err = in.Read(one)
				time.Sleep(time.Second)
			}
			return
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.Close {
			return
		}
	}
}
