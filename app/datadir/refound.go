package datadir

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// What replaces a peer of this host, which names the folder of the old state: the verbs that
// found a cluster again, and a join.
const (
	VerbRecover = "recover"
	VerbRestore = "restore"
	verbJoin    = "join"
)

// Refounding is a cluster that is to be founded again on this host, which is its
// only member afterwards: by recover from the log of this host, by restore from a
// snapshot. PlanRecover and PlanRestore make one and change nothing, Ask and
// Judge find out whether the other peers are stopped, Found does it.
type Refounding struct {
	Verb string
	// Self is who this host is afterwards, but for the incarnation.
	Self Identity
	// Others are the peers that may still run: of the file's membership, and of each
	// that the log had since the entry that is proven to have been committed.
	Others []membership.FormerMember
	// Lost are those of them that were named lost, for ever; see Judge.
	Lost []membership.FormerMember
	// Last is the highest index of the log here and of the snapshot.
	Last uint64
	// Uncommitted is how many entries at the end of the log are not proven to
	// have been committed. Recover applies them, too.
	Uncommitted uint64
	// LeftOut is how many entries after these recover does not apply, since the first of
	// them removes this host. None is proven to have been committed.
	LeftOut uint64

	self    membership.Member
	voters  [][]string      // server IDs, of each of the log's memberships with another member
	removed map[string]bool // of Others, those that the file has as removed, by server ID
	state   *fsm.State
	secrets []Secrets // of the clusters whose peers are asked
	judged  bool
}

// Refounded is what Found did or, dry, would do.
type Refounded struct {
	Incarnation uint64 // of the cluster
	Base        uint64 // of tokens
	Old         string // path of the old peer's folder, "" if there was none
}

// PlanRecover plans to go on with the log in dir alone.
func (h Host) PlanRecover(dir *Dir) (*Refounding, error) {
	id, secrets, err := dir.Load()
	if err != nil {
		return nil, err
	}
	log, err := readLog(dir)
	if err != nil {
		return nil, err
	}
	// The newest state that the log may stand for and that has this host as a member. What removes it may be an
	// entry that no majority had; if a majority had it, this host was promised nothing that came later.
	var from host.Moment
	var self membership.Member
	member := false
	for _, m := range slices.Backward(log.Tail) {
		if self, member = m.State.View().Member(id.ID); member {
			from = m
			break
		}
	}
	if !member {
		return nil,
			fmt.Errorf("the log in this data directory does not know peer %s (%s) as a member: it cannot carry the cluster on; "+
				"recover another host, and join this one with 'trivet join HOST --replace'", id.ID, id.Name)
	}
	var voters [][]string // of each state but those in which this host is the only member
	for _, m := range log.Tail {
		v := m.State.View()
		if !slices.ContainsFunc(v.Members(), func(m membership.Member) bool { return m.ID != id.ID }) {
			continue
		}
		var ids []string
		for _, m := range v.Voters() {
			ids = append(ids, m.ID)
		}
		voters = append(voters, ids)
	}
	last := from.Next - 1
	return &Refounding{
		Verb: VerbRecover, Self: id, Others: othersOf(id, log), Last: log.Last,
		Uncommitted: last - min(last, log.Committed), LeftOut: log.Last - last,
		self: self, voters: voters, state: from.State, secrets: []Secrets{secrets},
	}, nil
}

// othersOf returns the peers that may run on other hosts by a log, whichever of the
// states that it may stand for is the committed one.
func othersOf(self Identity, log *host.History) (out []membership.FormerMember) {
	for _, m := range log.Tail {
		out = united(out, others(self, m.State.View()))
	}
	return out
}

