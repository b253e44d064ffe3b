package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/trivet-ha/trivet/client"
)

const (
	leaseRounds = 5
	leaseTime   = 3 * time.Second // per round and side
	leaseTTL    = 30 * time.Second
	// shortTTL is the least that is safe with the timing that is shipped.
	shortTTL = 4500 * time.Millisecond
)

func leaseArea() Area {
	return Area{
		Name: "lease",
		About: fmt.Sprintf(
			"three processes with mutual TLS and logs on one disk; %d clients over HTTP, a third of them at each peer; etcd beside them",
			loadClients),
		Measure: measureLease,
	}
}

// leaseSite is what the measurements of the area work with. All use one pool of
// names: there is a greatest number of leases.
type leaseSite struct {
	bench *Bench
	dir   string
	fleet fleet
}

func measureLease(ctx context.Context, b *Bench) (err error) {
	wal := func(s *leaseSite) []part { return []part{s.pairs("_wal", AtLeast(2))} }
	if err := measureLeases(ctx, b, "wal", wal); err != nil {
		return err
	}
	return measureLeases(ctx, b, "bolt", func(s *leaseSite) []part {
		return []part{s.pairs("", AtLeast(1.3)), s.deaths, s.releases, s.renewals}
	})
}

// part takes some of the figures of an area.
type part func(context.Context) error

// measureLeases takes parts on a cluster of its own.
func measureLeases(ctx context.Context, b *Bench, store string, parts func(*leaseSite) []part) (err error) {
	binary, err := b.Binary(ctx)
	if err != nil {
		return err
	}
	dir, err := b.Folder("lease-" + store)
	if err != nil {
		return err
	}
	f, err := newFleet(ctx, binary, dir, map[string]string{"lease.enabled": "true", "raft.log_store": store})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end()) }()
	for _, take := range parts(&leaseSite{b, dir, f}) {
		if err := take(ctx); err != nil {
			return err
		}
	}
	return nil
}

func leaseName(n int) string { return fmt.Sprintf("lease-%04d", n) }

// pairs compares acquisitions, each with its release, with those of etcd's own client.
func (s *leaseSite) pairs(suffix string, goal Goal) part {
	return func(ctx context.Context) error { return s.comparePairs(ctx, "lease.pairs_64_ratio"+suffix, goal) }
}

func (s *leaseSite) comparePairs(ctx context.Context, name string, goal Goal) (err error) {
	const unit = "x"
	etcd, err := newEtcd(ctx, s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.close()) }()
	ours, err := s.borrowers()
	if err != nil {
		return err
	}
	locks, err := etcd.locks(ctx)
	if err != nil {
		return err
	}
	sides := []struct {
		pair  writer
		rates []float64
	}{{pair: ours}, {pair: etcd.pair}, {pair: locks}}
	var ratios []float64
	for round := -1; round < leaseRounds; round++ {
		profiled := s.fleet.profile(ctx, s.bench, "pairs")
		for i := range sides {
			rate, err := writeFor(ctx, loadClients, leaseTime, sides[i].pair)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if round >= 0 { // the first warms all of them up
				sides[i].rates = append(sides[i].rates, rate)
			}
		}
		if err := profiled(); err != nil {
			return err
		}
		if round >= 0 {
			ratios = append(ratios, sides[0].rates[round]/sides[1].rates[round])
		}
	}
	s.bench.Report.Add(name, median(ratios), unit, goal, fmt.Sprintf(
		"medians of %d rounds: %.0f/s through package client at all peers; etcd %s at its leader %.0f/s with a lease for each, %.0f/s by its mutex on a session that stands",
		leaseRounds, median(sides[0].rates), etcd.version, median(sides[1].rates), median(sides[2].rates)))
	return nil
}

