package leases

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of values.
const (
	// MaxValues is the greatest number of values.
	MaxValues = 10_000
	// MaxValue is the greatest length of one value, in bytes.
	MaxValue = 64 << 10
	// MaxValueBytes is the greatest length of all values together: every peer
	// holds them in memory, and every snapshot.
	MaxValueBytes = 16 << 20

	maxValueKey = 512
)

// Value is what another program keeps here, written under a lease or by
// comparing versions.
type Value struct {
	Key  string `cbor:"1,keyasint"`
	Data []byte `cbor:"2,keyasint"` // shared, must not be changed
	// Version is the token of the entry that wrote it: it rises with every write,
	// and never comes twice, also after a deletion.
	Version fencing.Token `cbor:"3,keyasint"`
	// Lease and Token are what it was written under; empty: it was compared alone.
	Lease string        `cbor:"4,keyasint,omitempty"`
	Token fencing.Token `cbor:"5,keyasint,omitempty"`
}

// valueStore holds the values and counts their bytes.
type valueStore struct {
	byKey table.Of[Value]
	bytes int
}

func (s *valueStore) put(v Value) {
	s.drop(v.Key)
	s.byKey.Put([]byte(v.Key), v)
	s.bytes += len(v.Data)
}

func (s *valueStore) drop(key string) {
	if old, ok := s.byKey.Get([]byte(key)); ok {
		s.byKey.Drop([]byte(key))
		s.bytes -= len(old.Data)
	}
}

// Condition is what must hold when a value is written or deleted: a lease that is
// held under a token, the value's version, or both. Without either no program may
// write: a program that has lost its lease would not be noticed.
type Condition struct {
	Lease string        `cbor:"1,keyasint,omitempty"`
	Token fencing.Token `cbor:"2,keyasint,omitempty"`
	// Compare says that Version counts; version 0: there must be no such value.
	Compare bool          `cbor:"3,keyasint,omitempty"`
	Version fencing.Token `cbor:"4,keyasint,omitempty"`
}

func (c Condition) validate() error {
	switch {
	case c.Lease == "" && !c.Compare:
		return errors.New("a write names the lease it is made under, or the version it replaces")
	case c.Lease == "" && c.Token != 0:
		return fmt.Errorf("token %v belongs to no lease", c.Token)
	case c.Lease != "" && c.Token.IsZero():
		return fmt.Errorf("lease %s without its token", c.Lease)
	case !c.Compare && c.Version != 0:
		return fmt.Errorf("version %v is not compared", c.Version)
	case c.Lease != "":
		return validLeaseName(c.Lease)
	}
	return nil
}

// fails returns nil if the condition holds for a value, and else why not.
func (t Txn) fails(c Condition, key string) *entry.Result {
	if c.Lease != "" {
		if res := t.holds(guard{c.Lease, c.Token}); res != nil {
			return res
		}
	}
	if !c.Compare {
		return nil
	}
	v, known := t.values.byKey.Get([]byte(key))
	if v.Version == c.Version {
		return nil
	}
	res := entry.Refuse(entry.Fenced, "%s has version %v, not %v", key, v.Version, c.Version)
	switch {
	case !known:
		res = entry.Refuse(entry.Fenced, "%s does not exist", key)
	case c.Version == 0:
		res = entry.Refuse(entry.Fenced, "%s exists with version %v", key, v.Version)
	}
	return &res
}

// PutValue writes a value. Its Value is the Value as stored, without its data.
type PutValue struct {
	Key  string    `cbor:"1,keyasint"`
	Data []byte    `cbor:"2,keyasint"`
	If   Condition `cbor:"3,keyasint"`
}

// Validate implements Command.
func (c PutValue) Validate() error {
	if err := validValueKey(c.Key); err != nil {
		return err
	}
	if len(c.Data) > MaxValue {
		return fmt.Errorf("value %s has %d bytes, allowed are %d", c.Key, len(c.Data), MaxValue)
	}
	return c.If.validate()
}

// validValueKey accepts what stands in one segment of a URL's path as it is.
func validValueKey(key string) error {
	return valid.Word("key", key, 1, maxValueKey, func(b byte) bool {
		return isAlnum(b) || 'A' <= b && b <= 'Z' || b == '-' || b == '.' || b == '_' || b == ':'
	})
}

// Apply implements entry.Change.
func (c PutValue) Apply(t Txn) entry.Result {
	if res := t.fails(c.If, c.Key); res != nil {
		return *res
	}
	old, known := t.values.byKey.Get([]byte(c.Key))
	switch {
	case !known && t.values.byKey.Size() >= MaxValues:
		return entry.Refuse(entry.TableFull, "%d values exist, which is the most; delete one", MaxValues)
	case t.values.bytes-len(old.Data)+len(c.Data) > MaxValueBytes:
		return entry.Refuse(entry.TableFull, "the values would have more than %d bytes together; delete one", MaxValueBytes)
	}
	v := Value{Key: c.Key, Data: c.Data, Version: t.Token, Lease: c.If.Lease, Token: c.If.Token}
	t.values.put(v)
	v.Data = nil
	return entry.Answer(v)
}

// DeleteValue removes a value.
type DeleteValue struct {
	Key string    `cbor:"1,keyasint"`
	If  Condition `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c DeleteValue) Validate() error {
	return cmp.Or(validValueKey(c.Key), c.If.validate())
}

// Apply implements entry.Change.
func (c DeleteValue) Apply(t Txn) entry.Result {
	if res := t.fails(c.If, c.Key); res != nil {
		return *res
	}
	if !t.values.byKey.Has([]byte(c.Key)) {
		return entry.Refuse(entry.NotFound, "%s does not exist", c.Key)
	}
	t.values.drop(c.Key)
	return entry.Done()
}

// Value returns a value by its key.
func (s *Tables) Value(key string) (Value, bool) { return s.values.byKey.Get([]byte(key)) }

// Values iterates in order over the values whose keys begin with prefix.
func (s *Tables) Values(prefix string) iter.Seq[Value] {
	return table.Values(s.values.byKey.Under([]byte(prefix)))
}

// ValuesAfter is Values for those whose keys come after another key.
func (s *Tables) ValuesAfter(prefix, after string) iter.Seq[Value] {
	return table.Values(s.values.byKey.UnderFrom([]byte(prefix), table.JustAfter(after)))
}

// dumpedValue leaves out what others keep here: it is theirs to show.
type dumpedValue struct {
	Key     string        `json:"key"`
	Version fencing.Token `json:"version"`
	Lease   string        `json:"lease,omitempty"`
	Bytes   int           `json:"bytes"`
}

func (v Value) shown() any {
	return dumpedValue{Key: v.Key, Version: v.Version, Lease: v.Lease, Bytes: len(v.Data)}
}
