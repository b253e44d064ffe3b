package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"

	"github.com/trivet-ha/trivet/fsm/codec"
)

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
