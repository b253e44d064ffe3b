package haconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
// none does it stays as it is: then it is rather this host that is cut off. Its error also says
// which peers are left out although they may answer.
func (r *roll) probePeers(ctx context.Context, write Write) error {
	if r.rounds++; r.last == nil || r.rounds%reread == 0 {
		e, err := r.o.Slices.Endpoints(ctx, r.o.Endpoints.Namespace, r.o.Endpoints.Service)
		if err != nil {
			return err
		}
		r.last = &e
	}
	hosts, family, left := r.hosts(r.last.Family)
	living, err := r.probe(ctx, hosts)
	if err != nil {
		return errors.Join(err, left)
	}
	if r.last.Version != "" && r.last.Family == family && r.last.Port == r.o.Endpoints.Port &&
		slices.Equal(r.last.Addresses, living) {
		return left
	}
	next, was := r.o.Endpoints, *r.last
	next.Version, next.Addresses, next.Family = was.Version, living, family
	r.last = nil // it is read again: others may write it, too
	if err := write(ctx, func(ctx context.Context) error {
		if was.Version != "" && was.Family != family { // none of its addresses is a peer's any more
			if err := r.o.Slices.DropEndpoints(ctx, was); err != nil {
				return err
			}
			next.Version = ""
		}
		return r.o.Slices.PutEndpoints(ctx, next)
	}); err != nil {
		return errors.Join(err, left)
	}
	r.o.Logger.Info("webhook endpoints updated", "addresses", living)
	return left
}

// probe asks all hosts at the same time and returns those that count as living.
func (r *roll) probe(ctx context.Context, hosts []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if len(hosts) == 0 {
		return nil, errors.New("no peer has an address to which a Service can lead")
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
		return nil, fmt.Errorf("no webhook answers at %s, the Service stays as it is: %w", strings.Join(hosts, ", "),
			errors.Join(said...))
	}
	return living, nil
}

// hosts are the addresses of the peers to which the Service can lead, sorted, and their family.
// An EndpointSlice holds one, which stays what it was while a peer has such an address; a new one
// has IPv4 if a peer has. left says why each of the others is left out, nil for none.
func (r *roll) hosts(was string) (hosts []string, family string, left error) {
	of := map[string][]string{}
	var out []error
	addresses := slices.Sorted(slices.Values(r.o.Peers.Addresses()))
	for _, address := range addresses {
		host, family, err := published(address)
		if err != nil {
			out = append(out, leftOut(address, err))
			continue
		}
		of[family] = append(of[family], host)
	}
	for _, family = range []string{was, IPv4, IPv6} {
		if len(of[family]) > 0 {
			break
		}
	}
	for _, address := range addresses {
		if _, other, err := published(address); err == nil && other != family {
			out = append(out, leftOut(address, fmt.Errorf("the EndpointSlice holds addresses of %s", family)))
		}
	}
	slices.Sort(of[family])
	return slices.Compact(of[family]), family, errors.Join(out...)
}

func leftOut(address string, why error) error {
	return fmt.Errorf(
		"the peer at %s is left out of the Service: %w: write an address of it that API servers reach in its cluster.advertise",
		address, why)
}
