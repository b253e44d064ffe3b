// Package blackbox keeps, in a small file of this host, what each worker is
// about to do. A process that dies of a document leaves it behind; the next one
// reads it and tells the others (membership.OpenSession). That costs a write to the
// page cache where an entry of the log for each hook would cost a commit.
//
// Nothing is synced: a host that loses its power takes its black box along, and
// what the log says of the request has to do.
package blackbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// A record is a request's sequence, the length of a hook's name, the name, and
// a CRC32C of all that. It lies in one page of the file, so that a process that
// is killed leaves it whole.
const (
	recordSize = 256
	nameAt     = 9
	sumAt      = recordSize - 4
)

// Box is the black box of one process. All methods may be called concurrently.
type Box struct {
	file *os.File
	sums *crc32.Table

	// suspects are the documents that the last process was examining, and at
	// which hook.
	suspects map[blobs.Hash]string

	mu    sync.Mutex
	slots map[subject]int // of what is under way
	free  []int
}

// subject is what a note is about: a request, or a document that belongs to none yet.
type subject struct {
	request  fencing.Token
	document blobs.Hash
}

// places is how many notes the box takes.
const places = membership.MaxUnfinished

// Open reads what the last process of this host left in the file, which need not
// exist, and begins with an empty file. A record that cannot be read is left out.
// What is returned is nowhere else: a process that dies before it has told leaves
// the others with what the log says.
func Open(path string) (*Box, []introspection.Unfinished, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the workers' notes: %w", err)
	}
	b := &Box{file: file, sums: crc32.MakeTable(crc32.Castagnoli), slots: make(map[subject]int),
		suspects: make(map[blobs.Hash]string)}
	for n := places - 1; n >= 0; n-- {
		b.free = append(b.free, n)
	}
	left, err := b.unfinished()
	if err == nil {
		err = file.Truncate(0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read the workers' notes: %w", err), file.Close())
	}
	return b, left, nil
}

func (b *Box) unfinished() (left []introspection.Unfinished, err error) {
	raw, err := io.ReadAll(io.LimitReader(b.file, places*recordSize))
	for ; len(raw) >= recordSize; raw = raw[recordSize:] {
		request, name, ok := b.decode(raw[:recordSize])
		u := introspection.Unfinished{Request: request, Hook: name}
		switch {
		case !ok:
		case request.IsZero() && len(name) >= len(blobs.Hash{}):
			b.suspects[blobs.Hash([]byte(name))] = name[len(blobs.Hash{}):]
		case u.Validate() == nil:
			left = append(left, u)
		}
	}
	return left, err
}

func (b *Box) decode(record []byte) (request fencing.Token, name string, ok bool) {
	size := int(record[nameAt-1])
	if crc32.Checksum(record[:sumAt], b.sums) != binary.BigEndian.Uint32(record[sumAt:]) || nameAt+size > sumAt {
		return 0, "", false
	}
	return fencing.Token(binary.BigEndian.Uint64(record)), string(record[nameAt : nameAt+size]), true
}

func (b *Box) encode(request fencing.Token, name string) []byte {
	record := make([]byte, recordSize)
	binary.BigEndian.PutUint64(record, uint64(request))
	record[nameAt-1] = byte(copy(record[nameAt:sumAt], name))
	binary.BigEndian.PutUint32(record[sumAt:], crc32.Checksum(record[:sumAt], b.sums))
	return record
}

// Note replaces what the worker of a request is about to do. It fails when the
// box is full, when the name is longer than fsm takes, or when the file cannot
// be written.
func (b *Box) Note(request fencing.Token, hook string) error {
	if len(hook) > introspection.MaxHook {
		return fmt.Errorf("the name of hook %.20s… has %d bytes, at most %d are noted", hook, len(hook),
			introspection.MaxHook)
	}
	slot, _, ok := b.takeSlot(subject{request: request})
	if !ok {
		return fmt.Errorf("%d requests are under way, no more are noted", places)
	}
	return b.write(slot, request, hook)
}

func (b *Box) write(slot int, request fencing.Token, name string) error {
	_, err := b.file.WriteAt(b.encode(request, name), int64(slot)*recordSize)
	return err
}

// takeSlot returns the place of what is under way, a free one if it is fresh.
func (b *Box) takeSlot(of subject) (slot int, fresh, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot, ok = b.slots[of]; ok {
		return slot, false, true
	}
	if len(b.free) == 0 {
		return 0, true, false
	}
	last := len(b.free) - 1
	slot, b.free = b.free[last], b.free[:last]
	b.slots[of] = slot
	return slot, true, true
}

// Examine notes that a document is examined, which belongs to no request yet.
// It is false for a document that the last process was examining when it ended,
// for one that is being examined already, and where no note can be left.
func (b *Box) Examine(document blobs.Hash) bool {
	if _, suspect := b.suspects[document]; suspect {
		return false
	}
	slot, fresh, ok := b.takeSlot(subject{document: document})
	if !ok || !fresh {
		return false
	}
	if err := b.write(slot, 0, string(document[:])); err != nil {
		b.Clear(document)
		return false
	}
	return true
}

// At notes which hook looks at a document that is being examined. A note that
// cannot be written leaves the one before.
func (b *Box) At(document blobs.Hash, hook string) {
	b.mu.Lock()
	slot, ok := b.slots[subject{document: document}]
	b.mu.Unlock()
	if ok && len(hook) <= introspection.MaxHook {
		_ = b.write(slot, 0, string(document[:])+hook)
	}
}

// Suspect reports whether the last process was examining a document when it
// ended, and at which hook, "" if it had come to none.
func (b *Box) Suspect(document blobs.Hash) (hook string, yes bool) {
	hook, yes = b.suspects[document]
	return hook, yes
}

// Clear ends what Examine began. What stays in the file until its place is taken
// makes a suspect of a document that is none, which is only slower.
func (b *Box) Clear(document blobs.Hash) { b.freeSlot(subject{document: document}) }

// Forget ends the notes on a request. What stays in the file until its place is
// taken is about a request that is over: the log knows better.
func (b *Box) Forget(request fencing.Token) { b.freeSlot(subject{request: request}) }

func (b *Box) freeSlot(of subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot, ok := b.slots[of]; ok {
		delete(b.slots, of)
		b.free = append(b.free, slot)
	}
}

// Close closes the file and leaves it for the next process.
func (b *Box) Close() error { return b.file.Close() }
