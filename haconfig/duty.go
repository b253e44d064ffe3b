package haconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// Registration is a MutatingWebhookConfiguration, as far as the leader keeps it.
// One without a Version does not exist.
type Registration struct {
	Name, Version string
	Bundles       [][]byte // of its webhooks, in their order
	Paths         []string // likewise: where each asks
	Places        []string // likewise: at which HOST:PORT of a URL, or by which NAMESPACE/NAME of a Service
}

// Endpoints are where a Service without a selector leads. Without a Version there
// is no EndpointSlice yet.
type Endpoints struct {
	Namespace, Service, Version string
	Addresses                   []string // sorted
	Family                      string   // of all of them: IPv4 or IPv6, or what another client wrote
	Port                        int32
}

// The families of addresses, in the words of Kubernetes.
const (
	IPv4 = "IPv4"
	IPv6 = "IPv6"
)

// Registry is the registration in a cluster.
type Registry interface {
	// Registration reads one by its name.
	Registration(ctx context.Context, name string) (Registration, error)
	// PutBundle puts a CA into all of its webhooks, or takes theirs out with nil, if it
	// is still as it was read.
	PutBundle(ctx context.Context, r Registration, bundle []byte) error
}

// Slices are where Services lead in a cluster.
type Slices interface {
	// Endpoints reads where a Service leads.
	Endpoints(ctx context.Context, namespace, service string) (Endpoints, error)
	// PutEndpoints makes or changes it, if it is still as it was read. Its Family is never
	// changed, which an API server refuses.
	PutEndpoints(ctx context.Context, e Endpoints) error
	// DropEndpoints deletes it, if it is still as it was read. That it is gone is no fault.
	DropEndpoints(ctx context.Context, e Endpoints) error
}

// Prober asks a peer's webhook whether it can answer.
type Prober interface {
	// Probe returns nil if it can, ErrRefused if no process listens there, and else
	// what is wrong. It returns soon after ctx has ended.
	Probe(ctx context.Context, address string) error
}

// Peers are what the duties know of the peers.
type Peers interface {
	// CA is that of the cluster, in PEM; empty while it is not known here.
	CA() []byte
	// Addresses are those of all members, host and port.
	Addresses() []string
}

// Bounds of what the leader keeps.
const (
	// registrationEvery is how soon a registration that was applied has its CA.
	registrationEvery = 2 * time.Second
	// proofAge is how old the proof of leadership is at most while a write runs.
	proofAge = 2 * time.Second
)

// KeeperOptions are the parts of a Keeper. All but Place, Names, Slices and More are required.
type KeeperOptions struct {
	Cluster      string // its name
	Alone        bool   // no other cluster is served: its registration need not name it
	Peers        Peers
	Registry     Registry
	Registration string // name of the MutatingWebhookConfiguration
	// Place, if set, is where it asks as 'trivet haconfig manifest' prints it, as one of its Places.
	Place string
	// Names are those of api.tls.names: an operator has clients call peers by them.
	Names []string
	// Slices, if set, keeps Endpoints' Namespace, Service and Port leading to the
	// peers that answer.
	Slices    Slices
	Endpoints Endpoints
	Prober    Prober
	// More makes the other chores of the leader, new ones for each leadership.
	More   []func(leader.Authority) Chore
	Logger *slog.Logger
}

// Chore is something that the leader does again and again.
type Chore struct {
	Name  string
	Every time.Duration
	// Do does it once; write runs what it is given under a fresh proof of leadership.
	Do func(ctx context.Context, write Write) error
}

// Write runs a call that changes something outside, while leadership is proven again
// and again.
type Write func(ctx context.Context, call func(context.Context) error) error

// Keeper is the leader's duty that keeps in one cluster what the webhook needs: the
// CA in its registration, and where its Service leads. What fails is told in the
// log, once for each change, and tried again; it ends no leadership, and holds up the
// keeper of no other cluster.
type Keeper struct {
	o    KeeperOptions
	kept bool // there was a registration; it belongs to the chore, of one leadership after the other

	mu     sync.Mutex
	faults map[string]string // by chore; empty while another leads
}

var _ leader.Duty = (*Keeper)(nil)

// NewKeeper returns a keeper that does nothing until it runs.
func NewKeeper(o KeeperOptions) *Keeper {
	o.Logger = o.Logger.With("cluster", o.Cluster)
	return &Keeper{o: o, faults: map[string]string{}}
}

// Cluster is the name of the cluster that it keeps.
func (k *Keeper) Cluster() string { return k.o.Cluster }

// Faults are what cannot be kept at present, by what it is. It is empty where this
// peer does not lead.
func (k *Keeper) Faults() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.faults)
}

// keepFault keeps what went wrong with a chore, "" for nothing.
func (k *Keeper) keepFault(chore, fault string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.faults, chore); fault != "" {
		k.faults[chore] = fault
	}
}

// Name implements leader.Duty.
func (k *Keeper) Name() string { return "haconfig of " + k.o.Cluster }

// Run implements leader.Duty.
func (k *Keeper) Run(ctx context.Context, a leader.Authority) error {
	chores := []Chore{{"registration", registrationEvery, k.registration}}
	for _, made := range k.o.More {
		chores = append(chores, made(a))
	}
	if k.o.Slices != nil {
		chores = append(chores, Chore{"endpoints", probeEvery, newRoll(k.o).probePeers})
	}
	var running sync.WaitGroup
	for _, c := range chores {
		running.Go(func() { k.again(ctx, c, proven(a)) })
	}
	running.Wait()
	<-ctx.Done()
	return nil
}

