package fsm

import (
	"crypto/sha256"
	"encoding/hex"
)

var documentDomain = domain{
	sections: []section{
		many('b', "documents", func(d *data) table[Blob] { return d.blobs }, func(d *data, b Blob) { d.blobs.put(b.Hash[:], b) }).shown(shownDocuments),
	},
	check: checkBlobs,
}

// Hash names a document by its SHA-256, taken before compression, so that a
// repeat that another peer compressed is the same document. Zero means none.
type Hash [32]byte

// HashOf returns the name of a document.
func HashOf(document []byte) Hash { return sha256.Sum256(document) }

// IsZero reports whether the hash stands for no document.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler; no document is "".
func (h Hash) MarshalText() ([]byte, error) {
	if h.IsZero() {
		return nil, nil
	}
	return []byte(h.String()), nil
}

// Blob is a stored document: it is there exactly while something refers to it.
// Data is shared and must not be changed.
type Blob struct {
	Hash Hash   `cbor:"1,keyasint"`
	Data []byte `cbor:"2,keyasint"` // one zstd frame
	Refs int    `cbor:"3,keyasint"` // by records, queued requests and relays
}

// Document decompresses the blob and checks that it is what its name says. A caller
// that reads many uses [Packer.Unpack].
func (b Blob) Document() ([]byte, error) {
	dec, err := newDecoder(1)
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return (&Packer{dec: dec}).Unpack(b)
}

// ref counts one more reference to a document; zero hashes are none. The first
// stores it: then it is the one that this entry brings.
func (d *data) ref(h Hash, brought Packed) {
	if h.IsZero() {
		return
	}
	b, ok := d.blobs.get(h[:])
	if !ok {
		if h != brought.Hash {
			return
		}
		b = Blob{Hash: h, Data: brought.Data}
	}
	b.Refs++
	d.blobs.put(h[:], b)
}

// unref drops a document with its last reference.
func (d *data) unref(h Hash) {
	if h.IsZero() {
		return
	}
	b, ok := d.blobs.get(h[:])
	if !ok {
		return
	}
	b.Refs--
	if b.Refs > 0 {
		d.blobs.put(h[:], b)
		return
	}
	d.blobs.drop(h[:])
}

// stored reports whether a document can be referred to; no document always can.
func (d *data) stored(h Hash) bool { return h.IsZero() || d.blobs.has(h[:]) }

func notStored(h Hash) Result {
	return refuse(NotFound, "document %v is not stored: it went with the last that referred to it", h)
}
