package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// ErrOlderPeer says that the peer that was asked does not tell whether the cluster has a leader
// that would admit this host, without which no earlier peer's data is set aside.
var ErrOlderPeer = errors.New("the peer there is of v0.2.0, which does not tell whether the cluster would admit this host")

// FirstTokenTTL is how long the join token that init makes is good for.
const FirstTokenTTL = 24 * time.Hour

// Host is what founding, joining and recovering need of this machine.
type Host struct {
	Config config.Config
	Binary string // version of the build
	Wall   func() time.Time
	Random io.Reader
	// Observer makes a joiner one that counts in no majority.
	Observer bool
	// Replace has a joiner set aside what an earlier peer of this directory left.
	Replace bool
	// Judge may refuse what the cluster gives a joiner, before it becomes a peer; nil refuses
	// nothing.
	Judge func(cluster.Shared) error
	// HandOver gives what this process made in the data directory to the user of
	// the service; nil: it is that user.
	HandOver func() error
}

// self returns who this host is as a new peer of the given cluster. target is
// the peer through which it joins, "" for the first.
func (h Host) self(id, clusterID string, incarnation uint64, target string) (Identity, error) {
	find := func() (string, error) { return h.onlyAddress(kernel(), target) }
	address, err := Advertised("cluster", h.Config.Cluster, find)
	if err != nil {
		return Identity{}, err
	}
	gossip, err := Advertised("gossip", h.Config.Gossip, func() (string, error) {
		host, _, err := net.SplitHostPort(address) // what serves the one serves the other
		return host, err
	})
	if err != nil {
		return Identity{}, err
	}
	return Identity{ID: id, Name: h.Config.Name, Cluster: clusterID, Incarnation: incarnation, Address: address,
		Gossip: gossip}, nil
}

func (h Host) member(id Identity) membership.Member {
	return membership.Member{
		ID: id.ID, Name: id.Name, Address: id.Address, Gossip: id.Gossip, Version: fsm.Version, Binary: h.Binary,
		JoinedWall: h.Wall().UnixMilli(),
	}
}

// Founding is what init makes.
type Founding struct {
	Identity Identity
	Token    pki.JoinToken
	secrets  Secrets
	state    *fsm.State
}