// proven makes the way in which everything is written.
func proven(a leader.Authority) Write {
	return func(ctx context.Context, call func(context.Context) error) error {
		ctx, cancel, err := leader.Confirmed(ctx, a, proofAge)
		if err != nil {
			return err
		}
		defer cancel()
		return call(ctx)
	}
}

// again does a chore until ctx ends.
func (k *Keeper) again(ctx context.Context, c Chore, write Write) {
	defer k.keepFault(c.Name, "")
	var said string
	for range pace.Every(ctx, c.Every) {
		err := c.Do(ctx, write)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != said:
			said = err.Error()
			k.keepFault(c.Name, said)
			k.o.Logger.Warn("reconcile webhook registration, annotations or budgets failed, retrying", "object", c.Name, "err",
				err)
		case err == nil && said != "":
			said = ""
			k.keepFault(c.Name, "")
			k.o.Logger.Info("webhook registration, annotations or budgets reconciled again", "object", c.Name)
		}
	}
}

// registration puts the CA of the peers where the API server looks for it. There may
// be no registration yet, which is no fault; that one is gone is. One that asks at the path of another
// cluster gets no CA, and loses the one that it has, so that its API server cannot
// ask: it would be answered by what that cluster's namespaces say.
func (k *Keeper) registration(ctx context.Context, write Write) error {
	bundle := k.o.Peers.CA()
	if len(bundle) == 0 {
		return nil // the log is yet to come
	}
	r, err := k.o.Registry.Registration(ctx, k.o.Registration)
	switch {
	case err != nil:
		return err
	case r.Version == "" && k.kept:
		return fmt.Errorf("the registration %s is gone, and components are admitted as they are written: "+
			"apply 'trivet haconfig manifest --cluster %s'", k.o.Registration, k.o.Cluster)
	case r.Version == "":
		return nil
	}
	k.kept = true
	i := slices.IndexFunc(r.Paths, func(path string) bool {
		return !strings.HasSuffix(path, ReviewPath(k.o.Cluster)) && !(k.o.Alone && strings.HasSuffix(path, PathMutate))
	})
	if i >= 0 {
		misled := fmt.Errorf(
			"the registration %s asks at %q, which is not the path of cluster %s: apply 'trivet haconfig manifest --cluster %s'",
			r.Name, r.Paths[i], k.o.Cluster, k.o.Cluster)
		if !slices.ContainsFunc(r.Bundles, func(b []byte) bool { return bytes.Equal(b, bundle) }) {
			return misled
		}
		return errors.Join(misled,
			write(ctx, func(ctx context.Context) error { return k.o.Registry.PutBundle(ctx, r, nil) }))
	}
	if !slices.ContainsFunc(r.Bundles, func(b []byte) bool { return !bytes.Equal(b, bundle) }) {
		return k.astray(ctx, r)
	}
	if err := write(ctx, func(ctx context.Context) error { return k.o.Registry.PutBundle(ctx, r, bundle) }); err != nil {
		return err
	}
	k.o.Logger.Info("CA written to webhook registration", "registration", r.Name)
	return k.astray(ctx, r)
}

// astray says at which place a registration asks in vain, as after a change of the floating IP, nil for
// none. It is left as it is: an operator may have written it so. A path with a prefix is that of a proxy.
func (k *Keeper) astray(ctx context.Context, r Registration) error {
	for i, at := range r.Places {
		if k.o.Place == "" || at == k.o.Place || r.Paths[i] != ReviewPath(k.o.Cluster) && r.Paths[i] != PathMutate {
			continue
		}
		if why := k.unanswered(ctx, at); why != "" {
			return fmt.Errorf("the registration %s asks at %s, %s; by the configuration it is %s: "+
				"apply 'trivet haconfig manifest --cluster %s' for that", r.Name, at, why, k.o.Place, k.o.Cluster)
		}
	}
	return nil
}

// unanswered says why peers answer no review at a place, "" where one does or may: a name, and what the
// certificates have by api.tls.names, can be a balancer that this host does not reach.
func (k *Keeper) unanswered(ctx context.Context, place string) string {
	if namespace, name, found := strings.Cut(place, "/"); found {
		if slices.Contains(k.o.Names, name+"."+namespace+".svc") {
			return ""
		}
		return "a Service whose endpoints no peer keeps"
	}
	at, err := netip.ParseAddrPort(place)
	if err != nil || slices.Contains(k.o.Names, at.Addr().String()) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, registrationEvery)
	defer cancel()
	if err := k.o.Prober.Probe(ctx, place); err != nil {
		return "where no webhook of a peer answers" // err has a port that differs each time
	}
	return ""
}

// published is the host of a member's address as an EndpointSlice holds it, and its family. An
// error says why that cannot be: an API server refuses the whole slice for one such address.
func published(address string) (host, family string, err error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", "", err
	}
	ip, err := netip.ParseAddr(name)
	switch ip = ip.Unmap().WithZone(""); {
	case err != nil:
		return "", "", errors.New("that is a name, and an EndpointSlice holds addresses")
	case !ip.IsGlobalUnicast(): // private ones are
		return "", "", errors.New("no other host reaches that")
	case ip.Is4():
		return ip.String(), IPv4, nil
	}
	return ip.String(), IPv6, nil
}

// join is an address with a port.
func join(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
