package datadir

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
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
)

// rejoinKeyFile holds, in the folder of the peer that is left behind, the key of
// the identity that it asks for: asked again with the same key, the cluster gives
// the same identity.
const rejoinKeyFile = "rejoin.key"

// verbRejoin names the folder of the old state.
const verbRejoin = "rejoin"

// maxAsked bounds the addresses that a rejoin asks.
const maxAsked = 256

// Errors of a rejoin, besides a *cluster.JoinError, which is the cluster's refusal.
var (
	// ErrHasRejoined says that this host has rejoined already and that its new peer
	// was not started since.
	ErrHasRejoined = errors.New("this host has rejoined already: its new peer was not started yet")
	// ErrNoFounder says that no peer of a higher incarnation answered.
	ErrNoFounder = errors.New("no member of a newer incarnation was found")
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
// stays as before-rejoin-DATE. It may be repeated, killed at any point.
func (h Host) Rejoin(ctx context.Context, dir *Dir, more ...string) (*Rejoined, error) {
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
	addresses, hasLog := dir.othersOf(id, more)
	found, err := findFounder(ctx, host, addresses)
	if _, older := errors.AsType[notNewerError](err); older && !hasLog && dir.hasRejoined() {
		return nil, fmt.Errorf("%w (incarnation %d)", ErrHasRejoined, id.Incarnation)
	}
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
	aside, err := dir.Replace(verbRejoin, h.Wall(), id, fresh, createEmpty, func() error { return nil })
	if err != nil {
		return nil, err
	}
	return &Rejoined{Identity: id, Was: was, Aside: aside}, nil
}

// rejoinKey reads the key of an earlier try, or makes one and keeps it.
func (h Host) rejoinKey(dir *Dir) (*ecdsa.PrivateKey, error) {
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
// the log know them; a log that cannot be read knows none. It reports whether the
// peer has a log: one that has joined or rejoined gets its log once it runs.
func (d *Dir) othersOf(id Identity, more []string) (out []string, hasLog bool) {
	all := slices.Clone(more)
	for _, server := range id.Known.Members {
		if _, address, ok := strings.Cut(server, "@"); ok {
			all = append(all, address)
		}
	}
	// Best effort: where the log is damaged, the operator can name an address.
	history, err := readLog(d)
	if hasLog = err != nil || history.Last > 0; err == nil {
		for _, m := range history.State.View().MayRun(id.ID) {
			all = append(all, m.Address)
		}
	}
	for _, address := range all {
		if address != id.Address && !slices.Contains(out, address) && len(out) < maxAsked {
			out = append(out, address)
		}
	}
	return out, hasLog
}

// hasRejoined reports whether the data of a peer that was left behind is here.
func (d *Dir) hasRejoined() bool {
	found, err := filepath.Glob(filepath.Join(d.root, beforePrefix+verbRejoin+"-*"))
	return err == nil && len(found) > 0
}

// answering is where peers of the highest incarnation answer.
type answering struct {
	incarnation uint64
	addresses   []string
}

// findFounder asks every address which incarnation its peer lives in. If none is of
// a higher incarnation than this host, the error says what each answered.
func findFounder(ctx context.Context, host cluster.Rejoiner, addresses []string) (found answering, err error) {
	var asking sync.WaitGroup
	ours := host.Old.Identity.Incarnation
	incarnations, failed := make([]uint64, len(addresses)), make(answers, len(addresses))
	for i, address := range addresses { // at most maxAsked
		asking.Go(func() { incarnations[i], failed[i] = host.Incarnation(ctx, address) })
	}
	asking.Wait()
	for i, address := range addresses {
		switch incarnation := incarnations[i]; {
		case failed[i] != nil:
		case incarnation <= ours:
			failed[i] = fmt.Errorf("%s: %w", address, notNewerError(incarnation))
		case incarnation > found.incarnation:
			found = answering{incarnation, []string{address}}
		case incarnation == found.incarnation:
			found.addresses = append(found.addresses, address)
		}
	}
	switch {
	case len(found.addresses) > 0:
		return found, nil
	case len(addresses) == 0:
		return found, fmt.Errorf("%w; this host is of incarnation %d: neither the identity nor the log of this host names another peer", ErrNoFounder, ours)
	}
	return found, fmt.Errorf("%w; this host is of incarnation %d: %w", ErrNoFounder, ours, failed)
}

// notNewerError is the incarnation of a peer that was left behind as well, or of which
// this host became a member already.
type notNewerError uint64

// Error implements error.
func (e notNewerError) Error() string {
	return fmt.Sprintf("its peer lives in incarnation %d", uint64(e))
}

// answers are errors in one line.
type answers []error

// Error implements error.
func (a answers) Error() string {
	texts := make([]string, len(a))
	for i, err := range a {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the errors of all.
func (a answers) Unwrap() []error { return a }

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
