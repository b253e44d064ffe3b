package wal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// The layout of a header, little-endian: magic, bytes of the body, checksum of the body,
// zeros, generation, number in the generation, batches of the generation before that were
// not carried over when this one began, tag.
const (
	magic     = 0x32617774 // "twa2"
	tagAt     = 40
	tagLen    = 16
	headerLen = tagAt + tagLen
)

// A file begins with a header that names it, of generation 0. Then, in a sector of its own,
// comes one that says how many batches of a generation in the *other* file are
// acknowledged: what becomes of one file does not change both. Batches follow.
const (
	ackAt   = 512
	batchAt = 1024
)

// header precedes a batch.
type header struct {
	generation, number, before uint64
	length, sum                uint32
}

// secret authenticates the headers of two files. It is made with them, and no client
// learns it: what clients send is no header.
type secret [sha256.Size]byte

// tag is computed from the place too: a header that was copied is none.
func (s secret) tag(text []byte, at int64) []byte {
	mac := hmac.New(sha256.New, s[:])
	mac.Write(binary.LittleEndian.AppendUint64(nil, uint64(at)))
	mac.Write(text)
	return mac.Sum(nil)[:tagLen]
}

// seal writes a header to the beginning of out, which is to stand at a place of a file.
func (s secret) seal(out []byte, at int64, h header) {
	binary.LittleEndian.PutUint32(out, magic)
	binary.LittleEndian.PutUint32(out[4:], h.length)
	binary.LittleEndian.PutUint32(out[8:], h.sum)
	clear(out[12:16])
	binary.LittleEndian.PutUint64(out[16:], h.generation)
	binary.LittleEndian.PutUint64(out[24:], h.number)
	binary.LittleEndian.PutUint64(out[32:], h.before)
	copy(out[tagAt:headerLen], s.tag(out[:tagAt], at))
}

// open returns the header at a place of a file's text, if there is one.
func (s secret) open(text []byte, at int64) (h header, ok bool) {
	if at+headerLen > int64(len(text)) {
		return header{}, false
	}
	text = text[at : at+headerLen]
	if binary.LittleEndian.Uint32(text) != magic || !hmac.Equal(text[tagAt:], s.tag(text[:tagAt], at)) {
		return header{}, false
	}
	return header{
		length: binary.LittleEndian.Uint32(text[4:]), sum: binary.LittleEndian.Uint32(text[8:]),
		generation: binary.LittleEndian.Uint64(text[16:]),
		number:     binary.LittleEndian.Uint64(text[24:]), before: binary.LittleEndian.Uint64(text[32:]),
	}, true
}

// heading returns how file n begins.
func (s secret) heading(n int) []byte {
	out := make([]byte, batchAt)
	s.seal(out, 0, header{number: uint64(n)})
	s.seal(out[ackAt:], ackAt, header{})
	return out
}
