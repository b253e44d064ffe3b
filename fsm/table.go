package fsm

import (
	"encoding/binary"
	"iter"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/trivet-ha/trivet/fencing"
)

// table is an ordered map whose copies are free: a change makes a new tree
// that shares what did not change, so that a reader keeps what it holds.
type table[T any] struct{ tree *iradix.Tree[T] }

// none is the value of tables that are only an order of keys.
type none struct{}

func newTable[T any]() table[T] { return table[T]{iradix.New[T]()} }

func (t table[T]) size() int { return t.tree.Len() }

func (t table[T]) get(key []byte) (T, bool) { return t.tree.Get(key) }

func (t table[T]) has(key []byte) bool {
	_, ok := t.tree.Get(key)
	return ok
}

// put changes this table, not the copies taken of it before. So does drop.
func (t *table[T]) put(key []byte, value T) { t.tree, _, _ = t.tree.Insert(key, value) }

func (t *table[T]) drop(key []byte) { t.tree, _, _ = t.tree.Delete(key) }

// dropAll drops many keys at once, which copies each part of the tree once
// instead of once a key.
func (t *table[T]) dropAll(keys [][]byte) {
	txn := t.tree.Txn()
	for _, key := range keys {
		txn.Delete(key)
	}
	t.tree = txn.CommitOnly()
}

// first returns the lowest key.
func (t table[T]) first() ([]byte, T, bool) { return t.tree.Root().Minimum() }

// all iterates in the order of keys over the table as it is now; the loop may
// change the table.
func (t table[T]) all() iter.Seq2[[]byte, T] { return t.under(nil) }

// under iterates in order over the keys that begin with prefix.
func (t table[T]) under(prefix []byte) iter.Seq2[[]byte, T] {
	return func(yield func([]byte, T) bool) {
		it := t.tree.Root().Iterator()
		it.SeekPrefix(prefix)
		for key, value, ok := it.Next(); ok; key, value, ok = it.Next() {
			if !yield(key, value) {
				return
			}
		}
	}
}

// descending iterates from the greatest key below bound downwards; from the
// end if bound is nil.
func (t table[T]) descending(bound []byte) iter.Seq2[[]byte, T] {
	return func(yield func([]byte, T) bool) {
		it := t.tree.Root().ReverseIterator()
		if bound != nil {
			it.SeekReverseLowerBound(bound)
		}
		for key, value, ok := it.Previous(); ok; key, value, ok = it.Previous() {
			if bound != nil && string(key) == string(bound) {
				continue
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// values collects what a sequence yields, in order.
func values[T any](seq iter.Seq2[[]byte, T]) []T {
	var out []T
	for _, value := range seq {
		out = append(out, value)
	}
	return out
}

// Keys are big endian, so that their order is that of the numbers.

func key64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func tokenKey(t fencing.Token) []byte { return key64(uint64(t)) }

func timeKey(t Time, id ...byte) []byte { return append(key64(uint64(t)), id...) }

// pairKey orders by a token, then by whatever else.
func pairKey(t fencing.Token, id ...byte) []byte { return append(tokenKey(t), id...) }

// nodeKey orders by a node, then by a token. Node names have one length.
func nodeKey(node string, t fencing.Token) []byte {
	return binary.BigEndian.AppendUint64([]byte(node), uint64(t))
}

// tailToken reads the token that a key ends with.
func tailToken(key []byte) fencing.Token {
	return fencing.Token(binary.BigEndian.Uint64(key[len(key)-8:]))
}
