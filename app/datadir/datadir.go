// Package datadir is a host's data directory: its layout and lock, the identity and the
// secrets of the peer that lives there, and how it begins: by founding a cluster, by
// joining one, and by founding it again (recover, restore). The peer itself is package app.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/cluster/pki"
)

// What a data directory holds. Everything that makes a peer is below one
// folder, so that one rename creates it and one removes it: init, join and
// leave leave nothing half-done.
const (
	peerFolder      = "peer"
	peerFile        = "peer.json"
	credentialsFile = "credentials.pem"
	gossipKeyFile   = "gossip.key"
	raftFolder      = "raft"
	notesFile       = "workers"
	lockFile        = "lock"
	buildPattern    = ".new-*"
	wastePattern    = ".left-*"
)

// Makes reports whether a name at the top of a data directory is one that this package makes there. All else,
// such as a share with backups, is the operator's.
func Makes(name string) bool {
	switch strings.TrimSuffix(name, unfinished) {
	case peerFolder, lockFile, departureFile:
		return true
	}
	return isAside(name) || slices.ContainsFunc([]string{buildPattern, wastePattern, foundedPrefix + "*"},
		func(pattern string) bool { is, err := filepath.Match(pattern, name); return is && err == nil })
}

// Errors of a data directory.
var (
	// ErrNoPeer says that neither init nor join was run here.
	ErrNoPeer = errors.New("no peer lives in this data directory")
	// ErrPeerExists says that the directory holds the files of a peer.
	ErrPeerExists = errors.New("data directory holds a peer already")
	// ErrLocked says that another process uses the directory.
	ErrLocked = errors.New("another trivet process uses this data directory")
)

// Identity is who a peer is; it is written once, by init or join, and again by
// recover, which raises the incarnation.
type Identity struct {
	ID          string `json:"id"` // server ID, new at every join
	Name        string `json:"name"`
	Cluster     string `json:"cluster_id"`
	Incarnation uint64 `json:"incarnation"`
	Address     string `json:"address"` // host:port of the peers' port, as the others dial it
	Gossip      string `json:"gossip"`  // host:port of gossip, as the others dial it
	// Seeds are the gossip addresses of the members at the time of joining; the
	// log knows the present ones as soon as it has arrived.
	Seeds []string `json:"seeds,omitempty"`
	// Known is what the join told of the other peers, for the same time.
	Known cluster.Known `json:"known,omitzero"`
}

// Dir is a locked data directory.
type Dir struct {
	root string
	lock *os.File
	// fault, if set, may fail a change of the disk: a test's.
	fault func(op, path string) error
}

// Open creates the directory if need be and locks it against other
// processes. What an interrupted init, join or leave left is removed, and an
// interrupted switch to a founded peer is finished.
func Open(root string) (*Dir, error) { return openDataDir(root, nil) }

func openDataDir(root string, fault func(op, path string) error) (*Dir, error) {
	if err := makeRoot(filepath.Clean(root)); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := lockIn(root, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return nil, err
	}
	d := &Dir{root: root, lock: f, fault: fault}
	// What the last process wrote is written over, and the block is never given back: on a full
	// disk this one would not get another.
	_, err = f.WriteAt(fmt.Appendf(nil, "%-15d\n", os.Getpid()), 0)
	if err := errors.Join(inDir(err), d.sweep(), d.finishSwitch()); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// makeRoot makes the directory where it is missing. Until a peer lives in it, each opening waits until
// the disk has its name, and those of the folders above that it made: without them, a power cut would
// take all that is below.
func makeRoot(root string) error {
	names := []string{root}
	for at := filepath.Dir(root); at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		names = append(names, at)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, peerFolder)); err == nil {
		return nil
	}
	for _, name := range names {
		if err := SyncName(name); err != nil {
			return err
		}
	}
	return nil
}

// Look is Open for a dry run: it locks the directory, if there is one, and changes
// nothing. A switch that was interrupted is to be finished first.
func Look(root string) (*Dir, error) {
	if founded, err := pendingSwitch(root); err != nil || founded != "" {
		return nil, errors.Join(err,
			fmt.Errorf("%s: the switch to %s was interrupted: without --dry-run this command finishes it, as the peer's next start does",
				root, filepath.Base(founded)))
	}
	f, err := lockIn(root, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return &Dir{root: root}, nil
	}
	if err != nil {
		return nil, err
	}
	return &Dir{root: root, lock: f}, nil
}

// lockIn opens the file that locks a directory, and locks it.
func lockIn(root string, flag int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(root, lockFile), flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid, holder := make([]byte, 16), ""
		if n, err := f.ReadAt(pid, 0); n > 0 || err == nil {
			holder = fmt.Sprintf(" (process %s)", strings.TrimSpace(string(pid[:n])))
		}
		return nil, errors.Join(fmt.Errorf("%s: %w%s", root, ErrLocked, holder), f.Close())
	}
	return f, nil
}

