package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// The layout of a batch, little-endian: magic, checksum of what follows of the
// header, generation, number in the generation, batches of the generation before
// that were not carried over when this one began, bytes of the body, checksum of
// the body. Batches begin at multiples of align.
const (
	magic     = 0x6c617774 // "twal"
	headerLen = 40
	align     = 8
	entryLen  = 33 // of an entry without data and extensions
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errBatch says that there is no intact batch.
var errBatch = errors.New("no intact batch")

// batch is one write of the log.
type batch struct {
	generation, number, before uint64
	body                       []byte
	size                       int64 // in the file
}

// body returns the entries as they are written, behind room for the header.
func body(es []*raft.Log) []byte {
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

// head writes the header in front of a body, and returns the batch.
func head(out []byte, generation, number, before uint64) []byte {
	length := len(out) - headerLen
	binary.LittleEndian.PutUint32(out, magic)
	binary.LittleEndian.PutUint64(out[8:], generation)
	binary.LittleEndian.PutUint64(out[16:], number)
	binary.LittleEndian.PutUint64(out[24:], before)
	binary.LittleEndian.PutUint32(out[32:], uint32(length))
	binary.LittleEndian.PutUint32(out[36:], crc32.Checksum(out[headerLen:], castagnoli))
	binary.LittleEndian.PutUint32(out[4:], crc32.Checksum(out[8:headerLen], castagnoli))
	for len(out)%align != 0 {
		out = append(out, 0)
	}
	return out
}

// read returns the batch at the beginning of text.
func read(text []byte) (batch, error) {
	if len(text) < headerLen || binary.LittleEndian.Uint32(text) != magic ||
		binary.LittleEndian.Uint32(text[4:]) != crc32.Checksum(text[8:headerLen], castagnoli) {
		return batch{}, errBatch
	}
	length := int64(binary.LittleEndian.Uint32(text[32:]))
	if headerLen+length > int64(len(text)) {
		return batch{}, errBatch
	}
	b := batch{
		generation: binary.LittleEndian.Uint64(text[8:]), number: binary.LittleEndian.Uint64(text[16:]), before: binary.LittleEndian.Uint64(text[24:]),
		body: text[headerLen : headerLen+length], size: (headerLen + length + align - 1) / align * align,
	}
	if crc32.Checksum(b.body, castagnoli) != binary.LittleEndian.Uint32(text[36:]) {
		return batch{}, errBatch
	}
	return b, nil
}

// entries returns the entries of a body, which share nothing with it.
func entries(body []byte) (es []*raft.Log, err error) {
	for len(body) > 0 {
		if len(body) < entryLen {
			return nil, errBatch
		}
		data, ext := int(binary.LittleEndian.Uint32(body[25:])), int(binary.LittleEndian.Uint32(body[29:]))
		if data+ext > len(body)-entryLen {
			return nil, errBatch
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
