package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// ErrDamaged says that the files lost entries that were acknowledged, or are not
// of the same time as the log behind them.
var ErrDamaged = errors.New("acknowledged entries may be missing")

// found is what a file holds of one generation that is not carried over yet.
type found struct {
	generation uint64
	batches    uint64 // that can be read
	begun      bool   // there is a header, and so before is known
	before     uint64 // batches that the generation before must have
	entries    []*raft.Log
}

// readAll returns a file's text.
func readAll(f File, size int64) ([]byte, error) {
	text := make([]byte, size)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the write-ahead log: %w", err)
	}
	return text[:n], nil
}

// find reads the batches of a generation that is not carried over. ack is what the other file says of
// those that were acknowledged.
func find(text []byte, s secret, generation, carried uint64, ack header) (found, error) {
	r := found{generation: generation}
	at := int64(batchAt)
	for {
		h, ok := s.open(text, at)
		if !ok || h.generation != generation || h.number != r.batches {
			break
		}
		r.begun, r.before = true, h.before
		body, ok := h.body(text, at)
		at += h.size()
		if !ok { // it was being written
			break
		}
		es, err := entries(body)
		if err != nil {
			return found{}, fmt.Errorf("%w: batch %d of generation %d: %w", ErrDamaged, h.number, generation, err)
		}
		r.entries = append(r.entries, es...)
		r.batches++
	}
	if ack.generation == generation && r.batches < ack.number {
		return found{}, fmt.Errorf("%w: of %d batches of generation %d, %d can be read", ErrDamaged, ack.number, generation,
			r.batches)
	}
	return r, r.further(text, s, at, carried)
}

// further looks behind the place where reading ended. A later header of the generation is
// written when all batches before it are on the disk, so there is none unless one of them was
// lost. The search costs one tag for each place that has the magic.
func (r found) further(text []byte, s secret, at int64, carried uint64) error {
	for ; at+headerLen <= int64(len(text)); at += align {
		h, ok := s.open(text, at)
		if !ok || h.generation <= carried { // what is carried over may not be cleared yet
			continue
		}
		if h.generation != r.generation || h.number > r.batches {
			return fmt.Errorf(
				"%w: batch %d of generation %d cannot be read, and what stands at byte %d of its file was written after it",
				ErrDamaged, r.batches, r.generation, at)
		}
	}
	return nil
}

// findAll reads both files: what of each is not carried over, in order. Only the
// two generations after the last that was carried over can be there.
func findAll(files [2]File, size int64, is record) (older, newer found, err error) {
	var texts [2][]byte
	var acks [2]header
	for n, f := range files {
		if texts[n], err = readAll(f, size); err != nil {
			return found{}, found{}, err
		}
		h, named := is.secret.open(texts[n], 0)
		ack, ok := is.secret.open(texts[n], ackAt)
		if int64(len(texts[n])) != size || !named || !ok || h != (header{number: uint64(n)}) ||
			ack.generation > is.carried+2 {
			return found{}, found{}, fmt.Errorf("%w: wal-%d is not the one that was written, or is newer than the log",
				ErrDamaged, n)
		}
		acks[n] = ack
	}
	next := is.carried + 1
	if older, err = find(texts[next%2], is.secret, next, is.carried, acks[(next+1)%2]); err != nil {
		return found{}, found{}, err
	}
	if newer, err = find(texts[(next+1)%2], is.secret, next+1, is.carried, acks[next%2]); err != nil {
		return found{}, found{}, err
	}
	if newer.begun && older.batches != newer.before {
		return found{}, found{}, fmt.Errorf("%w: generation %d has %d batches of %d, and generation %d is there",
			ErrDamaged, next, older.batches, newer.before, next+1)
	}
	return older, newer, nil
}
