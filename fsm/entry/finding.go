package entry

import (
	"errors"

	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of a finding, in bytes.
const (
	MaxFindingCode = 32
	MaxFindingText = 256
)

// Finding is why a machine does not come up, as far as its boot was heard. Any machine on the
// network could have sent what it was found by: it decides nothing.
type Finding struct {
	Code string `cbor:"1,keyasint"` // stands in docs/pxe.md#recorder, which has the remedy
	Text string `cbor:"2,keyasint"` // a sentence without a full stop
}

// IsZero reports whether nothing was found.
func (f Finding) IsZero() bool { return f == Finding{} }

// Validate says why a finding cannot go into the log. A later binary may know more codes.
func (f Finding) Validate() error {
	return errors.Join(valid.Length("finding", f.Code, 1, MaxFindingCode),
		valid.Chars("finding", f.Code, func(b byte) bool { return 'a' <= b && b <= 'z' || b == '-' }),
		valid.Text("text of a finding", f.Text, 1, MaxFindingText))
}
