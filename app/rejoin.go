package app

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/pki"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// rejoinKeyFile holds, in the folder of the peer that is left behind, the key of
// the identity that it asks for: asked again with the same key, the cluster gives
// the same identity.
const rejoinKeyFile = "rejoin.key"

// maxAsked bounds the addresses that a rejoin asks.
const maxAsked = 256

// Errors of a rejoin, besides a *cluster.JoinError, which is the cluster's refusal.
var (
	// ErrSameIncarnation says that the peer of this host was not left behind.
	ErrSameIncarnation = errors.New("the other peers live in the same incarnation as the peer of this host: it need not rejoin")
	// ErrNoFounder says that no peer of a higher incarnation answered.
	ErrNoFounder = errors.New("no peer of a higher incarnation answers")
)

// Rejoined is what a rejoin made.
type Rejoined struct {
	Identity
	Was   uint64 // the incarnation that was left
	Aside string // path of the old data
}

// Rejoin makes this host, whose peer is stopped, a peer of the incarnation in
// which its cluster was founded again: under a new server ID, with the name and the
// addresses that it had. It asks the members that its identity and its log know,
// and more, host:port, and proves who it was by its old certificate. The old data
// stays as before-rejoin-DATE. It may be repeated, killed at whatever point.
func (h Host) Rejoin(ctx context.Context, dir *DataDir, more ...string) (*Rejoined, error) {
	id, secrets, err := dir.Load()
	if err != nil {
		return nil, err
	}
	key, err := h.rejoinKey(dir)
	if err != nil {
		return nil, err
	}
	host := cluster.Rejoiner{
		Joiner: cluster.Joiner{Name: id.Name, Address: id.Address, Gossip: id.Gossip, Version: fsm.Version, Binary: h.Binary, Wall: h.Wall, Random: h.Random},
		Old:    secrets.Credentials, Key: key,
	}
	found, err := findFounder(ctx, host, dir.othersOf(id, more))
	if err != nil {
		return nil, err
	}
	joined, err := askFounder(ctx, host, found)
	if err != nil {
		return nil, err
	}
	a, was := joined.Answer, id.Incarnation
	id.ID, id.Incarnation, id.Seeds, id.Known = a.ID, a.Incarnation, a.Seeds, a.Known
	fresh := Secrets{Credentials: joined.Credentials, Ring: cluster.Ring{Keys: [][]byte{a.GossipKey}}}
	// The log stays empty, as after a join: the leader finds this peer and fills it.
	empty := func(raftDir string) error {
		return withStorage(raftDir, func(raftstore.Storage) error { return nil })
	}
	aside, err := dir.Replace("rejoin", h.Wall(), id, fresh, empty, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return &Rejoined{Identity: id, Was: was, Aside: aside}, nil
}

// rejoinKey reads the key of an earlier try, or makes one and keeps it.
func (h Host) rejoinKey(dir *DataDir) (*ecdsa.PrivateKey, error) {
	path := filepath.Join(dir.PeerDir(), rejoinKeyFile)
	text, err := os.ReadFile(path)
	if err == nil {
		key, err := pki.ParseKey(text)
		if err != nil {
			return nil, &CorruptError{Path: path, Err: err}
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	key, err := pki.NewKey(h.Random)
	if err != nil {
		return nil, err
	}
	if text, err = pki.EncodeKey(key); err != nil {
		return nil, err
	}
	return key, replaceFile(path, text)
}

// othersOf returns the addresses of the other members, as far as the identity and
// the log know them; a log that cannot be read knows none.
func (d *DataDir) othersOf(id Identity, more []string) []string {
	all := slices.Clone(more)
	for _, server := range id.Known.Members {
		if _, address, ok := strings.Cut(server, "@"); ok {
			all = append(all, address)
		}
	}
	// Best effort: where the log is damaged, the operator can name an address.
	_ = withStorage(d.RaftDir(), func(st raftstore.Storage) error {
		history, err := host.Replay(st)
		if err != nil {
			return err
		}
		for _, m := range history.State.View().MayRun(id.ID) {
			all = append(all, m.Address)
		}
		return nil
	})
	var out []string
	for _, address := range all {
		if address != id.Address && !slices.Contains(out, address) && len(out) < maxAsked {
			out = append(out, address)
		}
	}
	return out
}

// answering is where peers of the highest incarnation answer.
type answering struct {
	incarnation uint64
	addresses   []string
}

// findFounder asks every address which incarnation its peer lives in.
func findFounder(ctx context.Context, host cluster.Rejoiner, addresses []string) (found answering, err error) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	var same string
	failed := []error{ErrNoFounder}
	ours := host.Old.Identity.Incarnation
	for _, address := range addresses { // at most maxAsked
		asking.Go(func() {
			incarnation, err := host.Incarnation(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = append(failed, err)
			case incarnation == ours:
				same = address
			case incarnation > max(ours, found.incarnation):
				found = answering{incarnation, []string{address}}
			case incarnation == found.incarnation:
				found.addresses = append(found.addresses, address)
			}
		})
	}
	asking.Wait()
	switch {
	case len(found.addresses) > 0:
		return found, nil
	case same != "":
		return found, fmt.Errorf("%w: %s answers as of incarnation %d", ErrSameIncarnation, same, ours)
	case len(addresses) == 0:
		return found, fmt.Errorf("%w: neither the identity nor the log of this host names another peer", ErrNoFounder)
	}
	return found, errors.Join(failed...)
}

// askFounder asks one peer after the other until one admits this host, or refuses
// for a reason that all have.
func askFounder(ctx context.Context, host cluster.Rejoiner, found answering) (*cluster.Joined, error) {
	var failed []error
	for _, address := range found.addresses {
		joined, err := host.Rejoin(ctx, address, found.incarnation)
		if err == nil {
			return joined, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", address, err))
		var refused *cluster.JoinError
		if errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable && refused.Status != http.StatusTooManyRequests {
			break
		}
	}
	return nil, errors.Join(failed...)
}
