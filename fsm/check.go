package fsm

import "github.com/trivet-ha/trivet/fsm/valid"

// Check verifies the state's invariants and names what contradicts them, nil
// if nothing does. Its cost is that of reading everything; it runs after every
// entry in tests and on demand in production.
func (v View) Check() error {
	p := &valid.Problems{}
	checkTables(v.data.txn(), p)
	v.data.blobs.CheckContent(p)
	return p.Err()
}

// checkTables verifies each table against itself and against the others.
func checkTables(d *txn, p *valid.Problems) {
	for _, domain := range domains {
		if domain.Check != nil {
			domain.Check(d, p)
		}
	}
	checkDue(d, p)
}
