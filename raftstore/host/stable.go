package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/trivet-ha/trivet/raftstore"
)

// sealMark precedes the checksum behind a value. Releases up to v0.2.0 wrote none, and read
// the first 8 bytes of a number.
const sealMark = "\x00TvS"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checkedStable keeps terms and votes with a checksum: bolt does not notice a bit that
// flipped, and a peer whose term or vote changed could vote twice in a term.
type checkedStable struct{ bolt *raftboltdb.BoltStore }

func seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return binary.BigEndian.AppendUint32([]byte(sealMark), sum)
}

// Set implements raft.StableStore.
func (s checkedStable) Set(key, value []byte) error {
	return s.bolt.Set(key, append(bytes.Clone(value), seal(key, value)...))
}

// Get implements raft.StableStore.
func (s checkedStable) Get(key []byte) ([]byte, error) {
	text, err := s.bolt.Get(key)
	if err != nil {
		return nil, err
	}
	at := len(text) - len(sealMark) - crc32.Size
	if at < 0 || string(text[at:at+len(sealMark)]) != sealMark {
		return text, nil // of v0.2.0 or before
	}
	if value := text[:at]; bytes.Equal(text[at:], seal(key, value)) {
		return value, nil
	}
	return nil, &raftstore.CorruptError{Path: logFile, Err: fmt.Errorf("%s is not as it was written", key)}
}

// SetUint64 implements raft.StableStore.
func (s checkedStable) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (s checkedStable) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, &raftstore.CorruptError{Path: logFile, Err: fmt.Errorf("%s has %d bytes, not 8", key, len(value))}
	}
	return binary.BigEndian.Uint64(value), nil
}
