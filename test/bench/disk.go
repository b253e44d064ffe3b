package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of the disk probe: a block is what bolt and most disks write at least,
// and the file is laid out in advance so that no write changes its length.
const (
	probeBlock  = 4 << 10
	probeBlocks = 1024
)

// onDisk refuses a memory file system, where a sync costs nothing.
func onDisk(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return fmt.Errorf("%s is in memory; choose a directory on a disk with -dir", dir)
	}
	return nil
}

// diskProbe writes blocks to a file of its own and waits for the disk.
type diskProbe struct {
	file  *os.File
	block []byte
	next  int64
}

func newDiskProbe(dir string) (*diskProbe, error) {
	f, err := os.CreateTemp(dir, "probe-*")
	if err != nil {
		return nil, fmt.Errorf("disk probe: %w", err)
	}
	p := &diskProbe{file: f, block: make([]byte, probeBlock)}
	if _, err := f.Write(make([]byte, probeBlock*probeBlocks)); err != nil {
		return nil, errors.Join(fmt.Errorf("disk probe: %w", err), f.Close())
	}
	if err := f.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("disk probe: %w", err), f.Close())
	}
	return p, nil
}

// pair takes the time of two writes, each waited for: what a log that is
// written on the leader and then on a follower costs at the very least.
func (p *diskProbe) pair() (time.Duration, error) {
	began := time.Now()
	for range 2 {
		if _, err := p.file.WriteAt(p.block, p.next*probeBlock); err != nil {
			return 0, fmt.Errorf("disk probe: %w", err)
		}
		if err := unix.Fdatasync(int(p.file.Fd())); err != nil {
			return 0, fmt.Errorf("disk probe: %w", err)
		}
		p.next = (p.next + 1) % probeBlocks
	}
	return time.Since(began), nil
}

func (p *diskProbe) close() error { return p.file.Close() }
