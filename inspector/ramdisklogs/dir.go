// Package ramdisklogs stores the log archives of ramdisks as files of the host that
// received them, within a quota: the oldest go first.
package ramdisklogs

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// Nothing is kept when the file system of the directory is nearly full: the state
// of the cluster may lie on the same one, and any client may send logs.
const (
	leastFree  = 512 << 20 // bytes
	leastShare = 50        // one in fifty bytes
)

// dirMode and fileMode keep others of the host from reading what a machine
// logged.
const (
	dirMode  = 0o750
	fileMode = 0o640
)

// How long a ramdisk waits until its logs are stored. Machines that fail together wait for each other.
const (
	turnLimit  = 20 * time.Second // for the files of others
	storeLimit = 5 * time.Second  // for its own
	noteTime   = time.Second      // is left of the time for its answer, to note the place
)

// Dir keeps logs in one directory. All methods may be called concurrently.
type Dir struct {
	path, format string
	ours         *regexp.Regexp // names that format makes
	quota        int64          // bytes
	always       bool
	wall         func() time.Time
	free         func(path string) (bytes, of uint64, err error)

	calls bounds.Calls // of which each makes room and writes a file
}

var _ inspector.LogKeeper = (*Dir)(nil)

// Open returns the directory of the configuration, which must name one. It is
// made when the first logs come.
func Open(conf config.Processing, wall func() time.Time) (*Dir, error) {
	d := &Dir{
		path: conf.RamdiskLogsDir, format: conf.RamdiskLogsFilenameFormat, quota: int64(conf.RamdiskLogsQuota) << 20,
		always: conf.AlwaysStoreRamdiskLogs, wall: wall, free: free,
	}
	_, err := d.name(inspector.RamdiskLogs{})
	if err == nil {
		d.ours, err = pattern(d.format)
	}
	if err != nil {
		return nil, fmt.Errorf("inspection.processing.ramdisk_logs_filename_format: %w", err)
	}
	return d, nil
}

// Wants implements inspector.LogKeeper.
func (d *Dir) Wants(failed bool) bool { return failed || d.always }

// Keep implements inspector.LogKeeper. A file of the same name is replaced; old
// files are deleted as the quota demands.
func (d *Dir) Keep(ctx context.Context, logs inspector.RamdiskLogs) (path string, err error) {
	archive, err := base64.StdEncoding.DecodeString(logs.Base64)
	if err != nil {
		return "", fmt.Errorf("logs are not base64: %w", err)
	}
	name, err := d.name(logs)
	if err != nil {
		return "", err
	}
	file := filepath.Join(d.path, name) // a call that hangs goes on to use it
	var failed error
	store := func() { failed = d.store(file, logs.Node == "", archive) }
	if err := d.calls.DoInTurn(turn(ctx), storeLimit, store); err != nil {
		return "", fmt.Errorf("inspection.processing.ramdisk_logs_dir: %s: %w", d.path, err)
	}
	return file, failed
}

// turn is how long a ramdisk whose answer is due by the end of ctx waits for the files of others.
func turn(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(turnLimit, time.Until(end)-storeLimit-noteTime)
	}
	return turnLimit
}

// store makes room for a file and writes it.
func (d *Dir) store(path string, ofUnknown bool, archive []byte) error {
	if err := os.MkdirAll(d.path, dirMode); err != nil {
		return fmt.Errorf("make the directory of ramdisks' logs: %w", err)
	}
	if err := d.makeRoom(filepath.Base(path), ofUnknown, int64(len(archive))); err != nil {
		return err
	}
	if err := d.room(len(archive)); err != nil {
		return err
	}
	return write(path, archive)
}

func (d *Dir) name(logs inspector.RamdiskLogs) (string, error) {
	return name(d.format, map[string]string{"uuid": logs.Node, "mac": logs.MAC, "bmc": logs.BMC}, d.wall().UTC())
}

// room makes sure that enough is free after so many bytes more.
func (d *Dir) room(more int) error {
	bytes, of, err := d.free(d.path)
	if err != nil {
		return fmt.Errorf("look how full %s is: %w", d.path, err)
	}
	if bytes < uint64(more)+leastFree || bytes-uint64(more) < of/leastShare {
		return fmt.Errorf("%s has %d MiB left, which is too little to keep logs; delete old ones", d.path, bytes>>20)
	}
	return nil
}

// free returns how many bytes of a file system are free for this process, and
// how many it has.
func free(path string) (bytes, of uint64, err error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), fs.Blocks * uint64(fs.Bsize), nil
}

// write makes a file whole or not at all. Nothing is synced: these are logs.
func write(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return fmt.Errorf("keep a ramdisk's logs: %w", err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(fileMode)
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep a ramdisk's logs: %w", err), os.Remove(file.Name()))
	}
	return nil
}

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
