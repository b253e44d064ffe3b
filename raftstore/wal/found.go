package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// ErrDamaged says that the files lost entries that were acknowledged, or are not
// of the same time as the log behind them.
var ErrDamaged = errors.New("acknowledged entries are missing")

// found is what a file holds of one generation that is not carried over yet.
type found struct {
	generation uint64 // 0: nothing
	batches    uint64
	before     uint64 // batches that the generation before must have
	end        int64  // where the next batch goes
	entries    []*raft.Log
}

// find reads a file. carried is the last generation that the log behind has in full.
func find(f File, size int64, carried uint64) (found, error) {
	text := make([]byte, size)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return found{}, fmt.Errorf("read the write-ahead log: %w", err)
	}
	if int64(n) < size {
		return found{}, fmt.Errorf("%w: a file has %d bytes of %d", ErrDamaged, n, size)
	}
	var r found
	for {
		b, err := read(text[r.end:])
		if err != nil || b.generation <= carried || b.number != r.batches || r.generation != 0 && b.generation != r.generation {
			break
		}
		es, err := entries(b.body)
		if err != nil {
			return found{}, fmt.Errorf("%w: batch %d of generation %d cannot be decoded", ErrDamaged, b.number, b.generation)
		}
		r.generation, r.before = b.generation, b.before
		r.entries = append(r.entries, es...)
		r.batches++
		r.end += b.size
	}
	if b, at, ok := further(text, r.end, carried); ok {
		return found{}, fmt.Errorf("%w: at byte %d of a file batch %d of generation %d is missing, and batch %d follows at byte %d",
			ErrDamaged, r.end, r.batches, b.generation, b.number, at)
	}
	return r, nil
}

// further looks behind the end for an intact batch that is not carried over. There
// is none, since a batch is written when the one before it is on the disk.
func further(text []byte, end int64, carried uint64) (batch, int64, bool) {
	for at := end; at+headerLen <= int64(len(text)); at += align {
		if binary.LittleEndian.Uint32(text[at:]) != magic {
			continue
		}
		if b, err := read(text[at:]); err == nil && b.generation > carried && b.generation <= carried+2 {
			return b, at, true
		}
	}
	return batch{}, 0, false
}

// findAll reads both files: what of each is not carried over, in order. Only the
// two generations after the last that was carried over can be there.
func findAll(files [2]File, size int64, carried uint64) (older, newer found, err error) {
	for n, f := range files {
		r, err := find(f, size, carried)
		if err != nil {
			return found{}, found{}, err
		}
		switch {
		case r.generation == 0:
		case r.generation == carried+1 && int(r.generation%2) == n:
			older = r
		case r.generation == carried+2 && int(r.generation%2) == n:
			newer = r
		default:
			return found{}, found{}, fmt.Errorf("%w: generation %d is in file %d, and %d is the last that the log has", ErrDamaged, r.generation, n, carried)
		}
	}
	if newer.generation != 0 && older.batches != newer.before {
		return found{}, found{}, fmt.Errorf("%w: generation %d has %d batches of %d, and %d is there", ErrDamaged, carried+1, older.batches, newer.before, carried+2)
	}
	return older, newer, nil
}