// PlanRestore plans to go on with the state of a snapshot, on a host whose peer
// is stopped, or on one that has none. A snapshot of another cluster than the
// log here must be named by from, that cluster's ID; its state then goes on in
// the cluster of this host.
func (h Host) PlanRestore(dir *Dir, file *fsm.State, from string) (*Refounding, error) {
	v := file.View()
	if v.ClusterID() == "" {
		return nil, fmt.Errorf("the snapshot is of no cluster")
	}
	if from != "" && from != v.ClusterID() {
		return nil, &ForeignError{Theirs: v.ClusterID(), Ours: from}
	}
	out := &Refounding{Verb: VerbRestore, state: file, Last: v.Index()}
	if err := h.join(out, dir, from); err != nil {
		return nil, err
	}
	if out.Self.ID == "" {
		id, err := h.self(uuid.NewString(), v.ClusterID(), v.Incarnation(), "")
		if err != nil {
			return nil, err
		}
		out.Self = id
	}
	var known bool
	if out.self, known = v.Member(out.Self.ID); !known {
		out.self = h.member(out.Self)
	}
	fileSecrets, err := h.issue(v, out.Self, v.Incarnation())
	if err != nil {
		return nil, err
	}
	out.secrets = append(out.secrets, fileSecrets)
	out.Others = united(out.Others, others(out.Self, out.state.View()))
	return out, nil
}

