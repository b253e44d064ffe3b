package local

import (
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"testing/fstest"
)

// shares is a data directory in which some names are shares that do not answer.
type shares struct {
	fstest.MapFS
	t    *testing.T
	dead []string
}

func (s shares) touch(name string) {
	s.t.Helper()
	if slices.Contains(s.dead, name) {
		s.t.Errorf("share-is-not-touched: %s was looked at", name)
	}
}

// Lstat implements fs.ReadLinkFS.
func (s shares) Lstat(name string) (fs.FileInfo, error) { s.touch(name); return s.MapFS.Lstat(name) }

// ReadDir implements fs.ReadDirFS.
func (s shares) ReadDir(name string) ([]fs.DirEntry, error) {
	s.touch(name)
	return s.MapFS.ReadDir(name)
}

// TestSharesAreNotTouched: what a command of root gives to the service is what Trivet made there. A share to which
// root has no rights, or whose server is gone, may lie below the data directory.
func TestSharesAreNotTouched(t *testing.T) {
	const disk, other = 1, 2
	at := func(mode fs.FileMode, dev uint64) *fstest.MapFile {
		return &fstest.MapFile{Mode: mode, Sys: &syscall.Stat_t{Dev: dev}}
	}
	dir := shares{t: t, dead: []string{"backups", "before-upgrade-1", "logs"}, MapFS: fstest.MapFS{
		".": at(fs.ModeDir, disk), "lock": at(0, other), // of an overlay
		"departure.json": at(0, disk), ".new-1": at(fs.ModeDir, disk), "peer": at(fs.ModeDir, disk),
		"peer/raft": at(fs.ModeDir, other), "peer/raft/log.db": at(0, other), "peer/peer.json": at(0, disk),
		"before-join-20260701T120000Z":            at(fs.ModeDir, disk),
		"before-join-20260701T120000Z/gossip.key": at(0, disk), ".founded-join-20260701T120000Z": at(fs.ModeDir, disk),
		"backups": at(fs.ModeDir, other), "before-upgrade-1": at(fs.ModeDir, disk), "logs": at(fs.ModeDir, disk),
	}}
	var got []string
	err := eachMade(dir, func(name string, _ *syscall.Stat_t) error { got = append(got, name); return nil })
	want := []string{".", ".founded-join-20260701T120000Z", ".new-1", "before-join-20260701T120000Z",
		"before-join-20260701T120000Z/gossip.key", "departure.json", "lock", "peer", "peer/peer.json"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("share-is-not-touched: given away are %v (%v), want %v", got, err, want)
	}
}
