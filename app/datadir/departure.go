package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
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
