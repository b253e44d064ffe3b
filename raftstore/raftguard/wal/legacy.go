package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// What v0.2.0 wrote: batches with a header of 40 bytes whose checksums are not keyed,
// from the beginning of a file of this size, and the last generation that was carried over
// as a number of its own. A stop of v0.2.0 carried all over; what a killed one left is read here.
const (
	legacySize    = 2 << 20
	legacyMagic   = 0x6c617774 // "twal"
	legacyHeader  = 40
	legacyCarried = "TrivetWALCarried"
)

// carryLegacy carries over what files of v0.2.0 hold; nil stands for one that is not there.
func carryLegacy(behind Behind, texts [2][]byte) error {
	text, err := behind.Get([]byte(legacyCarried))
	if err != nil && err.Error() != notFound {
		return fmt.Errorf("read %s: %w", legacyCarried, err)
	}
	var carried uint64
	if len(text) == 8 {
		carried = binary.BigEndian.Uint64(text)
	}
	older, err := findLegacy(texts[(carried+1)%2], carried+1)
	if err != nil {
		return err
	}
	newer, err := findLegacy(texts[carried%2], carried+2)
	if err != nil {
		return err
	}
	if newer.begun && older.batches != newer.before {
		return fmt.Errorf("%w: generation %d has %d batches of %d", ErrDamaged, carried+1, older.batches, newer.before)
	}
	for _, r := range []found{older, newer} {
		if len(r.entries) == 0 {
			continue
		}
		if err := carryEntries(behind, r.entries, legacySize); err != nil {
			return err
		}
		if err := behind.Set([]byte(legacyCarried), binary.BigEndian.AppendUint64(nil, r.generation)); err != nil {
			return fmt.Errorf("write %s: %w", legacyCarried, err)
		}
	}
	return nil
}

// findLegacy reads the batches of a generation. Nothing is looked for behind them but a batch
// at the very place where a damaged one ends: what has the form of a batch may be a client's.
func findLegacy(text []byte, generation uint64) (found, error) {
	r := found{generation: generation}
	for {
		b, ok := readLegacy(text)
		if !ok || b.generation != generation || b.number != r.batches {
			return r, nil
		}
		r.begun, r.before = true, b.before
		text = text[b.size:]
		if !b.whole {
			if next, ok := readLegacy(text); ok && next.generation == generation && next.number == r.batches+1 {
				return found{}, fmt.Errorf("%w: batch %d of generation %d cannot be read, and the next one follows", ErrDamaged,
					r.batches, generation)
			}
			return r, nil
		}
		es, err := entries(b.body)
		if err != nil {
			return found{}, fmt.Errorf("%w: batch %d of generation %d: %w", ErrDamaged, r.batches, generation, err)
		}
		r.entries = append(r.entries, es...)
		r.batches++
	}
}

// legacyBatch is a batch of v0.2.0.
type legacyBatch struct {
	generation, number, before uint64
	body                       []byte
	size                       int  // in the file
	whole                      bool // the body is as it was written
}

// readLegacy returns the batch at the beginning of text; ok says that its header is there.
func readLegacy(text []byte) (b legacyBatch, ok bool) {
	if len(text) < legacyHeader || binary.LittleEndian.Uint32(text) != legacyMagic ||
		binary.LittleEndian.Uint32(text[4:]) != crc32.Checksum(text[8:legacyHeader], castagnoli) {
		return legacyBatch{}, false
	}
	b = legacyBatch{
		generation: binary.LittleEndian.Uint64(text[8:]), number: binary.LittleEndian.Uint64(text[16:]),
		before: binary.LittleEndian.Uint64(text[24:]),
	}
	length := int(binary.LittleEndian.Uint32(text[32:]))
	b.size = (legacyHeader + length + align - 1) / align * align
	if b.size > len(text) {
		return legacyBatch{}, false
	}
	b.body = text[legacyHeader : legacyHeader+length]
	b.whole = crc32.Checksum(b.body, castagnoli) == binary.LittleEndian.Uint32(text[36:])
	return b, true
}
