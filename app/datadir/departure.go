package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trivet-ha/trivet/cluster"
)

// departureFile says, next to the peer's folder, how the last peer of a data
// directory ceased to be a member.
const departureFile = "departure.json"

// Values of Departure.How.
const (
	DepartedLeft    = "left"    // by 'trivet leave'; its log is wiped
	DepartedRemoved = "removed" // by another peer; its log is still there
	// DepartedSuperseded says that the cluster was founded again without the peer,
	// whose log is still there.
	DepartedSuperseded = "superseded"
)

// Departure is how the last peer of a data directory ceased to be a member.
type Departure struct {
	How     string    `json:"how"`
	Name    string    `json:"name"`
	Cluster string    `json:"cluster_id"`
	At      time.Time `json:"at"`
}

// Depart records how the peer ceased to be a member; Create forgets it.
func (d *Dir) Depart(dep Departure) error {
	text, err := json.MarshalIndent(dep, "", "  ")
	if err != nil {
		return fmt.Errorf("encode departure: %w", err)
	}
	return replaceFile(filepath.Join(d.root, departureFile), append(text, '\n'))
}

// forgetDeparture is for a directory in which a peer is to live again. The disk has that before the
// peer gets its name: a power cut may keep the later of two changes and lose the earlier.
func (d *Dir) forgetDeparture() error {
	err := os.Remove(filepath.Join(d.root, departureFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return d.do("sync", d.root, func() error { return Sync(d.root) })
}

// Departed reads the record in the data directory at root, also while another
// process has it locked; ok is false if there is none.
func Departed(root string) (dep Departure, ok bool, err error) {
	err = readJSON(filepath.Join(root, departureFile), &dep)
	if errors.Is(err, fs.ErrNotExist) {
		return dep, false, nil
	}
	return dep, err == nil, err
}

// sharedFile is what the cluster told this host of its configuration when it joined. It is there
// until the host's own configuration has it: a join that is killed before is finished with it.
const sharedFile = "joined.json"

// handOver gives what this process made to who runs the peer.
func (h Host) handOver() error {
	if h.HandOver == nil {
		return nil
	}
	return h.HandOver()
}

func keepShared(raftDir string, shared cluster.Shared) error {
	text, err := json.Marshal(shared)
	if err != nil {
		return fmt.Errorf("encode what the cluster told: %w", err)
	}
	return writeFile(filepath.Join(filepath.Dir(raftDir), sharedFile), text)
}

// Unconfigured returns what the cluster told when the host of the data directory at root joined, nil once Configured
// was called. It may be asked while another process has the directory locked.
func Unconfigured(root string) (*cluster.Shared, error) {
	shared := new(cluster.Shared)
	err := readJSON(filepath.Join(root, peerFolder, sharedFile), shared)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return shared, nil
}

// Configured notes that this host's configuration has what the cluster told.
func (d *Dir) Configured() error {
	folder := filepath.Join(d.root, peerFolder)
	err := os.Remove(filepath.Join(folder, sharedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return Sync(folder)
}
