package introspection

import (
	"errors"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// maxLogPlace bounds the name of a peer, and the path of a file, in bytes.
const maxLogPlace = 1024

// RamdiskLogs says where the logs of one introspection's ramdisk are.
type RamdiskLogs struct {
	Peer string `cbor:"1,keyasint"` // name of the host
	Path string `cbor:"2,keyasint"` // of the file there
}

// IsZero reports whether no logs were kept.
func (l RamdiskLogs) IsZero() bool { return l == RamdiskLogs{} }

// String names the peer and the file on it.
func (l RamdiskLogs) String() string { return l.Peer + ":" + l.Path }

// NoteLogs notes in its record where the logs of an introspection's ramdisk are. It is
// refused when the node has another introspection by then, or none.
type NoteLogs struct {
	Node  string        `cbor:"1,keyasint"`
	Begun fencing.Token `cbor:"2,keyasint"` // which introspection of the node
	Logs  RamdiskLogs   `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c NoteLogs) Validate() error {
	return errors.Join(valid.Node(c.Node), valid.Length("peer", c.Logs.Peer, 1, maxLogPlace),
		valid.Length("path", c.Logs.Path, 1, maxLogPlace))
}

// Apply implements entry.Change.
func (c NoteLogs) Apply(t Txn) entry.Result {
	rec, ok := t.nodes.records.Get([]byte(c.Node))
	if !ok || rec.Begun != c.Begun {
		return entry.Refuse(entry.Conflict, "node %s has another introspection by now, or none", c.Node)
	}
	rec.Logs = c.Logs
	t.nodes.records.Put([]byte(c.Node), rec)
	return entry.Done()
}
