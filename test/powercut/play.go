package powercut

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// errUnmodelled says that a process did to its files what disk does not know.
var errUnmodelled = errors.New("cannot be replayed")

// play does what a process did, and says whether a power cut may leave something else from
// now on. A change takes effect when its call ends, and a sync covers what had ended before it began.
func (d *disk) play(m moment) (changed bool, err error) {
	before := d.seq
	switch {
	case !m.end:
		m.seq = d.seq
		return false, nil
	case m.failed:
		return false, nil
	}
	synced := false
	switch m.name {
	case "open", "openat", "creat":
		err = d.open(m)
	case "lseek", "write", "pwrite64", "ftruncate", "fallocate", "fsync", "fdatasync":
		synced, err = d.file(m)
	case "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "link", "linkat":
		err = d.name(m)
	case "mmap":
		err = d.mapped(m)
	default:
		err = d.foreign(m)
	}
	if err != nil {
		return false, fmt.Errorf("%s(%.100q): %w", m.name, m.args, err)
	}
	return synced || d.seq != before, nil
}

// path returns the path that arguments name, relative to a directory if the call takes one.
func (d *disk) path(m moment, n int, at bool) (path string, err error) {
	dir := ""
	if at {
		if _, dir, err = m.descriptor(n); err != nil {
			return "", err
		}
		n++
	}
	if path, err = m.quoted(n); err != nil || filepath.IsAbs(path) {
		return filepath.Clean(path), err
	}
	return filepath.Join(dir, path), nil
}

func (d *disk) open(m moment) error {
	flags := strings.Join(m.args, " ")
	path, err := d.path(m, 0, m.name == "openat")
	if err != nil || !d.covers(path) || m.opened != path { // of another name: without one, or not of this disk
		return err
	}
	in, base, n := d.find(path)
	switch {
	case strings.Contains(flags, "O_APPEND"):
		return fmt.Errorf("%w: O_APPEND", errUnmodelled)
	case in == nil:
		return fmt.Errorf("%w: its directory is not known", errUnmodelled)
	case n == nil && !strings.Contains(flags, "O_CREAT") && m.name != "creat":
		return fmt.Errorf("%w: the file is not known", errUnmodelled)
	case n == nil:
		n = d.node(false)
		d.rename(name{in, base, n})
	case strings.Contains(flags, "O_TRUNC") && len(n.text) > 0:
		d.write(n, write{at: 0})
	}
	d.offsets[place(m, fmt.Sprint(m.ret), path)] = 0
	return nil
}

func place(m moment, fd, path string) string { return m.trace + " " + fd + " " + path }

// file does what a call does to an open file.
func (d *disk) file(m moment) (synced bool, err error) {
	fd, path, err := m.descriptor(0)
	if err != nil || path == "" || path != d.root && !d.covers(path) {
		return false, err
	}
	_, _, n := d.find(path)
	if n == nil {
		return false, fmt.Errorf("%w: %s is not known", errUnmodelled, path)
	}
	switch at := place(m, fd, path); m.name {
	case "lseek":
		d.offsets[at] = m.ret
	case "fsync", "fdatasync":
		d.sync(n, m.seq)
		return true, nil
	case "write":
		begin, ok := d.offsets[at]
		if !ok {
			return false, fmt.Errorf("%w: where %s is written is not known", errUnmodelled, path)
		}
		d.offsets[at] = begin + m.ret
		return false, d.written(m, n, begin)
	case "pwrite64":
		begin, err := m.number(3)
		if err != nil {
			return false, err
		}
		return false, d.written(m, n, begin)
	case "ftruncate":
		size, err := m.number(1)
		if err != nil {
			return false, err
		}
		d.write(n, write{at: size})
	case "fallocate":
		from, err := m.number(2)
		size, err2 := m.number(3)
		if err := errors.Join(err, err2); err != nil || m.args[1] != "0" {
			return false, fmt.Errorf("%w: mode %s: %v", errUnmodelled, m.args[1], err)
		}
		if from+size > int64(len(n.text)) {
			d.write(n, write{at: from + size})
		}
	}
	return false, nil
}

func (d *disk) written(m moment, n *node, at int64) error {
	data, err := m.quoted(1)
	if err == nil && m.ret > 0 {
		d.write(n, write{at: at, data: []byte(data[:m.ret])})
	}
	return err
}

// name does what a call does to names.
func (d *disk) name(m moment) error {
	at := strings.HasSuffix(m.name, "at") || m.name == "renameat2"
	from, err := d.path(m, 0, at)
	if err != nil || !d.covers(from) {
		return err
	}
	in, base, n := d.find(from)
	if in == nil {
		return fmt.Errorf("%w: the directory of %s is not known", errUnmodelled, from)
	}
	switch {
	case strings.HasPrefix(m.name, "mkdir"):
		d.rename(name{in, base, d.node(true)})
		return nil
	case n == nil:
		return fmt.Errorf("%w: %s is not known", errUnmodelled, from)
	case strings.HasPrefix(m.name, "unlink") || m.name == "rmdir":
		d.rename(name{in, base, nil})
		return nil
	}
	second := 1
	if at {
		second = 2
	}
	to, err := d.path(m, second, at)
	if err != nil {
		return err
	}
	into, as, _ := d.find(to)
	if into == nil || !d.covers(to) {
		return fmt.Errorf("%w: the directory of %s is not known", errUnmodelled, to)
	}
	if strings.HasPrefix(m.name, "link") {
		d.rename(name{into, as, n})
		return nil
	}
	d.rename(name{in, base, nil}, name{into, as, n})
	return nil
}

// mapped refuses a file that is written through memory.
func (d *disk) mapped(m moment) error {
	if len(m.args) < 5 || !strings.Contains(m.args[3], "MAP_SHARED") || !strings.Contains(m.args[2], "PROT_WRITE") {
		return nil
	}
	return d.foreign(m)
}

// foreign refuses a call that disk does not know, if it is one to its files.
func (d *disk) foreign(m moment) error {
	for n := range m.args {
		for _, at := range []bool{false, true} {
			path, err := d.path(m, n, at)
			if err == nil && d.covers(path) {
				return fmt.Errorf("%w: %s", errUnmodelled, path)
			}
		}
		if _, path, err := m.descriptor(n); err == nil && d.covers(path) {
			return fmt.Errorf("%w: %s", errUnmodelled, path)
		}
	}
	return nil
}
