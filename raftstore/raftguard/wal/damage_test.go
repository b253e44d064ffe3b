package wal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/hashicorp/raft"
)

// filled returns a disk whose two files hold what the log behind does not have, and
// how many batches each has; a batch is an entry of which data makes the data.
func filled(t *testing.T, data func(l *Log, index uint64) []byte) (d *simulated, older, newer int) {
	t.Helper()
	d = newDisk(1)
	l := d.startIdle(t)
	for index := uint64(1); l.generation == 1 || l.at.end < testSize/2; index++ {
		if err := l.StoreLog(&raft.Log{Index: index, Term: 1, Data: data(l, index)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.behind.LastIndex(); n != 0 || err != nil || len(l.older.entries) == 0 || len(l.newer) == 0 {
		t.Fatalf("the log behind has %d entries: %v", n, err)
	}
	return d, len(l.older.entries), len(l.newer)
}

// startIdle is start where nothing is carried over before a write has to wait for it.
func (d *simulated) startIdle(t *testing.T) *Log {
	l := d.start(t)
	kill(l)
	return l
}

func plain(_ *Log, index uint64) []byte { return bytes.Repeat([]byte{byte(index)}, 100) }

// copied returns the disk as it is, with a log behind that has nothing.
func (d *simulated) copied() *simulated {
	c := newDisk(1)
	for n, f := range d.files {
		if f != nil {
			c.files[n] = &file{d: c, stored: bytes.Clone(f.stored), cached: bytes.Clone(f.cached), dirty: map[int]bool{}}
		}
	}
	c.behind.logs, c.behind.keys = maps.Clone(d.behind.logs), maps.Clone(d.behind.keys)
	return c
}

// settled carries over what the disk holds, and returns what the log behind has.
func (d *simulated) settled() (map[uint64]raft.Log, error) {
	err := carryFolder(behind{d.behind, d}, d, testSize)
	return d.behind.logs, err
}

// TestDamageIsFound changes each byte of the files, and of the record, in turn: the log is
// refused, or whole. Entries whose data has the form of batches change nothing.
func TestDamageIsFound(t *testing.T) {
	for name, data := range map[string]func(l *Log, index uint64) []byte{"plain": plain, "forms of batches": forms} {
		d, older, newer := filled(t, data)
		outcomes := map[string]int{}
		judge := func(where string, c *simulated) {
			got, err := c.settled()
			switch {
			case errors.Is(err, ErrDamaged):
				outcomes["refused"]++
			case err != nil || len(got) != older+newer:
				t.Fatalf("damage-not-found: %s: %s: %d of %d entries: %v", name, where, len(got), older+newer, err)
			default:
				outcomes["whole"]++
			}
			for index, e := range got {
				if e.Index != index || e.Term != 1 || !bytes.Equal(e.Data, data(nil, index)) {
					t.Fatalf("damage-not-found: %s: %s: entry %d is %v", name, where, index, e)
				}
			}
		}
		for n, f := range d.files {
			for at := range f.cached {
				c := d.copied()
				c.files[n].cached[at] ^= 0x5a
				judge(fmt.Sprintf("file %d, byte %d", n, at), c)
			}
		}
		record := d.behind.keys[keyRecord]
		for at := range record {
			c := d.copied()
			c.behind.keys[keyRecord] = bytes.Clone(record)
			c.behind.keys[keyRecord][at] ^= 1
			judge(fmt.Sprintf("record, byte %d", at), c)
		}
		if outcomes["refused"] < testSize || outcomes["whole"] == 0 {
			t.Error(name, outcomes)
		}
	}
}

// TestHoleIsFoundWithoutTheOtherFile: the power went before the note of what is acknowledged was on the
// disk. A batch that cannot be read and that others follow, in its file or in the next generation, was
// acknowledged all the same.
func TestHoleIsFoundWithoutTheOtherFile(t *testing.T) {
	d, older, newer := filled(t, plain)
	key := readSecret(d)
	for _, f := range d.files {
		key.seal(f.cached[ackAt:], ackAt, header{})
	}
	for n, f := range d.files {
		last := 0 // the header of the last batch
		for at := batchAt; at < testSize; at += align {
			if _, ok := key.open(f.cached, int64(at)); ok {
				last = at
			}
		}
		for at := batchAt; at < last; at++ {
			c := d.copied()
			c.files[n].cached[at] ^= 0x5a
			if got, err := c.settled(); !errors.Is(err, ErrDamaged) && len(got) != older+newer { // it may fill a batch up
				t.Fatalf("damage-not-found: file %d, byte %d: %d entries, %v", n, at, len(got), err)
			}
		}
		if n != 1 { // the older generation, whose last batch the next one counts
			continue
		}
		c := d.copied()
		c.files[n].cached[last] ^= 0x5a
		if got, err := c.settled(); !errors.Is(err, ErrDamaged) {
			t.Errorf("damage-not-found: the last batch of the older generation: %d entries, %v", len(got), err)
		}
	}
}

// forms returns what a client that knows everything but the secret would send: headers and
// whole batches of either generation, at each distance. Without a log it returns the same data.
func forms(_ *Log, index uint64) []byte {
	var data []byte
	for number := range uint64(3) {
		out := batch([]*raft.Log{{Index: index + 1, Term: 9, Data: []byte("forged")}})
		data = append(data, finish(out, secret{}, int64(len(data)), 1+index%2, number, 0)...)
	}
	return append(data, make([]byte, index%align)...)
}

// TestNoBytesOfAnEntryAreABatch tears the last write, so that reading ends before bytes of an entry.
// They have the form of headers that would follow: of another secret, and of this one for another place.
func TestNoBytesOfAnEntryAreABatch(t *testing.T) {
	for _, torn := range []int{8, headerLen, headerLen + entryLen} {
		d := newDisk(1)
		l := d.startIdle(t)
		is := state{}
		for index := uint64(1); index < 200; index++ {
			forged := make([]byte, index%align, 200)
			for _, key := range []secret{{}, l.secret} {
				text := make([]byte, headerLen)
				key.seal(text, 0, header{generation: l.generation, number: l.at.batches + 1})
				forged = append(forged, text...)
			}
			es := []*raft.Log{{Index: index, Term: 1, Data: forged}}
			if err := l.StoreLogs(es); err != nil {
				t.Fatal(err)
			}
			is = is.with(es)
			c := d.copied()
			out := batch([]*raft.Log{{Index: index + 1, Data: forged}})
			copy(c.files[l.generation%2].cached[min(l.at.end+int64(torn), testSize):], out[torn:])
			got, err := c.settled()
			if err != nil || uint64(len(got)) != index {
				t.Fatalf("bytes-of-an-entry-are-a-batch: after entry %d, without %d bytes of the next: %d entries, %v", index, torn,
					len(got), err)
			}
		}
		if diff := is.differs(l); diff != "" {
			t.Error(diff)
		}
	}
}

// TestNothingOldIsLeftInAFile: behind the last batch a file is zeros, also
// where it was used before.
func TestNothingOldIsLeftInAFile(t *testing.T) {
	d := newDisk(1)
	l := d.start(t)
	for index := uint64(1); index < 300; index++ {
		if err := l.StoreLog(&raft.Log{Index: index, Data: bytes.Repeat([]byte{0xff}, 150)}); err != nil {
			t.Fatal(err)
		}
		if index%70 == 0 { // the generation ends before the file does
			if err := l.DeleteRange(1, index); err != nil {
				t.Fatal(err)
			}
		}
		rest := d.files[l.generation%2].cached[l.at.end:]
		if old := bytes.Trim(rest, "\x00"); len(old) > 0 {
			t.Fatalf("old-bytes-in-a-file: after entry %d: %d bytes behind the end of generation %d", index, len(old),
				l.generation)
		}
	}
	kill(l)
}

// TestFilesOfAnotherTimeAreRefused: a file that is missing, the two exchanged, files of
// another use, and a log behind that is older than the files.
func TestFilesOfAnotherTimeAreRefused(t *testing.T) {
	other, _, _ := filled(t, plain)
	for name, change := range map[string]func(d *simulated){
		"the older is missing":    func(d *simulated) { d.files[1] = nil },
		"the newer is missing":    func(d *simulated) { d.files[0] = nil },
		"both are missing":        func(d *simulated) { d.files = [2]*file{} },
		"exchanged":               func(d *simulated) { d.files[0], d.files[1] = d.files[1], d.files[0] },
		"cut off":                 func(d *simulated) { d.files[1].cached = d.files[1].cached[:testSize/2] },
		"cut to nothing":          func(d *simulated) { d.files[0].cached = nil },
		"the newer is zeros":      func(d *simulated) { clear(d.files[0].cached) },
		"of another use":          func(d *simulated) { d.files[0] = other.copied().files[0] },
		"an older log behind":     func(d *simulated) { d.behind = newStored() },
		"another log behind":      func(d *simulated) { d.behind = other.behind },
		"the record is cut":       func(d *simulated) { d.behind.keys[keyRecord] = d.behind.keys[keyRecord][:20] },
		"the record is of no use": func(d *simulated) { d.behind.keys[keyRecord] = record{secret: readSecret(d)}.encode() },
	} {
		d, _, _ := filled(t, plain)
		d = d.copied()
		change(d)
		if got, err := d.settled(); !errors.Is(err, ErrDamaged) {
			t.Errorf("damage-not-found: %s: %d entries, %v", name, len(got), err)
		}
	}
}

func readSecret(d *simulated) secret {
	r, err := readRecord(behind{d.behind, d})
	if err != nil {
		panic(err)
	}
	return r.secret
}

// TestLogOfAnEarlierTimeIsRefused: the files went on after the log behind was copied.
func TestLogOfAnEarlierTimeIsRefused(t *testing.T) {
	d := newDisk(1)
	l := d.start(t)
	copied := d.copied().behind
	for index := range uint64(100) {
		if err := l.StoreLog(&raft.Log{Index: index + 1, Data: make([]byte, 200)}); err != nil {
			t.Fatal(err)
		}
	}
	kill(l)
	d.behind = copied
	if got, err := d.settled(); !errors.Is(err, ErrDamaged) {
		t.Errorf("damage-not-found: %d entries, %v", len(got), err)
	}
}
