package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// Batches begin at multiples of align.
const (
	align    = 8
	entryLen = 33 // of an entry without data and extensions
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errEntries says that a body does not hold entries.
var errEntries = errors.New("entries cannot be decoded")

// batch returns the entries as they are written, behind room for the header.
func batch(es []*raft.Log) []byte {
	size := headerLen
	for _, e := range es {
		size += entryLen + len(e.Data) + len(e.Extensions)
	}
	out := make([]byte, headerLen, size+align)
	for _, e := range es {
		out = binary.LittleEndian.AppendUint64(out, e.Index)
		out = binary.LittleEndian.AppendUint64(out, e.Term)
		out = binary.LittleEndian.AppendUint64(out, nanos(e.AppendedAt))
		out = append(out, byte(e.Type))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(e.Data)))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(e.Extensions)))
		out = append(out, e.Data...)
		out = append(out, e.Extensions...)
	}
	return out
}

// finish writes the header of a batch that is to stand at a place of a file, and fills it
// up so that the next one is aligned.
func finish(out []byte, s secret, at int64, generation, number, before uint64) []byte {
	body := out[headerLen:]
	s.seal(out, at, header{
		generation: generation, number: number, before: before,
		length: uint32(len(body)), sum: crc32.Checksum(body, castagnoli),
	})
	for len(out)%align != 0 {
		out = append(out, 0)
	}
	return out
}

// size is how much of a file a batch with the header takes.
func (h header) size() int64 { return (headerLen + int64(h.length) + align - 1) / align * align }

// body returns the body behind the header at a place; ok says whether it is as it was written.
func (h header) body(text []byte, at int64) (body []byte, ok bool) {
	from := at + headerLen
	if from+int64(h.length) > int64(len(text)) {
		return nil, false
	}
	body = text[from : from+int64(h.length)]
	return body, crc32.Checksum(body, castagnoli) == h.sum
}

// entries returns the entries of a body, which share nothing with it.
func entries(body []byte) (es []*raft.Log, err error) {
	for len(body) > 0 {
		if len(body) < entryLen {
			return nil, errEntries
		}
		data, ext := int(binary.LittleEndian.Uint32(body[25:])), int(binary.LittleEndian.Uint32(body[29:]))
		if data+ext > len(body)-entryLen {
			return nil, errEntries
		}
		rest := body[entryLen:]
		es = append(es, &raft.Log{
			Index: binary.LittleEndian.Uint64(body), Term: binary.LittleEndian.Uint64(body[8:]),
			AppendedAt: when(binary.LittleEndian.Uint64(body[16:])), Type: raft.LogType(body[24]),
			Data: bytes.Clone(rest[:data]), Extensions: bytes.Clone(rest[data : data+ext]),
		})
		body = rest[data+ext:]
	}
	return es, nil
}

// nanos is a time as it is written; 0 stands for none.
func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func when(nanos uint64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(nanos))
}
