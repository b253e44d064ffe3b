package fsm

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
)

// section is one table of the state as it stands in a snapshot and in the hash: its
// records in the order of keys. Indices are not written; load makes them again.
type section struct {
	tag  byte // never changes
	name string
	each func(*data) iter.Seq[any]
	load func(d *data, record []byte) error
	show func(View) any // what Dump shows; there are no secrets in it
}

// sectionOrder are the tags in the order of a snapshot and of the hash, which peers of
// all versions share. A new one is added at its end.
const sectionOrder = "CPLmsjkrenqcbTiIDyuxKvRpGOhVgSXAfZE"

// sections is all of the state, in that order.
var sections = func() []section {
	all := of(func(d domain) []section { return d.sections })
	slices.SortFunc(all, func(a, b section) int {
		return strings.IndexByte(sectionOrder, a.tag) - strings.IndexByte(sectionOrder, b.tag)
	})
	return all
}()

// shown lets Dump show something else than the records as they are.
func (s section) shown(show func(View) any) section {
	s.show = show
	return s
}

// single makes the section of one value.
func single[T any](tag byte, name string, at func(*data) *T) section {
	return section{
		tag: tag, name: name,
		each: func(d *data) iter.Seq[any] {
			return func(yield func(any) bool) { yield(*at(d)) }
		},
		load: func(d *data, record []byte) error { return unmarshal(record, at(d)) },
		show: func(v View) any { return *at(v.d) },
	}
}

// seldom makes the section of one value that is not written while it is zero:
// peers of older log versions do not know it.
func seldom[T interface{ IsZero() bool }](tag byte, name string, at func(*data) *T) section {
	s := single(tag, name, at)
	s.each = func(d *data) iter.Seq[any] {
		return func(yield func(any) bool) {
			if value := *at(d); !value.IsZero() {
				yield(value)
			}
		}
	}
	return s
}

// many makes the section of a table.
func many[T any](tag byte, name string, of func(*data) table[T], put func(*data, T)) section {
	return section{
		tag: tag, name: name,
		each: func(d *data) iter.Seq[any] {
			return func(yield func(any) bool) {
				for _, value := range of(d).all() {
					if !yield(value) {
						return
					}
				}
			}
		},
		load: func(d *data, record []byte) error {
			var value T
			if err := unmarshal(record, &value); err != nil {
				return err
			}
			put(d, value)
			return nil
		},
		show: func(v View) any { return values(of(v.d).all()) },
	}
}

// records iterates over the whole state as it is written: tag, length in four
// bytes, CBOR. What it yields is good until the next step.
func (d *data) records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var buf []byte
		for i := range sections {
			for value := range sections[i].each(d) {
				body := marshal(value)
				buf = append(buf[:0], sections[i].tag)
				buf = binary.BigEndian.AppendUint32(buf, uint32(len(body)))
				buf = append(buf, body...)
				if !yield(buf) {
					return
				}
			}
		}
	}
}

func sectionOf(tag byte) (section, bool) {
	for i := range sections {
		if sections[i].tag == tag {
			return sections[i], true
		}
	}
	return section{}, false
}
