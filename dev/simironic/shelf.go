package simironic

import (
	"cmp"
	"slices"
)

// item is something with a UUID and a place in the order of creation.
type item interface {
	id() string
	order() int
}

// shelf keeps items by UUID and in the order of their creation, which is the
// order of lists.
type shelf[T item] struct {
	byID  map[string]T
	items []T
	next  int // order of the next item
}

func newShelf[T item]() shelf[T] { return shelf[T]{byID: make(map[string]T)} }

// reserve returns the place of a new item.
func (s *shelf[T]) reserve() int {
	s.next++
	return s.next
}

func (s *shelf[T]) add(v T) {
	s.byID[v.id()] = v
	s.items = append(s.items, v)
}

func (s *shelf[T]) remove(v T) {
	delete(s.byID, v.id())
	if i, ok := s.find(v.order()); ok {
		s.items = slices.Delete(s.items, i, i+1)
	}
}

func (s *shelf[T]) find(order int) (int, bool) {
	return slices.BinarySearchFunc(s.items, order, func(v T, order int) int { return cmp.Compare(v.order(), order) })
}

// after returns the items that follow v.
func (s *shelf[T]) after(v T) []T {
	i, ok := s.find(v.order())
	if ok {
		i++
	}
	return s.items[i:]
}
