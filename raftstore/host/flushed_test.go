package host

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/raft"
)

// flushedFile counts what is asked of a file.
type flushedFile struct {
	syncs, closed int
	fail          error // of Sync
}

func (f *flushedFile) Sync() error  { f.syncs++; return f.fail }
func (f *flushedFile) Close() error { f.closed++; return nil }

// A snapshot reaches the disk piece by piece, and is whole.
func TestSnapshotsAreFlushed(t *testing.T) {
	dir := t.TempDir()
	store, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, codec := raft.NewInmemTransport("a")
	create := func(t *testing.T) (*flushedSink, *flushedFile) {
		t.Helper()
		sink, err := store.Snapshots.Create(raft.SnapshotVersionMax, 7, 1, raft.Configuration{}, 1, codec)
		if err != nil {
			t.Fatal(err)
		}
		s, file := sink.(*notedSink).SnapshotSink.(*flushedSink), new(flushedFile)
		if err := s.file.Sync(); err != nil {
			t.Fatalf("the file of the snapshot that is written: %v", err)
		}
		if err := s.file.Close(); err != nil {
			t.Fatal(err)
		}
		s.file = file
		return s, file
	}
	part := bytes.Repeat([]byte("snapshot"), flushEvery/16) // half of what may wait

	sink, file := create(t)
	for range 7 {
		if _, err := sink.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if file.syncs != 3 {
		t.Errorf("flushed-snapshot: %d times in 3.5 pieces, want 3", file.syncs)
	}
	if err := sink.Close(); err != nil || file.closed != 1 {
		t.Errorf("closed %d times: %v", file.closed, err)
	}
	_, r, err := store.Snapshots.Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if all, err := io.ReadAll(r); err != nil || !bytes.Equal(all, bytes.Repeat(part, 7)) {
		t.Errorf("%d bytes of %d are read: %v", len(all), 7*len(part), err)
	}

	sink, file = create(t)
	file.fail = errors.New("the disk is gone")
	if _, err := sink.Write(bytes.Repeat(part, 2)); !errors.Is(err, file.fail) {
		t.Errorf("unflushed-snapshot: written to a disk that is gone: %v", err)
	}
	for range 2 {
		if err := sink.Cancel(); err != nil || file.closed != 1 {
			t.Errorf("closed %d times: %v", file.closed, err)
		}
	}
	if left, err := store.Snapshots.List(); err != nil || len(left) != 1 {
		t.Errorf("%d snapshots, want the first alone: %v", len(left), err)
	}
}
