package haconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A dead peer is out within two seconds: its port refuses connections, which shows at
// the next probe, or its host is silent, which shows after two.
const (
	probeEvery   = 250 * time.Millisecond
	probeTimeout = 600 * time.Millisecond
	// misses in a row make a peer that is silent count as dead. One that refuses
	// connections is dead at once.
	misses = 2
	// reread is after how many rounds the EndpointSlice is read though nothing has
	// changed: another client may have written it.
	reread = 8
)

// ErrRefused says that no process listens at the port of a peer's webhook.
var ErrRefused = errors.New("connection refused")

// roll is which peers answer. It belongs to one leadership.
type roll struct {
	o      KeeperOptions
	missed map[string]int // probes in a row, by address
	last   *Endpoints     // as it was read; nil: it is to be read
	rounds int
}

func newRoll(o KeeperOptions) *roll { return &roll{o: o, missed: map[string]int{}} }

// probePeers probes all peers once and has the EndpointSlice lead to those that answer. If
// none does it stays as it is: then it is rather this host that is cut off.
func (r *roll) probePeers(ctx context.Context, write Write) error {
	living, err := r.probe(ctx)
	if err != nil {
		return err
	}
	if r.rounds++; r.last == nil || r.rounds%reread == 0 {
		e, err := r.o.Slices.Endpoints(ctx, r.o.Endpoints.Namespace, r.o.Endpoints.Service)
		if err != nil {
			return err
		}
		r.last = &e
	}
	if r.last.Version != "" && r.last.Port == r.o.Endpoints.Port && slices.Equal(r.last.Addresses, living) {
		return nil
	}
	next := r.o.Endpoints
	next.Version, next.Addresses = r.last.Version, living
	r.last = nil // it is read again: others may write it, too
	if err := write(ctx, func(ctx context.Context) error { return r.o.Slices.PutEndpoints(ctx, next) }); err != nil {
		return err
	}
	r.o.Logger.Info("webhook endpoints updated", "addresses", living)
	return nil
}

// probe asks all peers at the same time and returns the addresses of those that
// count as living, sorted.
func (r *roll) probe(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	hosts := r.hosts()
	if len(hosts) == 0 {
		return nil, errors.New("no peer has an address, other than loopback, to which a Service can lead")
	}
	said := make([]error, len(hosts))
	var probing sync.WaitGroup
	for i, host := range hosts {
		probing.Go(func() { said[i] = r.o.Prober.Probe(ctx, join(host, r.o.Endpoints.Port)) })
	}
	probing.Wait()
	var living []string
	for i, host := range hosts {
		switch err := said[i]; {
		case err == nil:
			r.missed[host] = 0
		case errors.Is(err, ErrRefused):
			r.missed[host] = misses
		default:
			r.missed[host]++
		}
		if r.missed[host] < misses {
			living = append(living, host)
		}
	}
	if len(living) == 0 {
		return nil, fmt.Errorf("no peer's webhook answers, the Service stays as it is: %w", errors.Join(said...))
	}
	return living, nil
}

// hosts are the addresses of all peers, sorted. An EndpointSlice holds one version of
// IP; where peers have both, those of IPv4 are taken.
func (r *roll) hosts() []string {
	var four, six []string
	for _, address := range r.o.Peers.Addresses() {
		host := hostOf(address)
		switch {
		case host == "":
		case (Endpoints{Addresses: []string{host}}).Six():
			six = append(six, host)
		default:
			four = append(four, host)
		}
	}
	if len(four) == 0 {
		four = six
	}
	slices.Sort(four)
	return slices.Compact(four)
}
