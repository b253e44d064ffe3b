package fsm

import "github.com/trivet-ha/trivet/fsm/valid"

// Check verifies the state's invariants and names what contradicts them, nil
// if nothing does. Its cost is that of reading everything; it runs after every
// entry in tests and on demand in production.
func (v View) Check() error { return check(v, never) }

// never is the end of what is not given up.
func never() error { return nil }

// check is Check until ended returns an error, and then says nothing of the documents that
// are left.
func check(v View, ended func() error) error {
	p := &valid.Problems{}
	checkTables(v.data.txn(), p)
	v.data.blobs.CheckContent(ended, p)
	return p.Err()
}

// checkTables verifies each table against itself and against the others, and the deadlines
// against the records they belong to.
func checkTables(d *txn, p *valid.Problems) {
	for _, domain := range domains {
		for _, check := range domain.Checks {
			check(d, p)
		}
	}
	want := 0
	for _, e := range endings {
		e.Due(d, func(at Time, id []byte) {
			want++
			p.Want(d.Armed(at, e.Class, id), "no deadline %v of class %q for %x", at, e.Class, id)
			p.Want(at > d.shared.Position.Now, "deadline %v of class %q for %x is past", at, e.Class, id)
		})
	}
	p.Want(want == d.Deadlines(), "%d deadlines for %d records", d.Deadlines(), want)
}
