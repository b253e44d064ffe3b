package bounds

import (
	"bytes"
	"os"
	"time"
)

// syncedPiece is how many bytes of a SteppedFile are synced at once.
const syncedPiece = 4 << 20

// Steps are the calls of an attempt that makes many in a file system that may hang, one after the other. Where
// one hangs no later one of the attempt is made: one whose file system answers again does nothing next to
// the attempt that follows it. The zero Steps are ready for use, by one goroutine at a time.
type Steps struct {
	calls Calls
	hung  error // nil, or ErrHangs: a call of this attempt
}

// Begin begins another attempt.
func (s *Steps) Begin() { s.hung = nil }

// Hung reports whether the attempt is over because a call hung.
func (s *Steps) Hung() bool { return s.hung != nil }

// Do makes a call and returns its error, or ErrHangs when it has taken limit or one before it has hung. What
// a call that hangs writes is for nothing but itself.
func (s *Steps) Do(limit time.Duration, call func() error) error {
	var fault error
	if s.hung == nil {
		s.hung = s.calls.Do(limit, func() { fault = call() })
	}
	if s.hung != nil {
		return s.hung
	}
	return fault
}

// SteppedFile is a file of which each read and write is one step. It syncs what is written piece by piece, so
// that no sync takes long of a file system that is only slow.
type SteppedFile struct {
	File *os.File
	Step func(call func() error) error

	unsynced int
}

// Write implements io.Writer.
func (f *SteppedFile) Write(p []byte) (int, error) {
	own := bytes.Clone(p) // of a call that hangs
	f.unsynced += len(p)
	full := f.unsynced >= syncedPiece
	if full {
		f.unsynced = 0
	}
	err := f.Step(func() error {
		if _, err := f.File.Write(own); err != nil || !full {
			return err
		}
		return f.File.Sync()
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read implements io.Reader.
func (f *SteppedFile) Read(p []byte) (int, error) {
	own, n := make([]byte, len(p)), 0
	err := f.Step(func() (err error) { n, err = f.File.Read(own); return err })
	if err != nil {
		return 0, err
	}
	return copy(p, own[:n]), nil
}
