package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Clean removes the folders of peers that a founding has replaced, and
// returns their paths; with dry it only returns them. It may run next to a peer.
func Clean(root string, dry bool) (removed []string, err error) {
	found, err := filepath.Glob(filepath.Join(root, beforePrefix+"*-*"))
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	for _, path := range found {
		if !dry {
			// The secrets first: a removal that is interrupted leaves none.
			err = errors.Join(os.RemoveAll(filepath.Join(path, credentialsFile)),
				os.RemoveAll(filepath.Join(path, gossipKeyFile)), os.RemoveAll(path))
		}
		if err != nil {
			return removed, fmt.Errorf("data directory: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}
