package ramdisklogs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// leastCharge is what a file counts at least, which bounds their number, too:
	// 16,384 in a quota of 1 GiB.
	leastCharge = 64 << 10
	// unknownShare of the quota, one in four, is for logs of machines that are not
	// known: any client may send those.
	unknownShare = 4
	// unfinished begins the name of a file that is being written.
	unfinished = ".logs-"
)

// file is one with logs in the directory.
type file struct {
	name    string
	unknown bool // whose logs they are
	charge  int64
	changed time.Time
}

// makeRoom deletes files until one of so many bytes fits into the quota. Logs of
// unknown machines have a share of it and go first, the oldest before the others;
// they never displace those of a node.
func (d *Dir) makeRoom(name string, ofUnknown bool, bytes int64) error {
	files, err := d.files(name)
	if err != nil {
		return fmt.Errorf("list ramdisk logs of %s: %w", d.path, err)
	}
	slices.SortStableFunc(files, func(a, b file) int {
		switch {
		case a.unknown && !b.unknown:
			return -1
		case b.unknown && !a.unknown:
			return 1
		}
		return cmp.Or(a.changed.Compare(b.changed), strings.Compare(a.name, b.name))
	})
	own := max(bytes, leastCharge)
	all, strangers, fixed := own, int64(0), own // fixed: what may not be deleted for this file
	if ofUnknown {
		strangers = own
	}
	for _, f := range files {
		all += f.charge
		if f.unknown {
			strangers += f.charge
		} else if ofUnknown {
			fixed += f.charge
		}
	}
	if fixed > d.quota || ofUnknown && own > d.quota/unknownShare {
		return fmt.Errorf(
			"%d bytes of ramdisk logs do not fit into the quota of %d MiB; raise inspection.processing.ramdisk_logs_quota",
			bytes, d.quota>>20)
	}
	for _, f := range files {
		if all <= d.quota && (!ofUnknown || strangers <= d.quota/unknownShare) {
			break
		}
		if err := os.Remove(filepath.Join(d.path, f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete old ramdisk logs: %w", err)
		}
		all -= f.charge
		if f.unknown {
			strangers -= f.charge
		}
	}
	return nil
}

// files lists the files that this package makes, but for one that is about to be
// replaced. Those that have other names belong to others.
func (d *Dir) files(replaced string) (files []file, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		match := d.ours.FindStringSubmatch(e.Name())
		rest := strings.HasPrefix(e.Name(), unfinished) // of a process that died
		if !rest && match == nil || e.Name() == replaced || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file{
			name: e.Name(), unknown: rest || slices.Contains(match[1:], unknown), charge: max(info.Size(), leastCharge),
			changed: info.ModTime(),
		})
	}
	return files, nil
}
