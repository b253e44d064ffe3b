package raftguard

import (
	"errors"

	"github.com/hashicorp/raft"
)

// errClosing says that a deletion was given up.
var errClosing = errors.New("the log is being closed: the rest of what a snapshot covers stays in it")

// deletedAtOnce is how many entries of the log are deleted in one transaction of bolt, for
// the length of which no other can be stored.
const deletedAtOnce = 512

// GradualDeletion is a log store that lets entries be stored between those that it deletes: after a
// snapshot they are many.
type GradualDeletion struct {
	raft.LogStore
	Closing <-chan struct{} // once it is closed the rest stays
}

// DeleteRange implements raft.LogStore. What a snapshot covers goes piece by piece, from
// the first entry on; a crash or a stop between two leaves a log that begins later. The end
// of a log goes at once, since a crash must leave no hole.
func (l GradualDeletion) DeleteRange(first, last uint64) error {
	begin, err := l.FirstIndex()
	if err != nil {
		return err
	}
	end, err := l.LastIndex()
	if err != nil {
		return err
	}
	if first <= begin && last < end {
		for first = begin; first+deletedAtOnce <= last; first += deletedAtOnce {
			if err := l.LogStore.DeleteRange(first, first+deletedAtOnce-1); err != nil {
				return err
			}
			select {
			case <-l.Closing:
				return errClosing
			default:
			}
		}
	}
	return l.LogStore.DeleteRange(first, last)
}
