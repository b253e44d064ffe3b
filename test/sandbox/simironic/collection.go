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

// collection keeps items by UUID and in the order of their creation, which is the
// order of lists.
type collection[T item] struct {
	byID  map[string]T
	items []T
	next  int // order of the next item
}

func newCollection[T item]() collection[T] { return collection[T]{byID: make(map[string]T)} }

// reserve returns the place of a new item.
func (c *collection[T]) reserve() int {
	c.next++
	return c.next
}

func (c *collection[T]) add(v T) {
	c.byID[v.id()] = v
	c.items = append(c.items, v)
}

func (c *collection[T]) remove(v T) {
	delete(c.byID, v.id())
	if i, ok := c.find(v.order()); ok {
		c.items = slices.Delete(c.items, i, i+1)
	}
}

func (c *collection[T]) find(order int) (int, bool) {
	return slices.BinarySearchFunc(c.items, order, func(v T, order int) int { return cmp.Compare(v.order(), order) })
}

// after returns the items that follow v.
func (c *collection[T]) after(v T) []T {
	i, ok := c.find(v.order())
	if ok {
		i++
	}
	return c.items[i:]
}
