package fsm

import (
	"encoding/binary"
	"iter"

	"github.com/trivet-ha/trivet/fsm/codec"
)

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
