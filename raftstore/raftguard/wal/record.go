package wal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// keyRecord is where the log behind keeps the record of the files in front of it.
const keyRecord = "TrivetWAL"

// notFound is how every stable store of raft says that a key has no value.
const notFound = "not found"

// record says which files are in front of the log.
type record struct {
	used    bool   // both files hold entries, or may; else they are being made or removed
	carried uint64 // the last generation that the log behind has in full
	secret  secret // of the files
}

// recordLen is the length of a record: used, carried, secret, checksum.
const recordLen = 1 + 8 + len(secret{}) + sha256.Size

func (r record) encode() []byte {
	out := make([]byte, 1, recordLen)
	if r.used {
		out[0] = 1
	}
	out = binary.LittleEndian.AppendUint64(out, r.carried)
	out = append(out, r.secret[:]...)
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

// readRecord returns the record, or the zero one if none was ever written.
func readRecord(behind Behind) (r record, err error) {
	text, err := behind.Get([]byte(keyRecord))
	if err != nil && err.Error() == notFound {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read %s: %w", keyRecord, err)
	}
	if len(text) == recordLen {
		r.used, r.carried = text[0] == 1, binary.LittleEndian.Uint64(text[1:])
		copy(r.secret[:], text[1+8:])
	}
	if !bytes.Equal(text, r.encode()) {
		return record{}, fmt.Errorf("%w: %s, the record of the files in the log, is not as it was written", ErrDamaged,
			keyRecord)
	}
	return r, nil
}

func (r record) write(behind Behind) error {
	if err := behind.Set([]byte(keyRecord), r.encode()); err != nil {
		return fmt.Errorf("write %s: %w", keyRecord, err)
	}
	return nil
}