// borrowers are clients of ours, each of which has a lease of its own and lets it go.
func (s *leaseSite) borrowers() (writer, error) {
	var clients []*client.Client
	for n := range loadClients {
		var servers []string
		for i := range s.fleet {
			servers = append(servers, "http://"+s.fleet[(n+i)%len(s.fleet)].api)
		}
		c, err := client.New(client.Options{Servers: servers})
		if err != nil {
			return nil, err
		}
		clients = append(clients, c)
	}
	return func(ctx context.Context, n int) error {
		l, err := clients[n].AcquireLease(ctx, leaseName(n), client.LeaseRequest{Holder: "bench", TTL: leaseTTL})
		if err != nil {
			return err
		}
		return clients[n].ReleaseLease(ctx, l.Name, l.Holder, l.Token)
	}, nil
}

// pair is what etcd does for an acquisition with a time of its own: a lease, a key
// that is created under it, and the end of both.
func (e *etcdCluster) pair(ctx context.Context, n int) error {
	c, key := e.clients[n%len(e.clients)], leaseName(n)
	l, err := c.Grant(ctx, int64(leaseTTL.Seconds()))
	if err != nil {
		return err
	}
	res, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(
		clientv3.OpPut(key, "bench", clientv3.WithLease(l.ID))).Commit()
	if err != nil {
		return err
	}
	if !res.Succeeded {
		return fmt.Errorf("etcd: %s exists", key)
	}
	_, err = c.Revoke(ctx, l.ID)
	return err
}

// locks is etcd's mutex, each client's on a session of its own that lasts.
func (e *etcdCluster) locks(ctx context.Context) (writer, error) {
	var mutexes []*concurrency.Mutex
	for n := range loadClients {
		session, err := concurrency.NewSession(e.clients[n%len(e.clients)], concurrency.WithContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("etcd: session: %w", err)
		}
		mutexes = append(mutexes, concurrency.NewMutex(session, "/mutex/"+leaseName(n)))
	}
	return func(ctx context.Context, n int) error {
		if err := mutexes[n].Lock(ctx); err != nil {
			return err
		}
		return mutexes[n].Unlock(ctx)
	}, nil
}

// holder is a client with a connection of its own and no more code than it takes. It
// belongs to one goroutine.
type holder struct {
	name string
	web  *webConn
}

// holder connects a client to one of the peers; n chooses.
func (s *leaseSite) holder(name string, n int) (holder, error) {
	web, err := dialWeb(s.fleet[n%len(s.fleet)].api)
	return holder{name, web}, err
}

// acquire has a lease for a time, after a wait if need be, and returns its token.
func (h holder) acquire(name string, ttl, wait time.Duration) (token string, err error) {
	body := fmt.Appendf(nil, `{"holder":%q,"ttl_ms":%d,"wait_ms":%d}`, h.name, ttl.Milliseconds(), wait.Milliseconds())
	// 200: the peer itself had to repeat it.
	answer, err := h.ask(http.MethodPut, "/v1/leases/"+name, body, http.StatusCreated, http.StatusOK)
	if err != nil {
		return "", err
	}
	var l struct{ Token string }
	err = json.Unmarshal(answer, &l)
	return l.Token, err
}

func (h holder) renew(name, token string) error {
	_, err := h.ask(http.MethodPost, "/v1/leases/"+name+"/renew", h.shown(token), http.StatusOK)
	return err
}

func (h holder) release(name, token string) error {
	_, err := h.ask(http.MethodDelete, "/v1/leases/"+name, h.shown(token), http.StatusNoContent)
	return err
}

func (h holder) shown(token string) []byte {
	return fmt.Appendf(nil, `{"holder":%q,"token":%q}`, h.name, token)
}

func (h holder) ask(method, path string, body []byte, want ...int) ([]byte, error) {
	status, answer, err := h.web.do(method, path, body)
	if err == nil && !slices.Contains(want, status) {
		err = fmt.Errorf("%s %s: answered %d: %s", method, path, status, answer)
	}
	return answer, err
}
