package host

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Bounds of what is read.
const (
	maxFile  = 1 << 20 // bytes of one configuration file
	maxNames = 100_000 // in one directory
)

// files are those of this host.
type files struct{}

// Read returns what a file holds.
func (files) Read(name string) ([]byte, error) { return readBounded(name, maxFile) }

func readBounded(name string, most int64) (text []byte, err error) {
	// Not a pipe or a device, which might never answer.
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	text, _, err = bounds.ReadFile(name, most)
	return text, err
}

// List returns the names in a directory.
func (files) List(name string) (names []string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	names, err = f.Readdirnames(maxNames)
	if errors.Is(err, io.EOF) { // it is empty
		err = nil
	}
	return names, err
}
