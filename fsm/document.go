package fsm

import (
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

var documentDomain = domain{
	Sections: []entry.Section[*txn]{
		entry.ManyShown('b', "documents", func(d *txn) table.Of[blobs.Blob] { return d.blobs.Table() },
			func(d *txn, b blobs.Blob) { d.blobs.Load(b) },
			func(b blobs.Blob) any { return dumpedBlob{Hash: b.Hash, Bytes: len(b.Data), Refs: b.Refs} }),
	},
	Checks: entry.Checks[*txn]{checkDocuments},
}

type dumpedBlob struct {
	Hash  blobs.Hash `json:"hash"`
	Bytes int        `json:"compressed_bytes"`
	Refs  int        `json:"references"`
}

// checkDocuments counts who refers to what.
func checkDocuments(d *txn, p *valid.Problems) {
	refs := make(map[blobs.Hash]int)
	for r := range d.Records() {
		for _, document := range r.Documents() {
			refs[document]++
		}
	}
	for r := range d.Queue() {
		refs[r.Document]++
	}
	for r := range d.Relays() {
		refs[r.Document]++
	}
	for v := range d.Verdicts() {
		for _, document := range v.Documents() {
			refs[document]++
		}
	}
	d.blobs.Check(p, refs)
}
