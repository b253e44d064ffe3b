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

	"github.com/trivet-ha/trivet/cluster/pki"
)

// flood is the connections of an attack, in a process of their own.
type flood struct {
	attackOrder
	end    pki.Endpoint // with stolen credentials
	sender string       // what each connection writes for a request

	running  sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]struct{} // nil: it is over
	answered map[int]int           // by status
	begun    atomic.Int64          // connections
}

// serveAttack reads an order, attacks until in ends, and says what it was answered.
func serveAttack(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the order of an attack: %w", err)
	}
	f := &flood{open: make(map[net.Conn]struct{}), answered: make(map[int]int)}
	if err := json.Unmarshal(text, &f.attackOrder); err != nil {
		return fmt.Errorf("read the order of an attack: %w", err)
	}
	if f.Credentials != nil {
		cred, err := pki.ParseCredentials(f.Credentials)
		if err != nil {
			return err
		}
		f.end = pki.Endpoint{Credentials: func() *pki.Credentials { return cred }, Now: time.Now}
	}
	r := f.Route
	if r.Padding > 0 {
		r.Body = `{"inventory":{"disks":[` + strings.Repeat(`{"name":"/dev/sda","size":1},`, r.Padding/29) + `{}]}}`
	}
	f.Route.Body = r.Body
	length := len(r.Body)
	if r.Silent {
		length++
	}
	f.sender = fmt.Sprintf(
		"%s %s HTTP/1.1\r\nHost: x\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		r.Method, r.Path, r.Accept, length, r.Body)
	ctx, quiet := context.WithCancel(ctx)
	f.begin(ctx)
	_, err = io.Copy(io.Discard, lines)
	quiet()
	f.close()
	fmt.Fprintln(out, f)
	return err
}

// begin opens the connections; close closes them.
func (f *flood) begin(ctx context.Context) {
	for range crowdConns {
		f.running.Go(func() {
			for ctx.Err() == nil {
				f.connection(ctx)
				if pause(ctx, 10*time.Millisecond) != nil {
					return
				}
			}
		})
	}
}

func (f *flood) close() {
	f.mu.Lock()
	for c := range f.open {
		_ = c.Close() // wakes what it waits for
	}
	f.open = nil
	f.mu.Unlock()
	f.running.Wait()
}

// String tells what the attack was answered.
func (f *flood) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text strings.Builder
	for _, status := range slices.Sorted(maps.Keys(f.answered)) {
		fmt.Fprintf(&text, "%d × %d, ", f.answered[status], status)
	}
	return fmt.Sprintf("%s%d connections", text.String(), f.begun.Load())
}

// keep notes an open connection, unless the attack is over.
func (f *flood) keep(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return false
	}
	f.open[c] = struct{}{}
	return true
}

func (f *flood) forget(c net.Conn) {
	_ = c.Close() // whatever became of it
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// connection asks on one connection until that ends. With many sources each connection
// has another one.
func (f *flood) connection(ctx context.Context) {
	n := int(f.begun.Add(1)) % f.Sources
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 0, 1)}, Timeout: 5 * time.Second}
	if f.Sources > 1 {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, byte(10+n/250), byte(n%250), 1)}
	}
	c, err := d.DialContext(ctx, "tcp", f.Address)
	if err != nil {
		return // the peer has no more room
	}
	defer f.forget(c)
	if !f.keep(c) || f.Route.Method == onlyConnect {
		return
	}
	if f.Route.At != atPeers && f.Route.At != atWebhook {
		f.ask(c)
		return
	}
	t := tls.Client(c, f.tls())
	if t.HandshakeContext(ctx) != nil {
		return
	}
	switch {
	case f.Route.Method == onlyHandshake:
		f.note(http.StatusOK)
	case f.Route.At == atPeers:
		f.askPeer(ctx, t)
	default:
		f.ask(t)
	}
}

// tls is the attacker's side of a handshake: with stolen credentials as a peer's.
func (f *flood) tls() *tls.Config {
	protocol := "h2"
	if f.Route.At == atWebhook {
		protocol = "http/1.1"
	}
	if f.Credentials != nil {
		return pki.ClientTLS(f.end, "", protocol)
	}
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}} //nolint:gosec // it attacks
}

func (f *flood) note(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered[status]++
}

// askPeer sends requests over HTTP/2 on a connection, one after the other.
func (f *flood) askPeer(ctx context.Context, c net.Conn) {
	used := false
	web := &http.Transport{Protocols: new(http.Protocols),
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			if used {
				return nil, net.ErrClosed
			}
			used = true
			return c, nil
		}}
	web.Protocols.SetHTTP2(true)
	defer web.CloseIdleConnections()
	for {
		r, err := http.NewRequestWithContext(ctx, f.Route.Method, "https://"+f.Address+f.Route.Path,
			strings.NewReader(f.Route.Body))
		if err != nil {
			return
		}
		resp, err := web.RoundTrip(r)
		if err != nil {
			return
		}
		f.note(resp.StatusCode)
		_, err = io.Copy(io.Discard, resp.Body)
		if errors.Join(err, resp.Body.Close()) != nil {
			return
		}
	}
}

// ask sends requests and takes their answers, or leaves them.
func (f *flood) ask(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		if _, err := io.WriteString(c, f.sender); err != nil {
			return
		}
		resp, err := http.ReadResponse(in, &http.Request{Method: f.Route.Method})
		if err != nil {
			return
		}
		f.note(resp.StatusCode)
		if f.Route.Unread && resp.StatusCode == http.StatusOK {
			one := make([]byte, 1)
			for err := error(nil); err == nil; { // a byte a second
				_, err = c.Read(one) // what in has is a moment old, and does not end with the connection
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
