// Package codec writes and reads everything replicated: entries and the records of
// snapshots.
package codec

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// Core deterministic CBOR, read strictly.
// A field this binary does not know is an error, since to drop it silently
// would let this peer's state part from the others' (promise 8).
var (
	encMode = mustMode(cbor.CoreDetEncOptions().EncMode())
	decMode = mustMode(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   8,
		MaxArrayElements:  16384,
		MaxMapPairs:       1024,
	}.DecMode())
)

// mustMode panics when the constants above contradict each other, which no
// input can cause.
func mustMode[M any](m M, err error) M {
	if err != nil {
		panic(err)
	}
	return m
}

// Marshal encodes a value of this package. Its types hold nothing that cannot
// be encoded, so a failure is a fault of the program, not of its input.
func Marshal(v any) []byte {
	data, err := encMode.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("fsm: encode %T: %w", v, err))
	}
	return data
}

// Unmarshal reads exactly one value into v.
func Unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return errors.New("nothing to decode")
	}
	return decMode.Unmarshal(data, v)
}

// UnmarshalFirst reads one value into v and returns what follows it.
func UnmarshalFirst(data []byte, v any) (rest []byte, err error) {
	return decMode.UnmarshalFirst(data, v)
}

// NameOf returns the word for a number of the log; one that is not known is shown as it is.
func NameOf(names []string, what string, n uint8) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprintf("%s %d", what, n)
}
