package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/hashicorp/raft"
)

// legacyFile is a file as v0.2.0 wrote it.
type legacyFile []byte

// add appends a batch at a place, and returns where the next one goes.
func (f legacyFile) add(at int, generation, number, before uint64, es ...*raft.Log) int {
	text := batch(es)[headerLen:]
	out := make([]byte, legacyHeader, legacyHeader+len(text))
	binary.LittleEndian.PutUint32(out, legacyMagic)
	binary.LittleEndian.PutUint64(out[8:], generation)
	binary.LittleEndian.PutUint64(out[16:], number)
	binary.LittleEndian.PutUint64(out[24:], before)
	binary.LittleEndian.PutUint32(out[32:], uint32(len(text)))
	binary.LittleEndian.PutUint32(out[36:], crc32.Checksum(text, castagnoli))
	binary.LittleEndian.PutUint32(out[4:], crc32.Checksum(out[8:], castagnoli))
	copy(f[at:], append(out, text...))
	return (at + len(out) + len(text) + align - 1) / align * align
}

// legacyDisk returns a disk that v0.2.0 left when it was killed: generation 5 is in bolt, entries 1
// to 3 are generation 6, and entry 4 is generation 7. Where each batch ends is in ends.
func legacyDisk() (d *simulated, older, newer legacyFile, ends []int) {
	d = newDisk(1)
	older, newer = make(legacyFile, legacySize), make(legacyFile, legacySize)
	entry := func(index uint64) *raft.Log {
		return &raft.Log{Index: index, Term: 1, Data: bytes.Repeat([]byte{byte(index)}, 50)}
	}
	newer.add(0, 5, 0, 0, entry(90))
	at := 0
	for number := range uint64(3) {
		at = older.add(at, 6, number, 0, entry(number+1))
		ends = append(ends, at)
	}
	ends = append(ends, newer.add(0, 7, 0, 3, entry(4)))
	d.files[0], d.files[1] = d.legacy(older), d.legacy(newer)
	d.behind.keys[legacyCarried] = binary.BigEndian.AppendUint64(nil, 5)
	return d, older, newer, ends
}

func (d *simulated) legacy(text []byte) *file {
	return &file{d: d, stored: bytes.Clone(text), cached: text, dirty: map[int]bool{}}
}

// TestFilesOfRelease020AreCarriedOver: whatever operation of the disk the opening is killed at, what a
// killed v0.2.0 left is in the log behind after the next one.
func TestFilesOfRelease020AreCarriedOver(t *testing.T) {
	for ops := range 20 {
		d, _, _, _ := legacyDisk()
		d.left = ops
		if _, err := d.settled(); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		d.left = -1
		got, err := d.settled()
		if err != nil || len(got) != 4 {
			t.Fatalf("acknowledged-entry-lost: after %d operations: %d of 4 entries, %v", ops, len(got), err)
		}
		for index, e := range got {
			if e.Index != index || !bytes.Equal(e.Data, bytes.Repeat([]byte{byte(index)}, 50)) {
				t.Errorf("entry %d is %v", index, e)
			}
		}
		if d.files != [2]*file{} {
			t.Error("the files are still there")
		}
		kill(d.start(t)) // and others take their place
	}
}

// TestDamageOfRelease020: a damaged batch that another follows is noticed, and the last one may have
// been cut short. Behind it, bytes of an entry are no batch.
func TestDamageOfRelease020(t *testing.T) {
	d, older, _, ends := legacyDisk()
	older[ends[0]+legacyHeader] ^= 1
	if got, err := d.settled(); !errors.Is(err, ErrDamaged) {
		t.Errorf("damage-not-found: %d entries, %v", len(got), err)
	}
	d, older, _, ends = legacyDisk()
	older[ends[1]+legacyHeader] ^= 1 // the last of its file, which the next generation counts
	if got, err := d.settled(); !errors.Is(err, ErrDamaged) {
		t.Errorf("damage-not-found: %d entries, %v", len(got), err)
	}
	d, _, newer, ends := legacyDisk()
	newer[legacyHeader] ^= 1
	forged := make(legacyFile, 1000)
	end := forged.add(0, 7, 1, 3, &raft.Log{Index: 5, Term: 1, Data: []byte("forged")})
	copy(newer[ends[3]+3*align:], forged[:end])
	if got, err := d.settled(); err != nil || len(got) != 3 {
		t.Errorf("bytes-of-an-entry-are-a-batch: %d of 3 entries, %v", len(got), err)
	}
}
