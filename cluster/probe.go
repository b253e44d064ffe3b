package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"golang.org/x/net/http2"

	"github.com/trivet-ha/trivet/fsm/membership"
)

// PathContact is where a peer answers probes.
const PathContact = "/peer/v1/contact"

// Line probes other peers over the peers' port, each over a connection of its own.
// After a probe without an answer it hangs up and dials for the next one: TCP
// repeats what a broken network has swallowed at ever longer intervals, and would
// find out that the network is back many seconds later.
//
// Probes of different peers may run concurrently, those of one peer may not.
type Line struct {
	access *Access

	mu    sync.Mutex
	calls map[string]*call // by server address; at most maxClients
}

// call is the connection to one peer.
type call struct {
	conn   net.Conn
	client *http2.ClientConn
}

// NewLine probes the peers that access allows, with its credentials.
func NewLine(access *Access) *Line { return &Line{access: access, calls: make(map[string]*call)} }

// Probe implements Prober.
func (l *Line) Probe(ctx context.Context, m membership.Member) (Report, error) {
	c, err := l.call(ctx, m)
	if err != nil {
		return Report{}, fmt.Errorf("probe %s: %w", m.Name, err)
	}
	r, err := c.probe(ctx, m)
	if err != nil {
		l.hangUp(m)
		return Report{}, fmt.Errorf("probe %s: %w", m.Name, err)
	}
	return r, nil
}

// probe sends one request. An answer that is no Report is an answer all the same:
// the peer runs another version.
func (c *call) probe(ctx context.Context, m membership.Member) (r Report, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.Address+PathContact, nil)
	if err != nil {
		return r, err
	}
	resp, err := c.client.RoundTrip(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxWords))
	if err != nil || resp.StatusCode != http.StatusOK {
		return r, err
	}
	if json.Unmarshal(body, &r) != nil {
		return Report{}, nil
	}
	return r, nil
}

// call returns the connection to a member, a new one if need be.
func (l *Line) call(ctx context.Context, m membership.Member) (*call, error) {
	address := ServerAddress(m.ID, m.Address)
	l.mu.Lock()
	c := l.calls[address]
	l.mu.Unlock()
	if c != nil && c.client.CanTakeNewRequest() {
		return c, nil
	}
	if c != nil {
		l.hangUp(m)
	}
	conn, err := l.access.dial(ctx, m.ID, m.Address, protocolHTTP)
	if err != nil {
		return nil, err
	}
	client, err := (&http2.Transport{}).NewClientConn(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c = &call{conn, client}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= maxClients { // addresses of earlier members
		l.closeAll()
	}
	l.calls[address] = c
	return c, nil
}

func (l *Line) hangUp(m membership.Member) {
	address := ServerAddress(m.ID, m.Address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[address]; c != nil {
		c.conn.Close()
		delete(l.calls, address)
	}
}

// closeAll hangs up everywhere; the caller holds the lock.
func (l *Line) closeAll() {
	for _, c := range l.calls { // order-free: each on its own
		c.conn.Close()
	}
	clear(l.calls)
}

// Close hangs up everywhere, when no probe is under way any more.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeAll()
}

// ContactHandler answers the probes of other members. host returns what this peer reports
// about its own host. It must not block.
func ContactHandler(c *Contacts, host func() json.RawMessage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(c.Report(host()))
		reply(w, body, err)
	})
}