// Init founds a cluster in dir, whose only peer this host is. On error dir is as it was.
func (h Host) Init(dir *Dir) (*Founding, error) {
	f, err := h.PlanInit(dir)
	if err != nil {
		return nil, err
	}
	err = dir.Create(f.Identity, f.secrets, func(raftDir string) error {
		return withStorage(host.Create, raftDir,
			func(st raftstore.Storage) error { return host.Seed(st, f.state, server(f.Identity)) })
	}, h.handOver)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// PlanInit plans a cluster whose only peer this host is: its UUID, CA, gossip key and
// first join token. It changes nothing.
func (h Host) PlanInit(dir *Dir) (*Founding, error) {
	if has, err := dir.HasPeer(); err != nil || has {
		return nil, errors.Join(err, ErrPeerExists)
	}
	id, err := h.self(uuid.NewString(), uuid.NewString(), 1, "")
	if err != nil {
		return nil, err
	}
	ca, err := pki.NewCA(id.Cluster, h.Wall(), h.Random)
	if err != nil {
		return nil, err
	}
	cred, err := cluster.Issue(ca, pki.PeerIdentity(id.Cluster, id.ID, id.Incarnation), h.Wall(), h.Random)
	if err != nil {
		return nil, err
	}
	token, err := pki.NewJoinToken(ca.Hash(), h.Wall().Add(FirstTokenTTL), h.Random)
	if err != nil {
		return nil, err
	}
	key := make([]byte, membership.GossipKeySize)
	if _, err := io.ReadFull(h.Random, key); err != nil {
		return nil, fmt.Errorf("make the gossip key: %w", err)
	}
	caKey, err := ca.KeyPEM()
	if err != nil {
		return nil, err
	}
	state, err := fsm.Founded(fsm.Found{
		ClusterID: id.Cluster, CACert: ca.CertPEM(), CAKey: caKey, GossipKey: key, Member: h.member(id),
		Join: membership.AddJoinToken{ID: token.ID, Hash: token.SecretHash(), TTL: FirstTokenTTL},
	}, h.Wall())
	if err != nil {
		return nil, err
	}
	return &Founding{Identity: id, Token: token, state: state,
		secrets: Secrets{Credentials: cred, Ring: cluster.Ring{Keys: [][]byte{key}}}}, nil
}

func server(id Identity) raftstore.Server {
	return raftstore.Server{ID: id.ID, Address: cluster.ServerAddress(id.ID, id.Address), Voter: true}
}

func withStorage(open func(string) (raftstore.Storage, error), raftDir string,
	use func(raftstore.Storage) error) error {
	st, err := open(raftDir)
	if err != nil {
		return err
	}
	return errors.Join(use(st), st.Close())
}

// Joining is what join made, and what the peer that was asked has and this one
// should have too.
type Joining struct {
	Identity
	Shared cluster.Shared
	// Told says that the peer told what it gives before it is asked to admit this host: one
	// of v0.2.0 does not.
	Told bool

	by cluster.Joiner
}

// AsideError is a join that failed when the data of an earlier peer had been set aside. The
// cluster may have admitted the host.
type AsideError struct {
	Folder string
	Err    error
}

// Error implements error.
func (e *AsideError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *AsideError) Unwrap() error { return e.Err }

// Join makes this host a peer of the cluster that answers at hostport. A peer that it
// replaces is set aside as soon as the cluster's leader has confirmed that it would admit this
// host, and before it is asked to: the cluster waits no more for an old peer
// at the address of one that it admits (membership.FormerMember), so that one must not start.
// A refusal moves it back; after any other error it is where an *AsideError says.
func (h Host) Join(ctx context.Context, dir *Dir, hostport string, token pki.JoinToken) (*Joining, error) {
	plan, err := h.PlanJoin(ctx, dir, hostport, token)
	if err != nil {
		return nil, err
	}
	aside, err := h.vacate(dir)
	if err != nil {
		return nil, err
	}
	made, err := h.become(ctx, dir, plan, hostport, token)
	if err == nil || aside == "" {
		return made, err
	}
	if refused, ok := errors.AsType[*cluster.JoinError](err); ok && refused.Certain() {
		moved := dir.rename(aside, dir.PeerDir())
		if moved == nil {
			return nil, err
		}
		err = errors.Join(err, moved)
	}
	return nil, &AsideError{Folder: aside, Err: err}
}

// become asks the cluster to admit this host, and makes the peer.
func (h Host) become(ctx context.Context, dir *Dir, plan *Joining, hostport string, token pki.JoinToken) (*Joining,
	error) {
	joined, err := plan.by.Join(ctx, hostport, token)
	if err != nil {
		return nil, err
	}
	a := joined.Answer
	// They may be others by now, or the peer an older one. A member that never showed itself
	// gives way to the next of its name.
	if err := h.judgeShared(a.Shared); err != nil {
		return nil, err
	}
	id := plan.Identity
	id.ID, id.Cluster, id.Incarnation, id.Seeds, id.Known = a.ID, a.Cluster, a.Incarnation, a.Seeds, a.Known
	secrets := Secrets{Credentials: joined.Credentials, Ring: cluster.Ring{Keys: [][]byte{a.GossipKey}}}
	build := func(raftDir string) error {
		// The log stays empty: the leader finds this peer and fills it.
		err := withStorage(host.Create, raftDir, func(raftstore.Storage) error { return nil })
		return errors.Join(err, keepShared(raftDir, a.Shared))
	}
	if err := dir.Create(id, secrets, build, h.handOver); err != nil {
		return nil, err
	}
	return &Joining{Identity: id, Shared: a.Shared, Told: true}, nil
}

// PlanJoin asks the peer at hostport what it would give this host, and whether the
// cluster would admit it. It changes nothing, here or there.
func (h Host) PlanJoin(ctx context.Context, dir *Dir, hostport string, token pki.JoinToken) (*Joining, error) {
	id, err := h.self("", "", 0, hostport)
	if err != nil {
		return nil, err
	}
	by := cluster.Joiner{
		Name: id.Name, Address: id.Address, Gossip: id.Gossip, Version: fsm.Version, Binary: h.Binary,
		Wall: h.Wall, Random: h.Random, Observer: h.Observer,
	}
	given, told, err := by.Settings(ctx, hostport, token)
	if err == nil && told {
		err = h.judgeShared(given)
	}
	if err != nil {
		return nil, err
	}
	switch has, err := dir.HasPeer(); {
	case err != nil:
		return nil, err
	case has && !h.Replace:
		return nil, fmt.Errorf("%s: %w", dir.root, ErrPeerExists)
	case has && !told:
		return nil, fmt.Errorf("%s: %w", hostport, ErrOlderPeer)
	}
	return &Joining{Identity: id, Shared: given, Told: told, by: by}, nil
}

// vacate sets the peer aside that lives in dir, and returns to where; "" if there is none.
func (h Host) vacate(dir *Dir) (aside string, err error) {
	if has, err := dir.HasPeer(); err != nil || !has {
		return "", err
	}
	suffix, err := dir.freeSuffix(verbJoin, h.Wall())
	if err != nil {
		return "", err
	}
	aside = filepath.Join(dir.root, beforePrefix+suffix) // no peer starts from there
	return aside, dir.rename(dir.PeerDir(), aside)
}

func (h Host) judgeShared(s cluster.Shared) error {
	if h.Judge == nil {
		return nil
	}
	return h.Judge(s)
}
