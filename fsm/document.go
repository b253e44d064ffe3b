package fsm

import (
	"iter"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var documentDomain = domain{
	Sections: []entry.Section[*txn]{
		{Tag: 'b', Name: "documents", Each: eachDocument, Load: loadDocument, Show: shownDocuments},
	},
	Check: checkDocuments,
}

func eachDocument(d *txn) iter.Seq[any] {
	return func(yield func(any) bool) {
		for b := range d.blobs.All() {
			if !yield(b) {
				return
			}
		}
	}
}

func loadDocument(d *txn, record []byte) error {
	var b blobs.Blob
	if err := codec.Unmarshal(record, &b); err != nil {
		return err
	}
	d.blobs.Load(b)
	return nil
}

type dumpedBlob struct {
	Hash  blobs.Hash `json:"hash"`
	Bytes int        `json:"compressed_bytes"`
	Refs  int        `json:"references"`
}

func shownDocuments(t *txn) any {
	out := []dumpedBlob{}
	for b := range t.blobs.All() {
		out = append(out, dumpedBlob{Hash: b.Hash, Bytes: len(b.Data), Refs: b.Refs})
	}
	return out
}

// checkDocuments counts who refers to what.
func checkDocuments(d *txn, p *valid.Problems) {
	refs := make(map[blobs.Hash]int)
	for r := range d.Records() {
		refs[r.Unprocessed]++
		refs[r.Processed]++
	}
	for r := range d.Queue() {
		refs[r.Document]++
	}
	for r := range d.Relays() {
		refs[r.Document]++
	}
	d.blobs.Check(p, refs)
}
