package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// entry is a file, or a directory where the name ends in "/".
type entry struct {
	name  string
	mode  int64
	owner int // user and group
	text  []byte
}

// writeTar writes entries in the order of their names, each after the directories that
// it lies in, which belong to root, all of one time.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	known := make(map[string]bool)
	for _, e := range entries {
		known[e.name] = true
	}
	for _, e := range slices.Clone(entries) {
		for dir := path.Dir(strings.TrimSuffix(e.name, "/")); dir != "."; dir = path.Dir(dir) {
			if !known[dir+"/"] {
				known[dir+"/"] = true
				entries = append(entries, entry{name: dir + "/", mode: 0o755})
			}
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.text)), ModTime: at,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("pack %s: %w", e.name, err)
		}
		if _, err := t.Write(e.text); err != nil {
			return fmt.Errorf("pack %s: %w", e.name, err)
		}
	}
	return errors.Join(t.Close())
}
