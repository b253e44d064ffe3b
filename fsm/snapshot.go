package fsm

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"github.com/trivet-ha/trivet/fsm/codec"
)

// The snapshot stream, all numbers big endian:
//
//	magic     8 bytes
//	format    1 byte
//	version   4 bytes, the log version that a reader must know
//	index     8 bytes
//	chunks    4 bytes length, then so many bytes of one zstd stream; length 0 ends them
//	count     8 bytes, records in the zstd stream
//	sum       32 bytes, SHA-256 of all that stands before
//
// The sum covers the compressed bytes, since a decompressor may overlook a
// changed bit. Inside the zstd stream are the records of hash.go.
const (
	snapshotMagic  = "TRVTSNAP"
	snapshotFormat = 1

	headLength = len(snapshotMagic) + 1 + 4 + 8
	maxChunk   = 1 << 20
	maxRecord  = MaxEntry + 64<<10 // a result may carry more than its entry
	maxWindow  = 8 << 20           // of the zstd stream
)

// SnapshotError says that a snapshot cannot be used.
type SnapshotError struct {
	Reason string
	Err    error // nil, or what was met while reading
}

// Error implements error.
func (e *SnapshotError) Error() string {
	if e.Err == nil || errors.Is(e.Err, UnknownEntry) || e.Err == errNotOurs || e.Err == io.ErrUnexpectedEOF {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap returns what was met while reading.
func (e *SnapshotError) Unwrap() error { return e.Err }

// newer is the sentence for what only a newer binary understands; its code is
// the same as that of an unknown entry, and so is what to do.
func newer(what string, theirs, ours int, why error) error {
	return &SnapshotError{
		Reason: fmt.Sprintf(
			"the snapshot has %s %d, this binary knows %d: upgrade trivet on this host to the version that wrote it", what,
			theirs, ours),
		Err: why,
	}
}

func damaged(err error) error { return &SnapshotError{Reason: "the snapshot is damaged", Err: err} }

// WriteTo writes a snapshot of the state; Read reads it. It implements
// io.WriterTo and may run while newer entries are applied. It writes no state
// that contradicts itself: Read would refuse it, and the log that led to it is
// deleted once there is a snapshot of it.
func (v View) WriteTo(w io.Writer) (int64, error) { return WriteUntil(never, v, w) }

// WriteUntil is View.WriteTo, given up with the first error that ended returns, which is asked
// again and again: a large state takes many seconds to read and to write.
func WriteUntil(ended func() error, v View, w io.Writer) (int64, error) {
	err := check(v, ended)
	if why := ended(); why != nil {
		return 0, why
	}
	if err != nil {
		return 0, &SnapshotError{Reason: "the state contradicts itself and is not written", Err: err}
	}
	return write(ended, v, w)
}

func write(ended func() error, v View, w io.Writer) (int64, error) {
	sum := &summed{w: w, sum: sha256.New()}
	head := append([]byte(snapshotMagic), snapshotFormat)
	head = binary.BigEndian.AppendUint32(head, uint32(v.ClusterVersion()))
	head = binary.BigEndian.AppendUint64(head, v.Index())
	if _, err := sum.Write(head); err != nil {
		return sum.n, err
	}
	count, err := writeRecords(ended, v, sum)
	if err != nil {
		return sum.n, err
	}
	tail := binary.BigEndian.AppendUint32(nil, 0)
	tail = binary.BigEndian.AppendUint64(tail, count)
	if _, err := sum.Write(tail); err != nil {
		return sum.n, err
	}
	_, err = sum.Write(sum.sum.Sum(nil))
	return sum.n, err
}

// writeRecords compresses on the calling goroutine (concurrency 1).
func writeRecords(ended func() error, v View, w io.Writer) (count uint64, err error) {
	chunks := bufio.NewWriterSize(chunker{w}, 64<<10)
	enc, err := zstd.NewWriter(chunks, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		return 0, fmt.Errorf("compress: %w", err)
	}
	for record := range v.data.records() {
		if why := ended(); why != nil {
			return count, why // the encoder holds memory alone
		}
		if _, err := enc.Write(record); err != nil {
			return count, errors.Join(err, enc.Close())
		}
		count++
	}
	if err := enc.Close(); err != nil {
		return count, err
	}
	return count, chunks.Flush()
}

// summed counts and sums what passes through.
type summed struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

// Write implements io.Writer.
func (s *summed) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	s.sum.Write(p[:n])
	return n, err
}

// chunker writes every piece with its length in front.
type chunker struct{ w io.Writer }

// Write implements io.Writer.
func (c chunker) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		piece := p[done:min(done+maxChunk, len(p))]
		if _, err := c.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(piece)))); err != nil {
			return done, err
		}
		n, err := c.w.Write(piece)
		done += n
		if err != nil {
			return done, err
		}
	}
	return len(p), nil
}

// Hash returns the SHA-256 of the whole state in its canonical form. Peers at
// the same index have the same hash, or one of them has gone astray. It costs
// as much as writing a snapshot without compression.
func (v View) Hash() [32]byte {
	sum := sha256.New()
	for record := range v.data.records() {
		sum.Write(record) // a hash never fails
	}
	return [32]byte(sum.Sum(nil))
}

// records iterates over the whole state as it is written: tag, length in four
// bytes, CBOR. What it yields is good until the next step.
func (d *data) records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		t := d.txn()
		var buf []byte
		for i := range sections {
			for value := range sections[i].Each(t) {
				body := codec.Marshal(value)
				buf = append(buf[:0], sections[i].Tag)
				buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
				buf = append(buf, body...)
				if !yield(buf) {
					return
				}
			}
		}
	}
}
