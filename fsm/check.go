package fsm

import (
	"errors"
	"fmt"
)

// maxProblems bounds how many contradictions Check names.
const maxProblems = 20

// Check verifies the state's invariants and names what contradicts them, nil
// if nothing does. Its cost is that of reading everything; it runs after every
// entry in tests and on demand in production.
func (v View) Check() error {
	p := &problems{}
	checkTables(v.d, p)
	checkDocuments(v.d, p)
	return p.err()
}

// checkTables verifies each table against itself and against the others.
func checkTables(d *data, p *problems) {
	for _, domain := range domains {
		if domain.check != nil {
			domain.check(d, p)
		}
	}
	checkWhitelist(d, p)
	checkDue(d, p)
}

// problems collects contradictions.
type problems struct {
	list []error
	more int
}

func (p *problems) addf(format string, args ...any) {
	if len(p.list) == maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, fmt.Errorf(format, args...))
}

// want notes a problem unless ok.
func (p *problems) want(ok bool, format string, args ...any) {
	if !ok {
		p.addf(format, args...)
	}
}

func (p *problems) err() error {
	if p.more > 0 {
		p.list = append(p.list, fmt.Errorf("and %d more", p.more))
	}
	return errors.Join(p.list...)
}
