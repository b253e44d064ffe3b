package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Clean removes the folders of peers that a founding or a join has replaced, and
// returns their paths; with dry it only returns them. It may run next to a peer.
func Clean(root string, dry bool) (removed []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		switch {
		case !e.IsDir() || !isAside(e.Name()):
			continue
		case !dry: // the secrets first: a removal that is interrupted leaves none
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

// isAside reports whether a switch gave a folder its name, as freeSuffix writes it: a copy
// that an operator calls before-upgrade-1 is not ours to remove.
func isAside(name string) bool {
	suffix, prefixed := strings.CutPrefix(name, beforePrefix)
	verb, date, _ := strings.Cut(suffix, "-")
	_, err := time.Parse(switchDate, date)
	return prefixed && slices.Contains([]string{VerbRecover, VerbRestore, verbJoin}, verb) && err == nil
}
