package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// Behind is the log that the entries are carried over to, with the record of the files.
type Behind interface {
	raft.LogStore
	Set(key, value []byte) error
	Get(key []byte) ([]byte, error)
}

// open carries over what the files of a folder hold, and begins others.
func open(behind Behind, in folder, size int64, random io.Reader) (*Log, error) {
	if err := carryFolder(behind, in, size); err != nil {
		return nil, err
	}
	var is record
	if _, err := io.ReadFull(random, is.secret[:]); err != nil {
		return nil, fmt.Errorf("make the secret of the write-ahead log: %w", err)
	}
	// Before and after the files are made: those of a record that is not in use may be
	// removed, and those of one that is must be there.
	if err := is.write(behind); err != nil {
		return nil, err
	}
	if err := in.create(size, [2][]byte{is.secret.heading(0), is.secret.heading(1)}); err != nil {
		return nil, err
	}
	is.used = true
	if err := is.write(behind); err != nil {
		return nil, err
	}
	files, err := in.open()
	if err != nil {
		return nil, err
	}
	return newLog(behind, pair{in, files, size, is.secret}), nil
}

// carryFolder carries over what the files of a folder hold, and removes them.
func carryFolder(behind Behind, in folder, size int64) error {
	is, err := readRecord(behind)
	if err != nil {
		return err
	}
	files, err := in.open()
	if err != nil {
		return err
	}
	if is.used {
		is, err = carryFound(behind, files, size, is)
	} else {
		err = carryUnused(behind, files, size, is)
	}
	if err := errors.Join(err, closeFiles(files)); err != nil {
		return err
	}
	return discard(behind, in, is)
}

// carryFound carries over what files hold that are in use.
func carryFound(behind Behind, files [2]File, size int64, is record) (record, error) {
	for n, f := range files {
		if f == nil {
			return is, fmt.Errorf("%w: wal-%d is not there", ErrDamaged, n)
		}
	}
	older, newer, err := findAll(files, size, is)
	for _, r := range []found{older, newer} {
		if err == nil && len(r.entries) > 0 {
			is, err = is.carry(behind, r.entries, r.generation, size)
		}
	}
	is.carried = newer.generation // also where only a batch that was being written is left of it
	return is, err
}

// carryUnused looks at files that no record has in use: of v0.2.0, whose entries are carried
// over, or of a beginning or an end that was interrupted. Others belong to another log.
func carryUnused(behind Behind, files [2]File, size int64, is record) error {
	var legacy [2][]byte
	for n, f := range files {
		if f == nil {
			continue
		}
		text, err := readAll(f, legacySize)
		if err != nil {
			return err
		}
		if len(text) == legacySize {
			legacy[n] = text
			continue
		}
		_, ours := is.secret.open(text, 0)
		h, begun := is.secret.open(text, batchAt)
		if !ours || int64(len(text)) != size || begun && h.generation > is.carried {
			return fmt.Errorf("%w: wal-%d was written next to another log, or is newer than this one", ErrDamaged, n)
		}
	}
	return carryLegacy(behind, legacy)
}

// carry writes the entries of a generation to the log behind, at most so many bytes
// in a transaction, then that it has them.
func (r record) carry(behind Behind, es []*raft.Log, generation uint64, most int64) (record, error) {
	if err := carryEntries(behind, es, most); err != nil {
		return r, err
	}
	r.carried = generation
	return r, r.write(behind)
}

func carryEntries(behind Behind, es []*raft.Log, most int64) error {
	for len(es) > 0 {
		n, size := 0, int64(0)
		for n < len(es) && (n == 0 || size < most) {
			size += int64(entryLen + len(es[n].Data))
			n++
		}
		if err := behind.StoreLogs(es[:n]); err != nil {
			return fmt.Errorf("carry over the write-ahead log: %w", err)
		}
		es = es[n:]
	}
	return nil
}

// discard removes files of which all is carried over.
func discard(behind Behind, in folder, is record) error {
	if is.used {
		is.used = false
		if err := is.write(behind); err != nil {
			return err
		}
	}
	return in.remove()
}
