// Package blackbox keeps, in a small file of this host, what each worker is
// about to do. A process that dies of a document leaves it behind; the next one
// reads it and tells the others (fsm.OpenSession). That costs a write to the
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

	"github.com/trivet-ha/trivet/fencing"
	"github.com/trivet-ha/trivet/fsm"
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

	mu    sync.Mutex
	slots map[fencing.Token]int // of requests under way
	free  []int
}

// Open reads what the last process of this host left in the file, which need
// not exist, and begins anew. A record that cannot be read is left out. What is
// returned is nowhere else: a process that dies before it has told leaves the
// others with what the log says.
func Open(path string) (*Box, []fsm.Unfinished, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the workers' notes: %w", err)
	}
	b := &Box{file: file, sums: crc32.MakeTable(crc32.Castagnoli), slots: make(map[fencing.Token]int)}
	for n := fsm.MaxUnfinished - 1; n >= 0; n-- {
		b.free = append(b.free, n)
	}
	left, err := b.left()
	if err == nil {
		err = file.Truncate(0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read the workers' notes: %w", err), file.Close())
	}
	return b, left, nil
}

func (b *Box) left() (left []fsm.Unfinished, err error) {
	raw, err := io.ReadAll(io.LimitReader(b.file, fsm.MaxUnfinished*recordSize))
	for ; len(raw) >= recordSize; raw = raw[recordSize:] {
		if u, ok := b.decode(raw[:recordSize]); ok {
			left = append(left, u)
		}
	}
	return left, err
}

func (b *Box) decode(record []byte) (u fsm.Unfinished, ok bool) {
	size := int(record[nameAt-1])
	if crc32.Checksum(record[:sumAt], b.sums) != binary.BigEndian.Uint32(record[sumAt:]) || nameAt+size > sumAt {
		return u, false
	}
	u = fsm.Unfinished{Request: fencing.Token(binary.BigEndian.Uint64(record)), Hook: string(record[nameAt : nameAt+size])}
	return u, u.Validate() == nil
}

func (b *Box) encode(u fsm.Unfinished) []byte {
	record := make([]byte, recordSize)
	binary.BigEndian.PutUint64(record, uint64(u.Request))
	record[nameAt-1] = byte(copy(record[nameAt:sumAt], u.Hook))
	binary.BigEndian.PutUint32(record[sumAt:], crc32.Checksum(record[:sumAt], b.sums))
	return record
}

// Note replaces what the worker of a request is about to do. It fails when the
// box is full, when the name is longer than fsm takes, or when the file cannot
// be written.
func (b *Box) Note(request fencing.Token, hook string) error {
	if len(hook) > fsm.MaxHook {
		return fmt.Errorf("the name of hook %.20s… has %d bytes, at most %d are noted", hook, len(hook), fsm.MaxHook)
	}
	slot, ok := b.slot(request)
	if !ok {
		return fmt.Errorf("%d requests are under way, no more are noted", fsm.MaxUnfinished)
	}
	_, err := b.file.WriteAt(b.encode(fsm.Unfinished{Request: request, Hook: hook}), int64(slot)*recordSize)
	return err
}

func (b *Box) slot(request fencing.Token) (slot int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot, ok := b.slots[request]; ok {
		return slot, true
	}
	if len(b.free) == 0 {
		return 0, false
	}
	last := len(b.free) - 1
	slot, b.free = b.free[last], b.free[:last]
	b.slots[request] = slot
	return slot, true
}

// Forget ends the notes on a request. What stays in the file until its place is
// taken is about a request that is over: the log knows better.
func (b *Box) Forget(request fencing.Token) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slot, ok := b.slots[request]; ok {
		delete(b.slots, request)
		b.free = append(b.free, slot)
	}
}

// Close closes the file and leaves it for the next process.
func (b *Box) Close() error { return b.file.Close() }
