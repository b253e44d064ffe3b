package fsm

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/benbjohnson/immutable"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// table is an ordered map whose copies are free: a change makes a new tree that
// shares what did not change, so that a reader keeps what it holds. It is a B-tree:
// a radix tree with watch channels, which have no use here, costs three times as
// much for each change. It holds pointers, to values that never change, because a
// change copies a leaf of 32 of them.
type table[T any] struct {
	tree *immutable.SortedMap[[]byte, *T]
}

// none is the value of tables that are only an order of keys.
type none struct{}

// byBytes orders keys.
type byBytes struct{}

// Compare implements immutable.Comparer.
func (byBytes) Compare(a, b []byte) int { return bytes.Compare(a, b) }

func newTable[T any]() table[T] { return table[T]{immutable.NewSortedMap[[]byte, *T](byBytes{})} }

func (t table[T]) size() int { return t.tree.Len() }

func (t table[T]) get(key []byte) (value T, ok bool) {
	if at, ok := t.tree.Get(key); ok {
		return *at, true
	}
	return value, false
}

func (t table[T]) has(key []byte) bool {
	_, ok := t.tree.Get(key)
	return ok
}

// put changes this table, not the copies taken of it before. So does drop. The
// table keeps the key: the caller never changes it after.
func (t *table[T]) put(key []byte, value T) { t.tree = t.tree.Set(key, &value) }

func (t *table[T]) drop(key []byte) { t.tree = t.tree.Delete(key) }

// dropAll drops many keys.
func (t *table[T]) dropAll(keys [][]byte) {
	for _, key := range keys {
		t.drop(key)
	}
}

// first returns the lowest key.
func (t table[T]) first() (key []byte, value T, ok bool) {
	key, at, ok := t.tree.Iterator().Next()
	if ok {
		value = *at
	}
	return key, value, ok
}

// all iterates in the order of keys over the table as it is now; the loop may
// change the table.
func (t table[T]) all() iter.Seq2[[]byte, T] { return t.under(nil) }

// under iterates in order over the keys that begin with prefix.
func (t table[T]) under(prefix []byte) iter.Seq2[[]byte, T] { return t.underFrom(prefix, nil) }

// underFrom is under for the keys that are not below bound.
func (t table[T]) underFrom(prefix, bound []byte) iter.Seq2[[]byte, T] {
	first := prefix
	if bytes.Compare(bound, prefix) > 0 {
		first = bound
	}
	return func(yield func([]byte, T) bool) {
		it := t.tree.Iterator()
		if len(first) > 0 {
			it.Seek(first)
		}
		for key, value, ok := it.Next(); ok && bytes.HasPrefix(key, prefix); key, value, ok = it.Next() {
			if !yield(key, *value) {
				return
			}
		}
	}
}

// descending iterates from the greatest key below bound downwards; from the
// end if bound is nil.
func (t table[T]) descending(bound []byte) iter.Seq2[[]byte, T] {
	return func(yield func([]byte, T) bool) {
		it := t.tree.Iterator()
		if bound != nil {
			it.Seek(bound)
		}
		if bound == nil || it.Done() {
			it.Last()
		}
		for key, value, ok := it.Prev(); ok; key, value, ok = it.Prev() {
			if bound != nil && bytes.Compare(key, bound) >= 0 {
				continue
			}
			if !yield(key, *value) {
				return
			}
		}
	}
}

// from returns the lowest key that is not below bound.
func (t table[T]) from(bound []byte) (key []byte, ok bool) {
	it := t.tree.Iterator()
	if len(bound) > 0 {
		it.Seek(bound)
	}
	key, _, ok = it.Next()
	return key, ok
}

// justAfter is the lowest key above another.
func justAfter(key string) []byte { return append([]byte(key), 0) }

// keyless leaves the keys of a sequence out.
func keyless[T any](seq iter.Seq2[[]byte, T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, value := range seq {
			if !yield(value) {
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

// longKey orders by a number, then by the rest.
func longKey[T []byte | string](n uint64, rest T) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(rest)), n), rest...)
}

// pairKey orders by a token, then by the rest.
func pairKey(t fencing.Token, id ...byte) []byte { return longKey(uint64(t), id) }

// nodeKey orders by a node, then by a token. Node names have one length.
func nodeKey(node string, t fencing.Token) []byte {
	return binary.BigEndian.AppendUint64([]byte(node), uint64(t))
}

// tailToken reads the token that a key ends with.
func tailToken(key []byte) fencing.Token {
	return fencing.Token(binary.BigEndian.Uint64(key[len(key)-8:]))
}
