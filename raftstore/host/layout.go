package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The layout of bbolt's file, version 2, in the byte order of the host. A page begins with its
// number, kind, count of elements and count of the pages that continue it; the elements
// follow, each with the place of its key relative to itself, and then keys and values without gaps.
const (
	pageHeader    = 16
	metaLen       = 64 // behind the page header, with its checksum at the end
	elementLen    = 16
	bucketHeader  = 16
	kindBranch    = 1
	kindLeaf      = 2
	elementBucket = 1 // flag of a leaf's element
)

// checkLayout finds what bbolt cannot tell from a log that is shorter: of the two meta pages it takes
// the older one where the newer is damaged, and of a page whose count has changed the first
// elements. A crash leaves neither: a meta page lies in one sector, and a page is whole before a
// meta page refers to it. bbolt's own Check finds neither, and panics on a damaged page where no
// caller can recover.
func checkLayout(f io.ReaderAt, length int64) error {
	var roots [2]struct{ page, transaction uint64 }
	size := int64(0)
	for n := range roots {
		text := make([]byte, pageHeader+metaLen)
		if _, err := f.ReadAt(text, int64(n)*size); err != nil {
			return fmt.Errorf("read meta page %d: %w", n, err)
		}
		meta := text[pageHeader:]
		sum := fnv.New64a()
		sum.Write(meta[:metaLen-8]) // a hash never fails
		if binary.NativeEndian.Uint64(meta[metaLen-8:]) != sum.Sum64() {
			return fmt.Errorf("meta page %d is not as it was written: what was acknowledged last may be missing", n)
		}
		size = int64(binary.NativeEndian.Uint32(meta[8:]))
		roots[n].page, roots[n].transaction = binary.NativeEndian.Uint64(meta[16:]), binary.NativeEndian.Uint64(meta[48:])
	}
	newest := roots[0]
	if roots[1].transaction > newest.transaction {
		newest = roots[1]
	}
	return pages{f, size, uint64(length / size), make(map[uint64]bool)}.check(child{page: newest.page})
}

// pages are those of a file.
type pages struct {
	file  io.ReaderAt
	size  int64
	count uint64
	used  map[uint64]bool
}

// child is a page with the keys that may stand in it: from least, and before end where
// that is not nil.
type child struct {
	page       uint64
	least, end []byte
}

// check checks a page and those below it. No page is used twice, so that this ends.
func (p pages) check(c child) error {
	number := c.page
	if number >= p.count {
		return fmt.Errorf("page %d is behind the end of the file", number)
	}
	header := make([]byte, pageHeader)
	if _, err := p.file.ReadAt(header, int64(number)*p.size); err != nil {
		return fmt.Errorf("read page %d: %w", number, err)
	}
	if binary.NativeEndian.Uint64(header) != number {
		return fmt.Errorf("page %d says that it is page %d", number, binary.NativeEndian.Uint64(header))
	}
	more := uint64(binary.NativeEndian.Uint32(header[12:]))
	if number+more >= p.count {
		return fmt.Errorf("page %d ends behind the end of the file", number)
	}
	for n := range more + 1 {
		if p.used[number+n] {
			return fmt.Errorf("page %d is used twice", number+n)
		}
		p.used[number+n] = true
	}
	text := make([]byte, p.size*int64(more+1))
	if n, err := p.file.ReadAt(text, int64(number)*p.size); err != nil && n < len(text) {
		return fmt.Errorf("read page %d: %w", number, err)
	}
	below, err := checkPage(text, c)
	if err != nil {
		return fmt.Errorf("page %d is not as it was written: %w", number, err)
	}
	for _, next := range below {
		if err := p.check(next); err != nil {
			return err
		}
	}
	return nil
}

// checkPage checks that the elements lie as they are written, in the order of their keys, and
// returns the pages that they lead to.
func checkPage(text []byte, c child) (below []child, err error) {
	kind, count := binary.NativeEndian.Uint16(text[8:]), int(binary.NativeEndian.Uint16(text[10:]))
	if kind != kindBranch && kind != kindLeaf {
		return nil, fmt.Errorf("its kind is %d", kind)
	}
	if count == 0 && len(bytes.Trim(text[pageHeader:], "\x00")) > 0 { // an empty one is zeros
		return nil, errors.New("it has no elements, and is not empty")
	}
	next, before := pageHeader+count*elementLen, c.least // where the next key is to begin, and the one before it
	for i := range count {
		e, ok := elementAt(text, i, next, kind)
		if !ok {
			return nil, fmt.Errorf("element %d of %d does not follow the one before it", i, count)
		}
		next += len(e.key) + len(e.value)
		order := bytes.Compare(before, e.key)
		if order > 0 || order == 0 && i > 0 || c.end != nil && bytes.Compare(e.key, c.end) >= 0 {
			return nil, fmt.Errorf("the key of element %d of %d is out of order", i, count)
		}
		before = e.key
		switch {
		case kind == kindBranch:
			if i > 0 {
				below[i-1].end = e.key
			}
			below = append(below, child{e.page, e.key, c.end})
		case e.bucket:
			inner, err := checkBucket(e.value)
			if err != nil {
				return nil, err
			}
			below = append(below, inner...)
		}
	}
	return below, nil
}

// element is one of a page.
type element struct {
	key, value []byte
	page       uint64 // of a branch
	bucket     bool   // of a leaf
}

// elementAt returns an element whose key is to begin at a place; ok says that it does, and ends
// within the page.
func elementAt(text []byte, i, begin int, kind uint16) (e element, ok bool) {
	at := pageHeader + i*elementLen
	if at+elementLen > len(text) {
		return e, false
	}
	head, value := text[at:at+elementLen], 0
	if kind == kindBranch {
		e.page = binary.NativeEndian.Uint64(head[8:])
	} else {
		flags := binary.NativeEndian.Uint32(head)
		if e.bucket = flags == elementBucket; !e.bucket && flags != 0 {
			return e, false
		}
		head, value = head[4:], int(binary.NativeEndian.Uint32(head[12:]))
	}
	place, key := int(binary.NativeEndian.Uint32(head)), int(binary.NativeEndian.Uint32(head[4:]))
	if at+place != begin || begin+key+value > len(text) {
		return e, false
	}
	e.key, e.value = text[begin:begin+key], text[begin+key:begin+key+value]
	return e, true
}

// checkBucket checks the header of a bucket, and its page if that stands behind it. raft-boltdb
// does not count in a bucket.
func checkBucket(value []byte) ([]child, error) {
	if len(value) < bucketHeader || binary.NativeEndian.Uint64(value[8:]) != 0 {
		return nil, fmt.Errorf("a bucket of %d bytes has no header of raft-boltdb", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return []child{{page: root}}, nil
	}
	if len(value) < bucketHeader+pageHeader {
		return nil, fmt.Errorf("a bucket of %d bytes has no page", len(value))
	}
	return checkPage(value[bucketHeader:], child{})
}
