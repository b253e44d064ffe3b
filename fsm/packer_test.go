package fsm

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

func TestDocumentIsThereWhileSomethingRefersToIt(t *testing.T) {
	r := newRig(t)
	s := r.session("a")
	stored := func(p blobs.Packed, refs int) {
		t.Helper()
		b, ok := r.view().Blob(p.Hash)
		if b.Refs != refs || ok != (refs > 0) {
			t.Errorf("document %v: %d references, stored %v; want %d", p.Hash, b.Refs, ok, refs)
		}
		if text, err := b.Document(); ok && (err != nil || blobs.HashOf(text) != p.Hash) {
			t.Errorf("document %q, %v", text, err)
		}
	}
	doc, done, other := pack(t, "doc"), pack(t, "done"), pack(t, "other")
	r.waiting(s, nodeA)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
	stored(doc, 1)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
	stored(doc, 1) // the second joined
	c := r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: doc.Hash,
		Processed: doc})
	stored(doc, 3)
	r.refused(NotFound, Header{}, introspection.Mark{Claim: c.Claim.Hold(), Unprocessed: other.Hash, Processed: done})
	r.refused(NotFound, Header{},
		introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Unprocessed: other.Hash,
			Processed: done})
	stored(done, 0) // a refusal stores nothing
	r.must(introspection.Mark{Claim: c.Claim.Hold(), Processed: done})
	stored(doc, 2)
	stored(done, 1)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Processed: other, Consume: true})
	stored(doc, 1)
	stored(done, 0)
	stored(other, 1)
	r.refused(IllegalTransition, Header{},
		introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: done})
	stored(done, 0)
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Timeout: time.Minute, Document: done})
	stored(done, 1)
	c = r.claim(s)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventFinish, Unprocessed: done.Hash,
		Consume: true})
	stored(doc, 0)
	stored(done, 1)
	r.must(introspection.DeleteNode{Node: nodeA})
	stored(done, 0)
	stored(other, 0)
}

func TestPackerRefusesWhatDoesNotFit(t *testing.T) {
	noise := make([]byte, 0, blobs.MaxBlob+1<<16)
	for i := 0; len(noise) < blobs.MaxBlob+1<<15; i++ {
		sum := sha256.Sum256([]byte(fmt.Sprint(i)))
		noise = append(noise, sum[:]...)
	}
	for name, document := range map[string][]byte{"nothing": nil, "too long": make([]byte, blobs.MaxDocument+1),
		"not compressible": noise} {
		if p, err := blobs.Pack(document); !errors.Is(err, Invalid) || !p.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := blobs.Pack(make([]byte, blobs.MaxDocument))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := (blobs.Blob{Hash: p.Hash, Data: p.Data}).Document(); err != nil || len(text) != blobs.MaxDocument {
		t.Errorf("the greatest document came back with %d bytes, %v", len(text), err)
	}
	if _, err := blobs.NewPacker(0, nil); err == nil {
		t.Error("a packer for no document at once")
	}
}

func TestUnpackRefusesWhatIsNotTheDocument(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packer, err := blobs.NewPacker(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := enc.EncodeAll(make([]byte, blobs.MaxDocument+1), nil)
	good := pack(t, "doc")
	for name, b := range map[string]blobs.Blob{
		"another document": {Hash: blobs.HashOf([]byte("x")), Data: good.Data},
		"cut":              {Hash: good.Hash, Data: good.Data[:len(good.Data)-1]},
		"more than fits":   {Hash: blobs.HashOf(make([]byte, blobs.MaxDocument+1)), Data: bomb},
	} {
		if text, err := packer.Unpack(b); err == nil {
			t.Errorf("%s was unpacked to %d bytes", name, len(text))
		}
	}
}

func TestPackerServesMany(t *testing.T) {
	packer, err := blobs.NewPacker(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for j := range 50 {
				document := []byte(strings.Repeat(fmt.Sprintf("%d of %d;", j, i), 100*i+1))
				p, err := packer.Pack(document)
				if err != nil {
					t.Error(err)
					return
				}
				if text, err := packer.Unpack(blobs.Blob{Hash: p.Hash, Data: p.Data}); err != nil || !bytes.Equal(text, document) {
					t.Errorf("document %d of %d came back as %.20q, %v", j, i, text, err)
				}
			}
		})
	}
	work.Wait()
}

// What the bounds of its parts allow must fit in an entry, or a worker could
// not save its work.
func TestGreatestCommandsFitInAnEntry(t *testing.T) {
	doc := blobs.Packed{Hash: blobs.Hash{1},
		Data: append(bytes.Clone(zstdFrame), make([]byte, blobs.MaxBlob-len(zstdFrame))...)}
	text := strings.Repeat("x", introspection.MaxErrorText)
	var attributes introspection.Attributes
	for i := range introspection.MaxAttributes {
		attributes.MACs = append(attributes.MACs, fmt.Sprintf("52:54:00:00:00:%02x", i))
		attributes.BMC = append(attributes.BMC, fmt.Sprintf("%064x", i))
	}
	held, hook := introspection.Hold{Request: 1 << 60, Token: 1 << 60}, strings.Repeat("h", introspection.MaxHook)
	id := entry.MintRequestID(1<<60, 1, [8]byte{})
	h := Header{Time: 1 << 60, WallMillis: 1 << 60, Token: 1 << 60, Session: 1 << 60, Request: id, Answered: id,
		Client: strings.Repeat("c", entry.MaxClient)}
	for _, c := range []Command{
		introspection.Advance{Claim: held, Event: introspection.EventError, Error: text, Attributes: &attributes,
			Unprocessed: doc.Hash, Processed: doc, Consume: true, Hook: hook,
			Answer: introspection.Answer{Status: 500, Message: text}},
		introspection.Mark{Claim: held, Hook: hook, Answer: introspection.Answer{Status: 500, Message: text}, Processed: doc,
			Unprocessed: doc.Hash},
		introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply, Document: doc, Timeout: introspection.MaxTime},
	} {
		if _, err := Encode(h, c); err != nil {
			t.Errorf("%v: %v", KindOf(c), err)
		}
	}
}