// united returns the peers of two histories, each once, in the order of their names.
// One that has another address in the second history is asked at both.
func united(local, file []membership.FormerMember) []membership.FormerMember {
	out := slices.Clone(local)
	for _, f := range file {
		same := slices.IndexFunc(out, func(m membership.FormerMember) bool { return m.ID == f.ID })
		if same < 0 {
			out = append(out, f)
		} else {
			out[same] = out[same].With(f)
		}
	}
	slices.SortStableFunc(out, func(a, b membership.FormerMember) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// join adds what the log in dir, if there is one, has granted and forbidden to
// the state of the snapshot. This host stays who it is, unless the snapshot is of
// a later history of its cluster in which it was removed: a server ID never becomes
// a member again. With the snapshot of another cluster its own goes on: how a
// cluster gets another certificate authority.
func (h Host) join(out *Refounding, dir *Dir, from string) error {
	has, err := dir.HasPeer()
	if err != nil || !has {
		return err
	}
	id, secrets, err := dir.Load()
	if err != nil {
		return err
	}
	file := out.state.View()
	same := id.Cluster == file.ClusterID()
	if !same && from == "" {
		return &ForeignError{Theirs: file.ClusterID(), Ours: id.Cluster}
	}
	log, err := readLog(dir)
	if err != nil {
		return err
	}
	out.state.Adopt(log.State.View())
	out.Last = max(out.Last, log.Last)
	out.secrets = []Secrets{secrets}
	out.Others, out.removed = othersOf(id, log), make(map[string]bool)
	for i, f := range out.Others {
		// Adopt dropped from the file's members whom the end of the log removes.
		for _, m := range others(id, file) {
			if m.ID == f.ID {
				out.Others[i] = f.With(m)
			}
		}
		_, removed := file.Removed(f.ID)
		_, waited := out.state.View().FormerMember(f.ID)
		out.removed[f.ID] = removed && !waited
	}
	if _, removed := out.state.View().Removed(id.ID); !same || !removed {
		out.Self = id
	}
	return nil
}

// ForeignError refuses the snapshot of another cluster.
type ForeignError struct {
	Theirs string // ID of the snapshot's cluster
	Ours   string // of the one here, or the one that was named
}

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("the snapshot is of cluster %s, not of %s", e.Theirs, e.Ours)
}

func readLog(dir *Dir) (log *host.History, err error) {
	err = withStorage(host.Open, dir.RaftDir(), func(st raftstore.Storage) (err error) {
		log, err = host.Replay(st)
		return err
	})
	return log, err
}

// others returns the peers of a history that may run on other hosts.
func others(self Identity, v fsm.View) []membership.FormerMember {
	return slices.DeleteFunc(v.MayRun(self.ID), func(m membership.FormerMember) bool { return m.Address == self.Address })
}

// Ask asks the other peers' hosts, at the peers' port and by gossip, whether a
// peer runs there.
func (h Host) Ask(ctx context.Context, r *Refounding) ([]cluster.Asked, error) {
	s := cluster.Surveyor{Gossip: cluster.GossipOptions{
		ID: r.Self.ID, Cluster: r.Self.Cluster, Incarnation: r.state.View().Incarnation(), Binary: h.Binary,
		Listen: h.Config.Gossip.Listen,
	}}
	var seeds []string
	for _, p := range r.Others {
		seeds = append(seeds, p.Gossip)
	}
	s.Gossip.Advertise, _ = h.GossipAddress(ctx, r.Self.Gossip, seeds) // each is asked itself
	for _, secrets := range r.secrets {
		if !slices.ContainsFunc(s.CAs, func(ca *x509.Certificate) bool { return ca.Equal(secrets.Credentials.CA) }) {
			s.CAs = append(s.CAs, secrets.Credentials.CA)
		}
		s.Gossip.Ring.Keys = append(s.Gossip.Ring.Keys, secrets.Ring.Keys...)
	}
	return s.Ask(ctx, r.Others)
}

// Found founds the cluster that was planned and judged. The old state stays, in a
// folder of its own; the process may die at any point, and what it began may be
// repeated.
func (h Host) Found(dir *Dir, r *Refounding) (*Refounded, error) {
	if !r.judged {
		return nil, fmt.Errorf("%s: the other peers were not judged", r.Verb)
	}
	state, out, err := h.rewritten(r)
	if err != nil {
		return nil, err
	}
	id := r.Self
	id.Incarnation, id.Seeds, id.Known = out.Incarnation, nil, cluster.Known{}
	secrets, err := h.issue(state.View(), id, out.Incarnation)
	if err != nil {
		return nil, err
	}
	build := func(raftDir string) error {
		err := withStorage(host.Create, raftDir, func(st raftstore.Storage) error { return host.Seed(st, state, server(id)) })
		if err != nil {
			return err
		}
		return dir.do("read back", raftDir, func() error {
			return withStorage(host.Open, raftDir, func(st raftstore.Storage) error { return host.VerifySeed(st, state.View()) })
		})
	}
	out.Old, err = dir.Replace(r.Verb, h.Wall(), id, secrets, build, h.handOver)
	return out, err
}

// Preview returns what Found would do.
func (h Host) Preview(r *Refounding) (*Refounded, error) {
	_, out, err := h.rewritten(r)
	return out, err
}

// rewritten returns the state that the founded cluster begins with.
func (h Host) rewritten(r *Refounding) (*fsm.State, *Refounded, error) {
	state := *r.state // an immutable state, of which Refound makes another
	gone := func(m membership.FormerMember) bool {
		return r.removed[m.ID] || slices.ContainsFunc(r.Lost, func(l membership.FormerMember) bool { return l.ID == m.ID })
	}
	err := state.Refound(fsm.Refound{
		Index: r.Last, Uncommitted: r.Uncommitted, UnixMillis: h.Wall().UnixMilli(), NewIncarnation: true,
		Survivor: r.self.ID, Self: r.self,
		Former: slices.DeleteFunc(slices.Clone(r.Others), gone),
	})
	if err != nil {
		return nil, nil, err
	}
	return &state, &Refounded{Incarnation: state.View().Incarnation(), Base: state.View().Base()}, nil
}

// issue makes the secrets of a peer from the keys in a state.
func (h Host) issue(v fsm.View, id Identity, incarnation uint64) (s Secrets, err error) {
	ca, err := pki.ParseCA(v.Secrets().CACert, v.Secrets().CAKey)
	if err != nil {
		return s, fmt.Errorf("the cluster's CA: %w", err)
	}
	s.Credentials, err = cluster.Issue(ca, pki.PeerIdentity(v.ClusterID(), id.ID, incarnation), h.Wall(), h.Random)
	s.Ring = cluster.RingOf(v)
	return s, err
}

// founding needs: the state twice, as the snapshot and while it is compressed,
// and what a log, its ballast and the file system want.
const foundingSlack = 128 << 20

// RoomFor returns an error if the disk of dir has no room for a state of size
// bytes next to the one that is there.
func (d *Dir) RoomFor(size int64) error {
	var disk unix.Statfs_t
	at := d.root
	err := unix.Statfs(at, &disk)
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) { // Look makes no directory
		at = filepath.Dir(at)
		err = unix.Statfs(at, &disk)
	}
	if err != nil {
		return &fs.PathError{Op: "statfs", Path: d.root, Err: err}
	}
	free, need := disk.Bavail*uint64(disk.Bsize), uint64(size)+foundingSlack
	if free < need {
		return fmt.Errorf("%s has %s free, and the new state needs %s next to the old one: %w", d.root, ballast.Size(free),
			ballast.Needed(need), unix.ENOSPC)
	}
	return nil
}
