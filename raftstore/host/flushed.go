package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// flushEvery is how many bytes of a snapshot wait for the disk at most. raft would leave
// all of them to the end, and a commit to the log of the same disk waits meanwhile: for
// 0.3 s with 100,000 machines.
const flushEvery = 4 << 20

// flushed is a store of snapshots whose bytes go to the disk while they are written. raft syncs
// the files of a snapshot and the folder of all snapshots, but not the one that the files are in: a
// power cut may leave that one empty, on a file system that does not sync names with their files.
type flushed struct {
	raft.SnapshotStore
	dir string // which raft.FileSnapshotStore was made with
}

// Create implements raft.SnapshotStore.
func (s flushed) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	serversIndex uint64, codec raft.Transport) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, servers, serversIndex, codec)
	if err != nil {
		return nil, err
	}
	// The sink does not give its file, but a file's bytes may be flushed through any
	// descriptor of it. Its name is raft's own as of 1.8.
	file, err := os.OpenFile(filepath.Join(s.dir, "snapshots", sink.ID()+".tmp", "state.bin"), os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("flush a snapshot: %w", err), sink.Cancel())
	}
	// The disk has to have their names, too. raft has made both files, and gives neither another name.
	folder, err := os.Open(filepath.Dir(file.Name()))
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("flush a snapshot: %w", err), file.Close(), sink.Cancel())
	}
	return &flushedSink{SnapshotSink: sink, file: file}, nil
}

// flushedSink is a snapshot that is being written, by one goroutine.
type flushedSink struct {
	raft.SnapshotSink
	file interface {
		io.Closer
		Sync() error
	}
	waiting int // bytes
	ended   bool
}

// Write implements raft.SnapshotSink.
func (s *flushedSink) Write(p []byte) (int, error) {
	n, err := s.SnapshotSink.Write(p)
	if s.waiting += n; err != nil || s.waiting < flushEvery {
		return n, err
	}
	s.waiting = 0
	return n, s.file.Sync()
}

// Close implements raft.SnapshotSink.
func (s *flushedSink) Close() error { return errors.Join(s.end(), s.SnapshotSink.Close()) }

// Cancel implements raft.SnapshotSink. raft calls it after a failure whether or not the
// writer has.
func (s *flushedSink) Cancel() error { return errors.Join(s.end(), s.SnapshotSink.Cancel()) }

func (s *flushedSink) end() error {
	if s.ended {
		return nil
	}
	s.ended = true
	return s.file.Close()
}
