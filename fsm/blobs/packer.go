package blobs

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/trivet-ha/trivet/fsm/entry"
)

// Bounds of a document (docs/design.md#log).
const (
	// MaxDocument is the greatest document before compression.
	MaxDocument = 8 << 20
	// MaxBlob is the greatest compressed document.
	MaxBlob = 2 << 20
)

// Packed is a document on its way into the state: compressed by the peer that
// received it. It travels with the command that first refers to it, and is
// stored only if that command succeeds. Zero means none. Make one with a Packer.
type Packed struct {
	Hash Hash   `cbor:"1,keyasint"`
	Data []byte `cbor:"2,keyasint"` // one zstd frame, at most MaxBlob bytes
}

// Pack compresses one document. A caller that packs many keeps a [Packer].
func Pack(document []byte) (Packed, error) {
	enc, err := newEncoder(1)
	if err != nil {
		return Packed{}, err
	}
	return (&Packer{plain: enc}).Pack(document)
}

// IsZero reports whether there is no document.
func (p Packed) IsZero() bool { return p.Hash.IsZero() && len(p.Data) == 0 }

// zstdMagic begins every zstd frame.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// Validate does not decompress: the reader of the document finds a fault.
func (p Packed) Validate() error {
	switch {
	case p.IsZero():
		return nil
	case p.Hash.IsZero():
		return errors.New("no hash of the document")
	case len(p.Data) > MaxBlob:
		return fmt.Errorf("the document has %d bytes compressed, more than %d", len(p.Data), MaxBlob)
	case !bytes.HasPrefix(p.Data, zstdMagic):
		return errors.New("the document is not a zstd frame")
	}
	return nil
}

// packWindow is how far back the compressor looks. It bounds what each encoder
// keeps for good after one great document.
const packWindow = 1 << 20

// Packer compresses and decompresses documents. It keeps what that needs from
// one document to the next, which is most of the cost of a small one. Any
// number of goroutines may use it; those above its limit wait for the others,
// so one that was made in a synctest bubble stays there.
type Packer struct {
	plain, primed *zstd.Encoder // without the dictionary and with it
	dec           *zstd.Decoder // of both
	known         func() bool   // nil: never
}

// NewPacker returns a packer that works on up to parallel documents at once
// each way, at least 1. It uses the dictionary while known says that every member
// knows it, which is from log version DictionarySince on; nil: it never does.
func NewPacker(parallel int, known func() bool) (*Packer, error) {
	p := &Packer{known: known}
	var err error
	if p.plain, err = newEncoder(parallel); err != nil {
		return nil, err
	}
	if p.primed, err = newEncoder(parallel, zstd.WithEncoderDictRaw(dictionaryID, dictionary)); err != nil {
		return nil, err
	}
	if p.dec, err = newDecoder(parallel); err != nil {
		return nil, err
	}
	return p, nil
}

// newEncoder takes the fastest level: on a callback of 30 KB it needs three
// quarters of the default's time, and its result is no larger.
func newEncoder(parallel int, more ...zstd.EOption) (*zstd.Encoder, error) {
	enc, err := zstd.NewWriter(nil,
		append(more, zstd.WithEncoderConcurrency(parallel), zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithWindowSize(packWindow), zstd.WithLowerEncoderMem(true))...)
	if err != nil {
		return nil, fmt.Errorf("compress %d documents at once: %w", parallel, err)
	}
	return enc, nil
}

func newDecoder(parallel int) (*zstd.Decoder, error) {
	if parallel < 1 { // to the library 0 means one for each processor
		return nil, fmt.Errorf("decompress %d documents at once: at least 1", parallel)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(parallel), zstd.WithDecoderMaxMemory(MaxDocument),
		zstd.WithDecoderDictRaw(dictionaryID, dictionary))
	if err != nil {
		return nil, fmt.Errorf("decompress %d documents at once: %w", parallel, err)
	}
	return dec, nil
}

// Pack compresses a document of 1 to MaxDocument bytes. A refusal is an
// *Error with code Invalid.
func (p *Packer) Pack(document []byte) (Packed, error) {
	if n := len(document); n == 0 || n > MaxDocument {
		return Packed{}, &entry.Error{Code: entry.Invalid,
			Message: fmt.Sprintf("the document has %d bytes, allowed are 1 to %d", n, MaxDocument)}
	}
	enc := p.plain
	if p.known != nil && p.known() {
		enc = p.primed
	}
	// Introspection data shrinks to a sixth at least; what does not grows the buffer.
	out := Packed{Hash: HashOf(document), Data: enc.EncodeAll(document, make([]byte, 0, len(document)/4+64))}
	if err := out.Validate(); err != nil {
		return Packed{}, &entry.Error{Code: entry.Invalid, Message: err.Error()}
	}
	return out, nil
}

// Unpack decompresses a stored document and checks that it is what its name
// says.
func (p *Packer) Unpack(b Blob) ([]byte, error) {
	document, err := p.dec.DecodeAll(b.Data, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress document %v: %w", b.Hash, err)
	}
	if HashOf(document) != b.Hash {
		return nil, fmt.Errorf("document %v is not what its name says", b.Hash)
	}
	return document, nil
}
