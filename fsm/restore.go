package fsm

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"github.com/trivet-ha/trivet/fsm/valid"
)

// Read reads what WriteTo wrote, to the end of r. Every truncation and every
// changed bit is found, and a state that contradicts itself is refused. All
// errors are *SnapshotError; one about a newer format is UnknownEntry, too, and
// one about a stream that ends too early io.ErrUnexpectedEOF.
func Read(r io.Reader) (*State, error) {
	sum := &summedReader{r: bufio.NewReader(r), sum: sha256.New()}
	s, err := readState(sum)
	if err != nil && sum.ended && !errors.Is(err, errNotOurs) && !errors.Is(err, UnknownEntry) {
		return nil, &SnapshotError{
			Reason: fmt.Sprintf("the snapshot is damaged: it ends after %d bytes, before its end; most likely it was cut off",
				sum.n),
			Err: io.ErrUnexpectedEOF,
		}
	}
	return s, err
}

func readState(sum *summedReader) (*State, error) {
	index, err := readHead(sum)
	if errors.Is(err, errNewerLog) {
		// The frame is the same, so a changed bit in the version can be told
		// from a version that is newer.
		return nil, cmp.Or(readTail(sum, &unchunker{r: sum}, uncounted), err)
	}
	if err != nil {
		return nil, err
	}
	s := New()
	chunks := &unchunker{r: sum}
	count, err := readRecords(chunks, s.now)
	if err != nil {
		return nil, err
	}
	if err := readTail(sum, chunks, count); err != nil {
		return nil, err
	}
	sum.ended = false // its length is right, also where other checks fail
	if s.now.shared.Position.Index != index {
		return nil, damaged(errors.New("its head and its content name different indices"))
	}
	s.now.forgetChanges()
	p := &valid.Problems{}
	checkTables(s.now.txn(), p)
	if err := p.Err(); err != nil {
		return nil, &SnapshotError{Reason: "the snapshot contradicts itself", Err: err}
	}
	return s, nil
}

// errNotOurs is another program's file.
var errNotOurs = errors.New("this is not a snapshot of trivet")

// errNewerLog is a snapshot of entries that this binary does not know, in a
// frame that it does.
var errNewerLog = errors.New("a newer log version")

// uncounted is the count of records that were not read yet.
const uncounted = math.MaxUint64

func readHead(r io.Reader) (index uint64, err error) {
	head := make([]byte, headLength)
	n, err := io.ReadFull(r, head)
	if seen := min(n, len(snapshotMagic)); string(head[:seen]) != snapshotMagic[:seen] {
		return 0, &SnapshotError{Reason: errNotOurs.Error(), Err: errNotOurs}
	}
	if err != nil {
		return 0, damaged(err)
	}
	head = head[len(snapshotMagic):]
	if head[0] != snapshotFormat {
		return 0, newer("format", int(head[0]), snapshotFormat, UnknownEntry)
	}
	if version := binary.BigEndian.Uint32(head[1:5]); version > Version {
		return 0, newer("log version", int(version), Version, errors.Join(errNewerLog, UnknownEntry))
	}
	return binary.BigEndian.Uint64(head[5:]), nil
}

func readRecords(r io.Reader, d *data) (count uint64, err error) {
	dec, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return 0, damaged(err)
	}
	defer dec.Close()
	head := make([]byte, 5)
	var body []byte
	for {
		switch _, err := io.ReadFull(dec, head); {
		case errors.Is(err, io.EOF):
			return count, nil
		case err != nil:
			return count, damaged(err)
		}
		length := binary.BigEndian.Uint32(head[1:])
		if length > maxRecord {
			return count, damaged(fmt.Errorf("a record of %d bytes", length))
		}
		body = append(body[:0], make([]byte, length)...)
		if _, err := io.ReadFull(dec, body); err != nil {
			return count, damaged(err)
		}
		section, known := sectionOf(head[0])
		if !known {
			return count, damaged(fmt.Errorf("a record of the unknown table %q", head[0]))
		}
		if err := section.Load(d.txn(), body); err != nil {
			return count, damaged(fmt.Errorf("table %s: %w", section.Name, err))
		}
		count++
	}
}

// readTail compares what was read with what was written.
func readTail(sum *summedReader, chunks *unchunker, count uint64) error {
	if _, err := io.Copy(io.Discard, chunks); err != nil {
		return damaged(err)
	}
	var want [8]byte
	if _, err := io.ReadFull(sum, want[:]); err != nil {
		return damaged(err)
	}
	if n := binary.BigEndian.Uint64(want[:]); n != count && count != uncounted {
		return damaged(fmt.Errorf("%d records of %d", count, n))
	}
	got := sum.sum.Sum(nil)
	written := make([]byte, sha256.Size)
	if _, err := io.ReadFull(sum, written); err != nil {
		return damaged(err)
	}
	if !bytes.Equal(got, written) {
		return damaged(errors.New("the checksum does not match"))
	}
	if n, err := sum.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return damaged(errors.Join(errors.New("something follows its end"), err))
	}
	return nil
}

// summedReader counts and sums what is read.
type summedReader struct {
	r     io.Reader
	sum   hash.Hash
	n     int64
	ended bool // a read asked for more than there is
}

// Read implements io.Reader.
func (s *summedReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sum.Write(p[:n])
	s.n += int64(n)
	s.ended = s.ended || errors.Is(err, io.EOF)
	return n, err
}

// unchunker joins the pieces that chunker wrote. It takes no byte more than
// the end mark from its reader.
type unchunker struct {
	r    io.Reader
	left uint32
	done bool
}

// Read implements io.Reader.
func (c *unchunker) Read(p []byte) (int, error) {
	if c.done {
		return 0, io.EOF
	}
	if c.left == 0 {
		var length [4]byte
		if _, err := io.ReadFull(c.r, length[:]); err != nil {
			return 0, noEOF(err)
		}
		c.left = binary.BigEndian.Uint32(length[:])
		if c.left == 0 {
			c.done = true
			return 0, io.EOF
		}
		if c.left > maxChunk {
			return 0, fmt.Errorf("a piece of %d bytes", c.left)
		}
	}
	n, err := c.r.Read(p[:min(len(p), int(c.left))])
	c.left -= uint32(n)
	return n, noEOF(err)
}

// noEOF keeps the end of a cut stream from looking like its proper end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