// sweep removes what was being built or thrown away when a process died.
func (d *Dir) sweep() error {
	for _, pattern := range []string{buildPattern, wastePattern, filepath.Join(peerFolder, "*"+unfinished)} {
		found, err := filepath.Glob(filepath.Join(d.root, pattern))
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		for _, path := range found {
			err := d.discard(path)
			if errors.Is(err, fs.ErrPermission) {
				continue // of a command that root ran: it keeps no peer from starting, and root's next command removes it
			}
			if err != nil {
				return fmt.Errorf("data directory: %w", err)
			}
		}
	}
	return nil
}

// Close unlocks the directory.
func (d *Dir) Close() error {
	if d.lock == nil { // there was nothing to lock
		return nil
	}
	return d.lock.Close()
}

// Path returns the directory.
func (d *Dir) Path() string { return d.root }

// RaftDir is where the log and its snapshots are.
func (d *Dir) RaftDir() string { return filepath.Join(d.root, peerFolder, raftFolder) }

// PeerDir is where everything is that makes the peer.
func (d *Dir) PeerDir() string { return filepath.Join(d.root, peerFolder) }

// NotesFile is where workers leave word for the next process.
func (d *Dir) NotesFile() string { return filepath.Join(d.root, peerFolder, notesFile) }

// HasPeer says whether a peer lives here.
func (d *Dir) HasPeer() (bool, error) {
	_, err := os.Stat(filepath.Join(d.root, peerFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, inDir(err)
}

// Secrets are what a peer needs before it can reach the log.
type Secrets struct {
	Credentials *pki.Credentials
	Ring        cluster.Ring // of gossip
}

// Create makes a peer: build fills a new folder, which becomes the peer's with
// one rename, after handOver: a process that dies after it leaves a peer that its user can
// start. The next opening removes what an earlier error has left.
func (d *Dir) Create(id Identity, s Secrets, build func(raftDir string) error, handOver func() error) error {
	if has, err := d.HasPeer(); err != nil || has {
		return errors.Join(err, ErrPeerExists)
	}
	tmp, err := d.assemble(id, s, build, handOver)
	if err != nil {
		return err
	}
	// Before the rename: a process that dies between the two must not leave a new
	// peer with the record that it was removed.
	if err := d.do("remove", departureFile, d.forgetDeparture); err != nil {
		return errors.Join(err, d.discard(tmp))
	}
	return d.rename(tmp, filepath.Join(d.root, peerFolder))
}

func writeIdentity(folder string, id Identity, s Secrets) error {
	text, err := encodeIdentity(id)
	if err != nil {
		return err
	}
	cred, err := s.Credentials.Encode()
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	ring, err := s.Ring.Encode()
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(filepath.Join(folder, peerFile), text),
		writeFile(filepath.Join(folder, credentialsFile), cred),
		writeFile(filepath.Join(folder, gossipKeyFile), ring),
	)
}

func encodeIdentity(id Identity) ([]byte, error) {
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode identity: %w", err)
	}
	return append(text, '\n'), nil
}

// Load reads the peer that lives here.
func (d *Dir) Load() (id Identity, s Secrets, err error) {
	if has, err := d.HasPeer(); err != nil || !has {
		return id, s, errors.Join(err, fmt.Errorf("%s: %w", d.root, ErrNoPeer))
	}
	folder := filepath.Join(d.root, peerFolder)
	if id, err = loadIdentity(folder); err != nil {
		return id, s, err
	}
	if s.Credentials, err = loadCredentials(folder); err != nil {
		return id, s, err
	}
	path := filepath.Join(folder, gossipKeyFile)
	keys, err := os.ReadFile(path)
	if err != nil {
		return id, s, fmt.Errorf("data directory: %w", err)
	}
	if s.Ring, err = cluster.ParseRing(keys); err != nil {
		return id, s, &CorruptError{Path: path, Err: err}
	}
	return id, s, nil
}

// SaveRing replaces the gossip keys.
func (d *Dir) SaveRing(r cluster.Ring) error {
	text, err := r.Encode()
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(d.root, peerFolder, gossipKeyFile), text)
}

// SaveCredentials replaces the certificate, the CA and the key at once.
func (d *Dir) SaveCredentials(c *pki.Credentials) error {
	text, err := c.Encode()
	if err != nil {
		return fmt.Errorf("encode credentials: %w", err)
	}
	return replaceFile(filepath.Join(d.root, peerFolder, credentialsFile), text)
}

// SaveIdentity replaces who the peer is.
func (d *Dir) SaveIdentity(id Identity) error {
	text, err := encodeIdentity(id)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(d.root, peerFolder, peerFile), text)
}

// Wipe removes the peer, log and all; with one rename it is gone.
func (d *Dir) Wipe() error {
	waste, err := os.MkdirTemp(d.root, wastePattern)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := os.Rename(filepath.Join(d.root, peerFolder), filepath.Join(waste, peerFolder)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := Sync(d.root); err != nil {
		return err
	}
	return os.RemoveAll(waste)
}
