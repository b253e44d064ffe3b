// Package blobs stores documents: compressed, by their hashes, each as long as something
// refers to it.
package blobs

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

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
	Refs int    `cbor:"3,keyasint"` // by records, queued requests, relays and verdicts
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

// Store holds the documents by their hashes.
type Store struct{ byHash table.Of[Blob] }

// Get returns a stored document.
func (s Store) Get(h Hash) (Blob, bool) { return s.byHash.Get(h[:]) }

// Table returns the documents in the order of their hashes.
func (s Store) Table() table.Of[Blob] { return s.byHash }

// Load files a document of a snapshot, which knows its references.
func (s *Store) Load(b Blob) { s.byHash.Put(b.Hash[:], b) }

// Ref counts one more reference to a document; zero hashes are none. The first
// stores it: then it is the one that this entry brings.
func (s *Store) Ref(h Hash, brought Packed) {
	if h.IsZero() {
		return
	}
	b, ok := s.Get(h)
	if !ok {
		if h != brought.Hash {
			return
		}
		b = Blob{Hash: h, Data: brought.Data}
	}
	b.Refs++
	s.Load(b)
}

// Unref drops a document with its last reference.
func (s *Store) Unref(h Hash) {
	if h.IsZero() {
		return
	}
	b, ok := s.Get(h)
	if !ok {
		return
	}
	b.Refs--
	if b.Refs > 0 {
		s.Load(b)
		return
	}
	s.byHash.Drop(h[:])
}

// Stored reports whether a document can be referred to; no document always can.
func (s Store) Stored(h Hash) bool { return h.IsZero() || s.byHash.Has(h[:]) }

// Check compares the documents with the references to each. What is left of refs is not
// stored.
func (s Store) Check(p *valid.Problems, refs map[Hash]int) {
	delete(refs, Hash{})
	for key, b := range s.byHash.All() {
		p.Want(string(key) == string(b.Hash[:]), "document %v is filed under %x", b.Hash, key)
		p.Want(b.Refs == refs[b.Hash] && b.Refs > 0, "document %v counts %d references of %d", b.Hash, b.Refs, refs[b.Hash])
		delete(refs, b.Hash)
	}
	p.Want(len(refs) == 0, "%d documents are referred to and not stored", len(refs))
}

// CheckContent reads every document and compares it with its name, until ended returns an
// error.
func (s Store) CheckContent(ended func() error, p *valid.Problems) {
	packer, err := NewPacker(1, nil)
	if err != nil {
		p.Addf("%v", err)
		return
	}
	for _, b := range s.byHash.All() {
		if ended() != nil {
			return
		}
		if _, err := packer.Unpack(b); err != nil {
			p.Addf("%v", err)
		}
	}
}
