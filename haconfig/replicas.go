package haconfig

import (
	"math"
	"net/http"
	"strconv"
)

// replicaTable is how many replicas a component has, by what its namespace says of
// failures: nothing, the empty text, or anything.
var replicaTable = map[string][columns]int32{
	//          absent, empty, some
	controller: {2, 1, 2},
	server:     {2, 2, 2},
}

// component is an object as the table of replicas sees it.
type component struct {
	kind     string // "": not for the table
	ruled    bool   // the kind is that of a rule, not of the label
	override string // "": there is none
	replicas *int32 // at present
}

// replicas is how many there should be, nil for leave it: what is not labelled, and
// what does not run. Then not even an override that makes no sense matters.
func (c Conventions) replicas(of component, t tolerance) (*int32, error) {
	if of.replicas == nil || *of.replicas == 0 || of.kind == "" {
		return nil, nil
	}
	row, known := replicaTable[of.kind]
	if !known {
		row = replicaTable[server]
	}
	wanted := row[t.column()]
	if of.ruled && of.kind == observability {
		wanted = 1
	}
	if of.override == "" {
		return &wanted, nil
	}
	number, err := strconv.Atoi(of.override)
	if err != nil {
		return nil, refuse(http.StatusForbidden, "annotation %s: %v", c.Names.Replicas(), err)
	}
	if c.Strict.Replicas && (number < 0 || number > math.MaxInt32) {
		return nil, refuse(http.StatusUnprocessableEntity, "annotation %s: %d is not from 0 to %d", c.Names.Replicas(),
			number, math.MaxInt32)
	}
	wanted = int32(number) // the original wraps, too; see Strict.Replicas
	return &wanted, nil
}
