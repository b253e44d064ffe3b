// Package table is what all replicated records stand in: ordered maps whose copies share
// what did not change.
package table

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/benbjohnson/immutable"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// Of is an ordered map whose copies are free: a change makes a new tree that
// shares what did not change, so that a reader keeps what it holds. It is a B-tree:
// a radix tree with watch channels, which have no use here, costs three times as
// much for each change. It holds pointers, to values that never change, because a
// change copies a leaf of 32 of them. The zero value is an empty one.
type Of[T any] struct {
	tree *immutable.SortedMap[[]byte, *T] // nil: nothing was put yet
}

// None is the value of tables that are only an order of keys.
type None struct{}

// byBytes orders keys.
type byBytes struct{}

// Compare implements immutable.Comparer.
func (byBytes) Compare(a, b []byte) int { return bytes.Compare(a, b) }

// sorted returns the tree, an empty one where there is none yet.
func (t Of[T]) sorted() *immutable.SortedMap[[]byte, *T] {
	if t.tree == nil {
		return immutable.NewSortedMap[[]byte, *T](byBytes{})
	}
	return t.tree
}

// Same says that nothing was put or dropped since one was a copy of the other. It may fail
// to say so of tables that were read from snapshots.
func (t Of[T]) Same(other Of[T]) bool { return t.tree == other.tree }

// Size returns how many keys there are.
func (t Of[T]) Size() int { return t.sorted().Len() }

// Get returns the value of a key.
func (t Of[T]) Get(key []byte) (value T, ok bool) {
	if at, ok := t.sorted().Get(key); ok {
		return *at, true
	}
	return value, false
}

// Has reports whether a key is there.
func (t Of[T]) Has(key []byte) bool {
	_, ok := t.sorted().Get(key)
	return ok
}

// Put changes this table, not the copies taken of it before. So does drop. The
// Of keeps the key: the caller never changes it after.
func (t *Of[T]) Put(key []byte, value T) { t.tree = t.sorted().Set(key, &value) }

// Drop removes a key, if it is there.
func (t *Of[T]) Drop(key []byte) {
	if t.tree != nil {
		t.tree = t.tree.Delete(key)
	}
}

// DropAll drops many keys.
func (t *Of[T]) DropAll(keys [][]byte) {
	for _, key := range keys {
		t.Drop(key)
	}
}

// First returns the lowest key.
func (t Of[T]) First() (key []byte, value T, ok bool) {
	key, at, ok := t.sorted().Iterator().Next()
	if ok {
		value = *at
	}
	return key, value, ok
}

// All iterates in the order of keys over the table as it is now; the loop may
// change the table.
func (t Of[T]) All() iter.Seq2[[]byte, T] { return t.Under(nil) }

// Under iterates in order over the keys that begin with prefix.
func (t Of[T]) Under(prefix []byte) iter.Seq2[[]byte, T] { return t.UnderFrom(prefix, nil) }

// UnderFrom is under for the keys that are not below bound.
func (t Of[T]) UnderFrom(prefix, bound []byte) iter.Seq2[[]byte, T] {
	first := prefix
	if bytes.Compare(bound, prefix) > 0 {
		first = bound
	}
	return func(yield func([]byte, T) bool) {
		it := t.sorted().Iterator()
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

// Descending iterates from the greatest key below bound downwards; from the
// end if bound is nil.
func (t Of[T]) Descending(bound []byte) iter.Seq2[[]byte, T] {
	return func(yield func([]byte, T) bool) {
		it := t.sorted().Iterator()
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

// From returns the lowest key that is not below bound.
func (t Of[T]) From(bound []byte) (key []byte, ok bool) {
	it := t.sorted().Iterator()
	if len(bound) > 0 {
		it.Seek(bound)
	}
	key, _, ok = it.Next()
	return key, ok
}

// JustAfter is the lowest key above another.
func JustAfter(key string) []byte { return append([]byte(key), 0) }

// Values leaves the keys of a sequence out.
func Values[T any](seq iter.Seq2[[]byte, T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, value := range seq {
			if !yield(value) {
				return
			}
		}
	}
}

// Named yields what a table of names has for the keys of another one, which orders them by
// something else: the name follows the first bytes of a key.
func Named[T any](order iter.Seq2[[]byte, None], first int, of Of[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for key := range order {
			value, _ := of.Get(key[first:])
			if !yield(value) {
				return
			}
		}
	}
}

// List collects what a sequence yields, in order.
func List[T any](seq iter.Seq2[[]byte, T]) []T { return slices.Collect(Values(seq)) }

// Map collects in order what a function makes of each value.
func Map[T, S any](t Of[T], show func(T) S) []S {
	out := make([]S, 0, t.Size())
	for _, value := range t.All() {
		out = append(out, show(value))
	}
	return out
}

// Keys are big endian, so that their order is that of the numbers.

// TokenKey orders by a token.
func TokenKey(t fencing.Token) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t)) }

// LongKey orders by a number, then by the rest.
func LongKey[T []byte | string](n uint64, rest T) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(rest)), n), rest...)
}

// PairKey orders by a token, then by the rest.
func PairKey(t fencing.Token, id ...byte) []byte { return LongKey(uint64(t), id) }

// NameKey orders by a node, then by a token. Node names have one length.
func NameKey(node string, t fencing.Token) []byte {
	return binary.BigEndian.AppendUint64([]byte(node), uint64(t))
}

// TailToken reads the token that a key ends with.
func TailToken(key []byte) fencing.Token {
	return fencing.Token(binary.BigEndian.Uint64(key[len(key)-8:]))
}
