package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trivet-ha/trivet/cluster"
)

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
