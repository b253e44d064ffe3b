package fsm

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// The codec of everything replicated: core deterministic CBOR, read strictly.
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

// marshal encodes a value of this package. Its types hold nothing that cannot
// be encoded, so a failure is a fault of the program, not of its input.
func marshal(v any) []byte {
	data, err := encMode.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("fsm: encode %T: %w", v, err))
	}
	return data
}

// unmarshal reads exactly one value into v.
func unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return errors.New("nothing to decode")
	}
	return decMode.Unmarshal(data, v)
}
