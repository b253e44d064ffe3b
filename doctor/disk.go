package doctor

import (
	"slices"
	"time"

	"github.com/trivet-ha/trivet/raftstore/ballast"
)

// fewInodes is how many files must fit still: a snapshot takes a few.
const fewInodes = 100

func judgeDisk(f Facts) []Finding {
	return slices.Concat(f.space(), f.slow("one small file in the data directory", f.Disk.Probe),
		f.slow("the log, of late", f.Disk.Log))
}

func (f Facts) space() []Finding {
	d := f.Disk
	room := []string{"df -h " + d.Path,
		"# then remove what is not Trivet's, or give the file system more space; du tells what is large:",
		"du -xh --max-depth=2 " + d.Path + " | sort -h | tail"}
	switch {
	case d.Size == 0: // not known, which is a gap
		return nil
	case d.Dropped:
		return []Finding{newFinding(Error, f, room,
			"the disk of %s is full: its peer takes no entries of the log until there is space", d.Path)}
	case d.Free < d.Floor:
		return []Finding{newFinding(Error, f, room, "the disk of %s has %s free, less than %s: its peer does not lead",
			d.Path, ballast.Size(d.Free), ballast.Needed(d.Floor))}
	case d.Free < d.Low:
		return []Finding{newFinding(Warning, f, room, "the disk of %s has %s free of %s", d.Path, ballast.Size(d.Free),
			ballast.Size(d.Size))}
	case d.Inodes > 0 && d.InodesFree < fewInodes:
		return []Finding{newFinding(Warning, f, []string{"df -i " + d.Path}, "the file system of %s takes only %d more files",
			d.Path, d.InodesFree)}
	case d.Peer && d.Ballast == 0:
		return []Finding{newFinding(Warning, f, []string{"journalctl -u trivet | grep ballast"},
			"there is no ballast in %s: a full disk would stop its peer", d.Path)}
	}
	return nil
}

// slow judges how long the disk takes against the election timeout, which is one to two
// heartbeats: a candidate is elected only if four writes, one after another on two disks,
// fit in (docs/design.md#clocks).
func (f Facts) slow(what string, w Writes) []Finding {
	beat := f.Disk.HeartbeatUS
	remedy := []string{"# see what else writes there:", "iostat -x 1 5",
		"# give the data directory a disk of its own, with a write cache that survives power loss; or write raft.log_store: wal, which waits for it once instead of twice, or raft.timing: slow on every host"}
	median, most := micros(w.MedianUS).Round(time.Millisecond), micros(w.MostUS).Round(time.Millisecond)
	switch {
	case w.Count == 0 || beat == 0:
	case w.MedianUS > beat/2:
		return []Finding{newFinding(Error, f, remedy,
			"its disk takes %v for one write (%s): a vote waits for four, longer than the longest election timeout, %v, so no candidate wins an election with it",
			median, what, micros(2*beat))}
	case w.MedianUS > beat/4:
		return []Finding{newFinding(Warning, f, remedy,
			"its disk takes %v for one write (%s): a vote waits for four, longer than the shortest election timeout, %v, so elections may take seconds",
			median, what, micros(beat))}
	case f.Disk.HungUS > 0 && w.MostUS > f.Disk.HungUS:
		return []Finding{newFinding(Warning, f, remedy, "its disk once took %v for one write (%s); a leader gives up at %v",
			most, what, micros(f.Disk.HungUS))}
	}
	return nil
}
