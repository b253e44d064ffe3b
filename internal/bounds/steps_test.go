package bounds

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Of an attempt of which one call hangs no later one is made, and the next attempt begins as any other.
func TestStepsEndWithOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Steps
		share, made := make(chan struct{}), 0
		step := func() error { made++; return os.ErrNotExist }
		if err := s.Do(FileLimit, step); !errors.Is(err, os.ErrNotExist) || s.Hung() {
			t.Errorf("steps-have-errors: %v, it hung: %v", err, s.Hung())
		}
		if err := s.Do(FileLimit, func() error { <-share; return nil }); !errors.Is(err, ErrHangs) {
			t.Errorf("steps-end: %v", err)
		}
		close(share)
		time.Sleep(time.Hour) // in a bubble
		if err := s.Do(FileLimit, step); !errors.Is(err, ErrHangs) || !s.Hung() || made != 1 {
			t.Errorf("steps-end: %v after one that hung, and %d were made", err, made)
		}
		s.Begin()
		if err := s.Do(FileLimit, step); !errors.Is(err, os.ErrNotExist) || made != 2 {
			t.Errorf("steps-end: the next attempt: %v", err)
		}
	})
}

// What is written by steps is what is read by steps.
func TestSteppedFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stepped := &SteppedFile{File: f, Step: func(call func() error) error { return call() }}
	piece := make([]byte, syncedPiece/3)
	for i := range 5 {
		piece[0] = byte(i)
		if n, err := stepped.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("stepped-file: wrote %d: %v", n, err)
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(stepped)
	if err != nil || len(all) != 5*len(piece) || all[4*len(piece)] != 4 {
		t.Errorf("stepped-file: read %d bytes: %v", len(all), err)
	}
}
