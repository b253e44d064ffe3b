package simtest

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/hashicorp/raft"
)

// content is what is on a disk. Entries, values and snapshots are immutable
// once they are in it, so that a clone is cheap.
type content struct {
	logs      []*raft.Log // by index; may have gaps, as bolt may
	values    map[string][]byte
	snapshots []*snapshot // newest first
}

func newContent() *content { return &content{values: make(map[string][]byte)} }

func (c *content) clone() *content {
	return &content{
		logs:      slices.Clone(c.logs),
		values:    maps.Clone(c.values),
		snapshots: slices.Clone(c.snapshots),
	}
}

// find returns the place of an index, and whether there is an entry.
func (c *content) find(index uint64) (int, bool) {
	return slices.BinarySearchFunc(c.logs, index, func(e *raft.Log, i uint64) int {
		return cmp.Compare(e.Index, i)
	})
}

// put adds an entry, or replaces the one of its index.
func (c *content) put(e *raft.Log) {
	if n := len(c.logs); n == 0 || c.logs[n-1].Index < e.Index {
		c.logs = append(c.logs, e)
		return
	}
	i, found := c.find(e.Index)
	if found {
		c.logs[i] = e
		return
	}
	c.logs = slices.Insert(c.logs, i, e)
}

// remove drops the entries of the indexes first to last, both included.
func (c *content) remove(first, last uint64) {
	from, _ := c.find(first)
	to, found := c.find(last)
	if found {
		to++
	}
	if from < to {
		c.logs = slices.Delete(c.logs, from, to)
	}
}

// snapshot is one complete snapshot.
type snapshot struct {
	meta raft.SnapshotMeta
	data []byte
}

// keep adds a snapshot and drops all but the newest two, as raft's file store does.
func (c *content) keep(s *snapshot) {
	c.snapshots = append(slices.Clone(c.snapshots), s)
	slices.SortStableFunc(c.snapshots, func(a, b *snapshot) int {
		return cmp.Or(cmp.Compare(b.meta.Term, a.meta.Term), cmp.Compare(b.meta.Index, a.meta.Index),
			cmp.Compare(b.meta.ID, a.meta.ID))
	})
	c.snapshots = c.snapshots[:min(len(c.snapshots), retainedSnapshots)]
}

func (c *content) value(key []byte) ([]byte, bool) {
	v, found := c.values[string(key)]
	return bytes.Clone(v), found
}
