package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Bounds of documents.
const (
	// MaxDocument is the greatest document before compression (design §4).
	MaxDocument = 8 << 20
	// BlobTTL is how long a blob stays that nothing refers to yet: the time
	// between storing a document and the request that brings it.
	BlobTTL = 10 * time.Minute
	// MaxLooseBlobs is how many such blobs there may be.
	MaxLooseBlobs = 256
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

// Blob is a stored document. Data is shared and must not be changed.
type Blob struct {
	Hash    Hash   `cbor:"1,keyasint"`
	Data    []byte `cbor:"2,keyasint"`           // one zstd frame
	Refs    int    `cbor:"3,keyasint,omitempty"` // by records and queued requests
	Expires Time   `cbor:"4,keyasint,omitempty"` // when it is dropped, while Refs is 0
}

// Document decompresses the blob and checks that it is what its name says.
func (b Blob) Document() ([]byte, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxDocument))
	if err != nil {
		return nil, fmt.Errorf("decompress document: %w", err)
	}
	defer dec.Close()
	document, err := dec.DecodeAll(b.Data, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress document %v: %w", b.Hash, err)
	}
	if HashOf(document) != b.Hash {
		return nil, fmt.Errorf("document %v is not what its name says", b.Hash)
	}
	return document, nil
}

// blobs holds the documents.
type blobs struct {
	byHash table[Blob]
	loose  int // those without references; derived
}

func newBlobs() blobs { return blobs{byHash: newTable[Blob]()} }

// PutBlob stores a document, compressed by the peer that received it. It is
// dropped BlobTTL later unless something refers to it by then, and with the
// last reference otherwise. Make one with NewPutBlob.
type PutBlob struct {
	Hash Hash   `cbor:"1,keyasint"`
	Data []byte `cbor:"2,keyasint"` // one zstd frame, at most MaxBlob bytes
}

// NewPutBlob compresses a document of at most MaxDocument bytes.
func NewPutBlob(document []byte) (PutBlob, error) {
	if len(document) > MaxDocument {
		return PutBlob{}, &Error{Code: Invalid, Message: fmt.Sprintf("the document has %d bytes, more than %d", len(document), MaxDocument)}
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return PutBlob{}, fmt.Errorf("compress document: %w", err)
	}
	c := PutBlob{Hash: HashOf(document), Data: enc.EncodeAll(document, nil)}
	if err := enc.Close(); err != nil {
		return PutBlob{}, fmt.Errorf("compress document: %w", err)
	}
	if err := c.Validate(); err != nil {
		return PutBlob{}, &Error{Code: Invalid, Message: err.Error()}
	}
	return c, nil
}

// Kind implements Command.
func (PutBlob) Kind() Kind { return KindPutBlob }

// zstdMagic begins every zstd frame.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// Validate implements Command. It does not decompress: Document finds out.
func (c PutBlob) Validate() error {
	switch {
	case c.Hash.IsZero():
		return invalid("no hash of the document")
	case len(c.Data) > MaxBlob:
		return invalid("the document has %d bytes compressed, more than %d", len(c.Data), MaxBlob)
	case !bytes.HasPrefix(c.Data, zstdMagic):
		return invalid("the document is not a zstd frame")
	}
	return nil
}

func applyPutBlob(t *txn, c PutBlob) Result {
	b, known := t.blobs.byHash.get(c.Hash[:])
	switch {
	case known && b.Refs > 0:
		return done()
	case known:
		t.disarm(b.Expires, dueBlob, b.Hash[:])
	case t.blobs.loose >= MaxLooseBlobs:
		return refuse(TableFull, "%d documents wait for their request; try again later", MaxLooseBlobs)
	default:
		b = Blob{Hash: c.Hash, Data: c.Data}
		t.blobs.loose++
	}
	b.Expires = t.now().Add(BlobTTL)
	t.arm(b.Expires, dueBlob, b.Hash[:])
	t.blobs.byHash.put(b.Hash[:], b)
	return done()
}

// ref counts one more reference to a document; zero hashes are none.
func (d *data) ref(h Hash) {
	b, ok := d.blobs.byHash.get(h[:])
	if !ok {
		return
	}
	if b.Refs == 0 {
		d.disarm(b.Expires, dueBlob, h[:])
		d.blobs.loose--
		b.Expires = 0
	}
	b.Refs++
	d.blobs.byHash.put(h[:], b)
}

// unref drops a document with its last reference.
func (d *data) unref(h Hash) {
	b, ok := d.blobs.byHash.get(h[:])
	if !ok {
		return
	}
	b.Refs--
	if b.Refs > 0 {
		d.blobs.byHash.put(h[:], b)
		return
	}
	d.blobs.byHash.drop(h[:])
}

// lacks refuses a reference to a document that is not stored.
func (t *txn) lacks(hashes ...Hash) (Result, bool) {
	for _, h := range hashes {
		if !h.IsZero() && !t.blobs.byHash.has(h[:]) {
			return refuse(NotFound, "document %v is not stored; it may have expired", h), true
		}
	}
	return Result{}, false
}

// loadBlob restores one document from a snapshot.
func loadBlob(d *data, b Blob) {
	d.blobs.byHash.put(b.Hash[:], b)
	if b.Refs == 0 {
		d.blobs.loose++
		d.arm(b.Expires, dueBlob, b.Hash[:])
	}
}

// endBlob drops a document that nothing ever referred to.
func (d *data) endBlob(hash []byte) {
	d.blobs.byHash.drop(hash)
	d.blobs.loose--
}
