// Package floating is what a floating IP is to a browser: one address that leads to a peer that
// answers. Tests of the page and its measurements stand behind it.
package floating

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
)

// Address leads to one of several peers. Its methods may be called concurrently.
type Address struct {
	*httptest.Server
	peers []*url.URL

	mu sync.Mutex // guards at
	at int        // index of the peer that answers
}

// Open opens an address before the peers at these URLs; the first answers. End closes it.
func Open(urls []string) (*Address, error) {
	a := &Address{}
	for _, text := range urls {
		peer, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		a.peers = append(a.peers, peer)
	}
	a.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(a.peer())
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1, // as events come
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(err, context.Canceled) { // the page gave the request up
				a.moveFrom(r.URL.Host)
			}
			panic(http.ErrAbortHandler) // the connection ends, as that to a dead host
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	})
	return a, nil
}

func (a *Address) peer() *url.URL {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peers[a.at]
}

// MoveTo moves the address to a peer.
func (a *Address) MoveTo(at int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = at
}

// moveFrom moves the address to the next peer, once for all requests that the host did not
// answer.
func (a *Address) moveFrom(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peers[a.at].Host == host {
		a.at = (a.at + 1) % len(a.peers)
	}
}

// End cuts the callers off and closes the address.
func (a *Address) End() {
	a.CloseClientConnections()
	a.Close()
}
