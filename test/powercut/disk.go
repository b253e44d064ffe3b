package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// disk is the files below a folder: as the processes saw them, and as they are on the disk at
// least.
type disk struct {
	root    string
	top     *node
	seq     int              // of the newest change
	renames []*rename        // of names, the oldest first, of which some may not be on the disk
	offsets map[string]int64 // where the next write goes, by recording, descriptor and path
	inodes  int
}

// node is a file or a directory.
type node struct {
	number int
	names  map[string]*node // of a directory as it is seen; nil: a file
	stored map[string]*node // of a directory, on the disk
	text   []byte           // of a file as it is seen
	synced []byte           // of a file, on the disk
	writes []write          // of a file, that may not be on the disk, the oldest first
}

// write changes bytes of a file, or, without any, its length.
type write struct {
	seq  int
	at   int64
	data []byte
}

// rename changes names, all or none of them: it makes, removes or moves one.
type rename struct {
	seq    int
	synced bool // it is on the disk
	set    []name
}

// name is one in a directory, and what it stands for; nil: nothing.
type name struct {
	in    *node
	name  string
	stand *node
}

// newDisk returns what is below a folder now, all of which is on the disk.
func newDisk(root string) (*disk, error) {
	d := &disk{root: root, offsets: make(map[string]int64)}
	d.top = d.node(true)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if path == root && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || path == root || !d.covers(path) || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		in, base, _ := d.find(path)
		n := d.node(e.IsDir())
		in.names[base], in.stored[base] = n, n
		if !e.IsDir() {
			if n.text, err = os.ReadFile(path); err != nil {
				return err
			}
			n.synced = bytes.Clone(n.text)
		}
		return nil
	})
	return d, err
}

func (d *disk) node(dir bool) *node {
	d.inodes++
	n := &node{number: d.inodes}
	if dir {
		n.names, n.stored = make(map[string]*node), make(map[string]*node)
	}
	return n
}

// covers reports whether a path is of the disk. Sockets, and what the harness itself writes of
// a process, are not.
func (d *disk) covers(path string) bool {
	rel, below := strings.CutPrefix(path, d.root+"/")
	first, _, deeper := strings.Cut(rel, "/")
	return below && (deeper || !strings.HasSuffix(first, ".sock") && !strings.HasSuffix(first, ".log"))
}

// find returns the directory that a path is in, which may be nil, its last name, and what it
// stands for.
func (d *disk) find(path string) (in *node, base string, found *node) {
	if path == d.root {
		return nil, "", d.top
	}
	in = d.top
	parts := strings.Split(strings.TrimPrefix(path, d.root+"/"), "/")
	for _, part := range parts[:len(parts)-1] {
		if in == nil {
			return nil, "", nil
		}
		in = in.names[part]
	}
	base = parts[len(parts)-1]
	if in == nil || in.names == nil {
		return nil, base, nil
	}
	return in, base, in.names[base]
}

// rename gives names what they stand for from now on.
func (d *disk) rename(set ...name) {
	d.seq++
	for _, n := range set {
		if n.stand == nil {
			delete(n.in.names, n.name)
		} else {
			n.in.names[n.name] = n.stand
		}
	}
	d.renames = append(d.renames, &rename{seq: d.seq, set: set})
}

// write writes to a file, or, without bytes, gives it a length.
func (d *disk) write(n *node, w write) {
	d.seq++
	w.seq = d.seq
	n.text = w.on(n.text)
	n.writes = append(n.writes, w)
}

// on returns a text after the write.
func (w write) on(text []byte) []byte {
	if w.data == nil {
		return resized(text, w.at)
	}
	text = resized(text, max(int64(len(text)), w.at+int64(len(w.data))))
	copy(text[w.at:], w.data)
	return text
}

// resized cuts a text off or fills it up with zeros.
func resized(text []byte, size int64) []byte {
	if size <= int64(len(text)) {
		return text[:size:size] // what is appended is no remainder
	}
	if size <= int64(cap(text)) {
		return text[:size]
	}
	out := make([]byte, size, size+size/4)
	copy(out, text)
	return out[:size:cap(out)]
}

// sync has on the disk what was changed before a moment.
func (d *disk) sync(n *node, before int) {
	if n.names == nil {
		for len(n.writes) > 0 && n.writes[0].seq <= before {
			n.synced = n.writes[0].on(n.synced)
			n.writes = n.writes[1:]
		}
		return
	}
	for _, r := range d.renames {
		for _, s := range r.set {
			r.synced = r.synced || s.in == n && r.seq <= before
		}
	}
	for len(d.renames) > 0 && d.renames[0].synced {
		for _, s := range d.renames[0].set {
			s.store(s.in.stored)
		}
		d.renames = d.renames[1:]
	}
}

func (n name) store(to map[string]*node) {
	if n.stand == nil {
		delete(to, n.name)
	} else {
		to[n.name] = n.stand
	}
}

// tree is files by their path; a path that ends with / is a directory.
type tree map[string][]byte

// seen returns what the processes see.
func (d *disk) seen() tree {
	out := make(tree)
	d.walk(out, d.top, "", func(n *node) map[string]*node { return n.names }, func(n *node) []byte { return n.text })
	return out
}

func (d *disk) walk(out tree, n *node, path string, names func(*node) map[string]*node, text func(*node) []byte) {
	if n.names == nil {
		out[path] = text(n)
		return
	}
	out[path+"/"] = nil
	for base, below := range names(n) { // order-free: a map of paths
		d.walk(out, below, path+"/"+base, names, text)
	}
}

// Write makes the files below a folder. Zeros at the end of one take no room.
func (f tree) Write(dir string) error {
	for path, text := range f { // order-free: files
		to := filepath.Join(dir, path)
		if strings.HasSuffix(path, "/") {
			if err := os.MkdirAll(to, 0o700); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		end := len(bytes.TrimRight(text, "\x00"))
		if err := os.WriteFile(to, text[:end], 0o600); err != nil {
			return err
		}
		if err := os.Truncate(to, int64(len(text))); err != nil {
			return err
		}
	}
	return nil
}

// differs says where what the processes saw last is not what is there: then something was
// done that was not recorded.
func (d *disk) differs() error {
	is, err := newDisk(d.root)
	if err != nil {
		return err
	}
	there, seen := is.seen(), d.seen()
	for path, text := range there { // order-free: any difference will do
		if was, ok := seen[path]; !ok || !bytes.Equal(was, text) {
			return fmt.Errorf("%s is not as it was recorded: %d bytes, recorded (%v) %d", path, len(text), ok, len(was))
		}
	}
	for path := range seen { // order-free: any difference will do
		if _, ok := there[path]; !ok {
			return fmt.Errorf("%s was recorded, and is not there", path)
		}
	}
	return nil
}
