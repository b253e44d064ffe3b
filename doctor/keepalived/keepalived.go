// Package keepalived finds the addresses that a configuration of keepalived
// lets a host take. It computes only: files are read through what the caller
// hands in.
package keepalived

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Bounds of one configuration; it is an error to be beyond them.
const (
	maxFiles = 64
	maxLines = 50_000
)

// Claim is an address that keepalived takes when it likes.
type Claim struct {
	File    string     `json:"file"`
	Line    int        `json:"line"` // from 1
	Address netip.Addr `json:"address"`
}

// Files are where the configuration is.
type Files interface {
	// Read returns what a file holds, within a bound of its own. A file that is
	// not there is fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// List returns the names in a directory.
	List(name string) ([]string, error)
}

// Claims returns the addresses in the virtual_ipaddress blocks of the file and
// of those that it includes, in their order. With an error they are those
// found so far.
func Claims(files Files, name string) ([]Claim, error) {
	r := reader{files: files, seen: make(map[string]bool)}
	err := r.file(name)
	return r.found, err
}

type reader struct {
	files Files
	found []Claim
	seen  map[string]bool
	lines int
	// Of a virtual_ipaddress block: its name was read, and then its brace.
	named, within bool
}

func (r *reader) file(name string) error {
	if r.seen[name] {
		return nil
	}
	if len(r.seen) == maxFiles {
		return errors.New("keepalived: too many files include each other")
	}
	r.seen[name] = true
	text, err := r.files.Read(name)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if r.lines++; r.lines > maxLines {
			return fmt.Errorf("%s: more lines than any configuration of keepalived", name)
		}
		if err := r.line(name, n, line); err != nil {
			return err
		}
	}
	return nil
}

// line takes one line: words, up to a comment, that braces group.
func (r *reader) line(name string, n int, line string) error {
	if i := strings.IndexAny(line, "#!"); i >= 0 {
		line = line[:i]
	}
	words := strings.Fields(strings.NewReplacer("{", " { ", "}", " } ").Replace(line))
	if len(words) > 1 && words[0] == "include" {
		return r.include(name, words[1])
	}
	first := true
	for _, word := range words {
		switch {
		case word == "virtual_ipaddress" || word == "virtual_ipaddress_excluded":
			r.named = true
		case word == "{":
			r.named, r.within = false, r.named
			first = true
		case word == "}":
			r.within = false
		case r.within && first: // the rest of the line says how it is taken
			first = false
			text, _, _ := strings.Cut(word, "/")
			if a, err := netip.ParseAddr(text); err == nil {
				r.found = append(r.found, Claim{File: name, Line: n, Address: a})
			}
		}
	}
	return nil
}

// include reads the files that a pattern fits, which may be relative to the
// file that names it.
func (r *reader) include(from, pattern string) error {
	if !path.IsAbs(pattern) {
		pattern = path.Join(path.Dir(from), pattern)
	}
	dir, base := path.Split(pattern)
	if !strings.ContainsAny(base, "*?[") {
		return r.file(pattern)
	}
	names, err := r.files.List(path.Clean(dir))
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if fits, err := path.Match(base, name); err == nil && fits {
			if err := r.file(dir + name); err != nil {
				return err
			}
		}
	}
	return nil
}
