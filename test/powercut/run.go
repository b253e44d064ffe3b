package powercut

import (
	"bufio"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Recording is what processes did to the files below a folder.
type Recording struct {
	Name    string
	disk    *disk // as it was before
	moments []moment
	cuts    [2]int // at how many of them a power cut leaves another state than at the one before, by rare
}

// rare tells calls for names, and for the files of the host, from those by which a log is written,
// of which there are many more: half of the power cuts are at each.
func (m moment) rare() int {
	switch m.name {
	case "write", "pwrite64", "fdatasync":
		return 0
	}
	return 1
}

// said is a call that no process made: the test knows of a claim.
const said = "said"

// Said is a claim that the test knows of, at a time in microseconds.
type Said struct {
	At    int64
	Name  string
	Value uint64
}

// Start notes what is below a folder before the first process begins.
func Start(name, root string) (*Recording, error) {
	d, err := newDisk(root)
	return &Recording{Name: name, disk: d}, err
}

// Read reads what strace wrote to a folder, in a file PEER.ANYTHING for each process, which all have
// ended, and compares the outcome with what is there.
func (r *Recording) Read(traces string, claims ...Said) error {
	files, err := filepath.Glob(filepath.Join(traces, "*"))
	if err != nil {
		return err
	}
	all := make([][]moment, 1)
	for _, c := range claims {
		args := []string{c.Name, fmt.Sprint(c.Value)}
		all[0] = append(all[0], moment{at: c.At, call: &call{name: said, args: args}, end: true})
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		peer, _, _ := strings.Cut(filepath.Base(path), ".")
		moments, err := parse(peer, bufio.NewReaderSize(f, 1<<20))
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, moments)
	}
	r.moments = merged(all...)
	played, err := newDiskOf(r.disk)
	if err != nil {
		return err
	}
	err = r.each(played, func(_ int, m moment, _ Claims) error { r.cuts[m.rare()]++; return nil })
	return errors.Join(err, played.differs())
}

// newDiskOf returns a copy of a disk on which nothing waits.
func newDiskOf(of *disk) (*disk, error) {
	if len(of.waiting()) > 0 {
		return nil, errors.New("copy a disk: it has changes that are not synced")
	}
	d := &disk{root: of.root, offsets: make(map[string]int64)}
	var copied func(*node) *node
	copied = func(n *node) *node {
		out := d.node(n.names != nil)
		out.text, out.synced = slices.Clone(n.text), slices.Clone(n.synced)
		for base, below := range n.stored { // order-free: a map
			to := copied(below)
			out.names[base], out.stored[base] = to, to
		}
		return out
	}
	d.top = copied(of.top)
	return d, nil
}

// each plays the recording and calls at where a power cut may leave something else than before, or
// more was claimed.
func (r *Recording) each(d *disk, at func(n int, m moment, c Claims) error) error {
	claims := make(Claims)
	n := 0
	for _, m := range r.moments {
		before := maps.Clone(claims)
		changed := false
		var err error
		if m.name == said {
			var value uint64
			_, err = fmt.Sscan(m.args[1], &value)
			claims.made(m.args[0], value)
		} else if err = claims.hear(m); err == nil {
			changed, err = d.play(m)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		if !changed && maps.Equal(before, claims) {
			continue
		}
		if err := at(n, m, claims); err != nil {
			return err
		}
		n++
	}
	return nil
}

// Cut is one power cut.
type Cut struct {
	Recording string
	At        int    // of the recording's moments
	Way       string // what was on the disk of that which was not synced
	Seed      uint64
}

// String names the cut.
func (c Cut) String() string {
	return fmt.Sprintf("%s: power cut at moment %d, of what was not synced %s is on the disk (seed %d)", c.Recording, c.At,
		c.Way, c.Seed)
}

// Cuts cuts the power at about as many states as wanted, spread over all moments, and calls
// judge with each state that it has not had yet with these claims. dir is a folder for the files, which is
// emptied after each.
func (r *Recording) Cuts(wanted int, seed uint64, dir string, judge func(c Cut, dir string, claims Claims)) (
	states int, err error) {
	d, err := newDiskOf(r.disk)
	if err != nil {
		return 0, err
	}
	had := make(map[uint64]bool)
	hash := maphash.MakeSeed()
	var passed [2]int // moments, by rare
	err = r.each(d, func(n int, m moment, claims Claims) error {
		kind := m.rare()
		of, at := r.cuts[kind]*2, passed[kind]
		passed[kind]++
		for i := range wanted*(at+1)/of - wanted*at/of {
			draw := rand.New(rand.NewPCG(seed, uint64(n)<<16+uint64(i)))
			way := draw.IntN(len(ways))
			cut := Cut{Recording: r.Name, At: n, Way: ways[way].name, Seed: seed}
			files := d.cut(way, draw)
			if sum := files.sum(hash, claims); had[sum] {
				continue
			} else {
				had[sum] = true
			}
			states++
			to := filepath.Join(dir, fmt.Sprint(states))
			if err := files.Write(to); err != nil {
				return err
			}
			judge(cut, to, claims)
			if err := os.RemoveAll(to); err != nil {
				return err
			}
		}
		return nil
	})
	return states, err
}

// sum tells states apart.
func (f tree) sum(seed maphash.Seed, claims Claims) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, path := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(&h, "%s %d ", path, len(f[path]))
		h.Write(f[path]) // a hash never fails
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		fmt.Fprintf(&h, "%s %d ", name, claims[name])
	}
	return h.Sum64()
}
