package expectations

import (
	"testing"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/test/domaintest"
)

const one, other = "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a10", "6f2f1c9e-3f6b-4a52-9f0e-0a4c5d3b2a11"

// Check finds the contradictions that a fault of a verb could leave.
func TestCheckFindsContradictions(t *testing.T) {
	tables, store := Tables{}, blobs.Store{}
	document, err := blobs.Pack([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	store.Ref(document.Hash, document)
	base := domaintest.NewTxn()
	at := func(base *entry.Txn, tables *Tables) Txn { return Txn{Txn: base, Tables: tables, Blobs: &store} }
	all := at(base, &tables)
	put := domaintest.Commit(t, Domain, base, all, Put{Name: "a", Body: []byte("{}")})
	domaintest.Commit(t, Domain, base, all, Judge{Under: put, Judgements: []Judgement{
		{Node: one, Document: document.Hash, By: []string{"a"}, Differences: []string{"too few"}}}})
	first, _ := all.Expectation("a")
	verdict, judged := all.Verdict(one)
	if !judged || all.Unexpected() != 1 {
		t.Fatalf("%+v, %d unexpected", verdict, all.Unexpected())
	}
	domaintest.FindContradictions(t, Domain, base, tables, at, map[string]func(Txn){
		"expectation under another key": func(s Txn) { s.byName.Put([]byte("b"), first) },
		"expectation from the future": func(s Txn) {
			s.put(Expectation{Name: "a", Body: []byte("{}"), Changed: s.Granted() + 1})
		},
		"expectation without a body":    func(s Txn) { s.put(Expectation{Name: "b"}) },
		"bytes counted wrong":           func(s Txn) { s.bytes++ },
		"deletion from the future":      func(s Txn) { s.deleted = s.Granted() + 1 },
		"verdict under another key":     func(s Txn) { s.verdicts.Put([]byte(other), verdict) },
		"verdict without a document":    func(s Txn) { s.file(Verdict{Node: other}) },
		"verdict missing of the index":  func(s Txn) { s.unexpected.Drop([]byte(one)) },
		"machine that does not differ":  func(s Txn) { s.unexpected.Put([]byte(other), struct{}{}) },
		"verdict by an entry to come":   func(s Txn) { v := verdict; v.Under = s.Granted() + 1; s.file(v) },
		"verdict of a document to come": func(s Txn) { v := verdict; v.Sent = s.Granted() + 1; s.file(v) },
		"verdict at a time to come":     func(s Txn) { v := verdict; v.Since = s.Position.Now + 1; s.file(v) },
	})
}

// TestBounds refuses what would not fit, and counts what it replaces and deletes.
func TestBounds(t *testing.T) {
	tables, store := Tables{}, blobs.Store{}
	base := domaintest.NewTxn()
	at := Txn{Txn: base, Tables: &tables, Blobs: &store}
	body := make([]byte, MaxExpectation)
	for i := range MaxBytes / MaxExpectation {
		domaintest.Commit(t, Domain, base, at, Put{Name: string(rune('a'+i%26)) + string(rune('a'+i/26)), Body: body})
	}
	if res := (Put{Name: "more", Body: []byte("{}")}).Apply(at); res.Code != entry.Refused {
		t.Errorf("bytes: %v", res.Err())
	}
	domaintest.Commit(t, Domain, base, at, Put{Name: "aa", Body: []byte("{}")})
	domaintest.Commit(t, Domain, base, at, Put{Name: "more", Body: []byte("{}")})
	for e := range tables.Expectations() {
		domaintest.Commit(t, Domain, base, at, Delete{Name: e.Name})
	}
	for i := range MaxExpectations {
		domaintest.Commit(t, Domain, base, at, Put{Name: string(rune('a'+i%26)) + string(rune('a'+i/26)), Body: []byte("{}")})
	}
	if res := (Put{Name: "more", Body: []byte("{}")}).Apply(at); res.Code != entry.Refused {
		t.Errorf("number: %v", res.Err())
	}
	if err := domaintest.Check(Domain, base, at); err != nil {
		t.Error(err)
	}
}

// Names are of letters, digits and three signs, and begin with none that a path or a shell reads.
func TestNamesOfExpectations(t *testing.T) {
	for name, fits := range map[string]bool{"azAZ09._-": true, "Z": true, "_": true, "": false, ".a": false, "-a": false,
		"a/b": false, "a b": false, "a@": false, "a[": false, "a`": false, "a{": false, "a:": false} {
		if err := validName(name); (err == nil) != fits {
			t.Errorf("name: %q: %v", name, err)
		}
	}
}
