package raftguard

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// deletions is a log in memory that notes what is deleted, and fails from some deletion on,
// or is closed with one.
type deletions struct {
	*raft.InmemStore
	done    [][2]uint64
	fail    int
	end     int
	closing chan struct{}
}

var errFull = errors.New("no space")

func (d *deletions) DeleteRange(first, last uint64) error {
	if len(d.done) == d.fail {
		return errFull
	}
	if d.done = append(d.done, [2]uint64{first, last}); len(d.done) == d.end {
		close(d.closing)
	}
	return d.InmemStore.DeleteRange(first, last)
}

func TestDeletionsLetEntriesBeStored(t *testing.T) {
	const begin, end = 101, 2100
	for _, c := range []struct {
		name        string
		first, last uint64
		fail, end   int
		want        [][2]uint64
		err         error
	}{
		{"what a snapshot covers", begin, 1400, 9, 0, [][2]uint64{{101, 612}, {613, 1124}, {1125, 1400}}, nil},
		{"from before its beginning", 1, 700, 9, 0, [][2]uint64{{101, 612}, {613, 700}}, nil},
		{"few", begin, 612, 9, 0, [][2]uint64{{101, 612}}, nil},
		{"from its middle", 700, 2000, 9, 0, [][2]uint64{{700, 2000}}, nil},
		{"its end", 700, end, 9, 0, [][2]uint64{{700, end}}, nil},
		{"all", begin, end, 9, 0, [][2]uint64{{begin, end}}, nil},
		{"a stop after a piece", begin, 1400, 9, 1, [][2]uint64{{101, 612}}, errClosing},
		{"a stop at the end of a log", 700, end, 9, 1, [][2]uint64{{700, end}}, nil},
		{"no space after a piece", begin, 1400, 1, 0, [][2]uint64{{101, 612}}, errFull},
	} {
		log := &deletions{InmemStore: raft.NewInmemStore(), fail: c.fail, end: c.end, closing: make(chan struct{})}
		for n := uint64(begin); n <= end; n++ {
			if err := log.StoreLog(&raft.Log{Index: n}); err != nil {
				t.Fatal(err)
			}
		}
		err := GradualDeletion{log, log.closing}.DeleteRange(c.first, c.last)
		if !errors.Is(err, c.err) || !slices.Equal(log.done, c.want) {
			t.Errorf("gradual-deletion: %s: deleted %v: %v; want %v: %v", c.name, log.done, err, c.want, c.err)
		}
	}
}
