package blobs_test

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/trivet-ha/trivet/fsm/blobs"
)

// inventory is one that the original was sent when its answers were recorded. The
// dictionary was not made from it.
//
//go:embed testdata/inventory.json
var inventory []byte

func packer(t *testing.T, known func() bool) *blobs.Packer {
	t.Helper()
	p, err := blobs.NewPacker(1, known)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPackedWithTheFirstDictionary reads a frame that was stored when the dictionary was
// new: it refers to all of it. Who changes the dictionary, or its ID, loses every document
// that was packed with it.
func TestPackedWithTheFirstDictionary(t *testing.T) {
	const frame = "28b52ffd66419c955f550000000154000e3292202618bd17a459"
	const sum = "0f5ee3e06731961ab2f66520f812e2fa13186118e3384b2d449c8b09308bd7c6" // SHA-256
	var b blobs.Blob
	var err error
	if b.Data, err = hex.DecodeString(frame); err != nil {
		t.Fatal(err)
	}
	if _, err := hex.Decode(b.Hash[:], []byte(sum)); err != nil {
		t.Fatal(err)
	}
	if _, err := packer(t, nil).Unpack(b); err != nil {
		t.Errorf("dictionary-never-changes: %v", err)
	}
}

// TestDictionaryIsUsedOnceEveryMemberKnowsIt packs as long as a member of v0.1.0 is there,
// which reads frames without a dictionary, and afterwards.
func TestDictionaryIsUsedOnceEveryMemberKnowsIt(t *testing.T) {
	old, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	known := false
	p := packer(t, func() bool { return known })
	size := make(map[bool]int)
	for _, known = range []bool{false, true} {
		packed, err := p.Pack(inventory)
		if err != nil {
			t.Fatal(err)
		}
		size[known] = len(packed.Data)
		if _, err := old.DecodeAll(packed.Data, nil); (err == nil) == known {
			t.Errorf("older-peers-read-documents: known to all: %v; without the dictionary it is read with: %v", known, err)
		}
		if text, err := p.Unpack(blobs.Blob{Hash: packed.Hash, Data: packed.Data}); err != nil ||
			!bytes.Equal(text, inventory) {
			t.Errorf("known to all: %v: it comes back with %d bytes, %v", known, len(text), err)
		}
	}
	if size[true] > size[false]/2 {
		t.Errorf("the dictionary is of no use: %d bytes with it, %d without", size[true], size[false])
	}
}

// The bounds of a document are those of a document without the dictionary.
func TestGreatestDocumentWithTheDictionary(t *testing.T) {
	p := packer(t, func() bool { return true })
	packed, err := p.Pack(make([]byte, blobs.MaxDocument))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := (blobs.Blob{Hash: packed.Hash, Data: packed.Data}).Document(); err != nil ||
		len(text) != blobs.MaxDocument {
		t.Errorf("the greatest document came back with %d bytes, %v", len(text), err)
	}
}
