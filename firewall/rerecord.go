package firewall

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/internal/pace"
)

// rerecordPause is the pause after doors were recorded again, or could not be: an index
// of entries that were cut off may be above the log's end for a while.
const rerecordPause = time.Second

// rerecords commits doors again that are recorded from before a change of the members:
// the next leader would wait for them in full (docs/design.md#pxe-age). It does so next to the
// guard's turns, since a commit takes as long as the disks of a majority, and the lease
// is renewed meanwhile.
type rerecords struct {
	busy atomic.Bool // one is under way; there is one at most
	work sync.WaitGroup
}

// recordAgain begins to record again what this leadership has recorded, where that is
// from before a change of the members, until ctx ends. It does not wait for it.
func (w *watch) recordAgain(ctx context.Context) {
	v, _ := w.g.o.Log.Changed()
	var commands []fsm.Command
	if w.recorded && w.recordIsOutdated(v, v.PassDoor()) {
		commands = append(commands, doors.PassOpen{Wait: w.g.o.passWait()})
	}
	if w.taken && w.recordIsOutdated(v, v.AddressDoor()) {
		commands = append(commands, doors.AddressTaken{Address: w.g.o.AddressText, Wait: w.g.o.addressWait()})
	}
	if len(commands) == 0 || !w.rerecord.busy.CompareAndSwap(false, true) {
		return
	}
	w.rerecord.work.Go(func() {
		defer w.rerecord.busy.Store(false)
		for _, c := range commands {
			if _, err := w.recordDoor(ctx, c); err != nil && ctx.Err() == nil {
				w.g.failing.Info(
					"record PXE service again after a change of the members failed, retrying; until then the next leader waits the full lease",
					"err", err)
			}
		}
		pace.Wait(ctx, rerecordPause)
	})
}

// recordIsOutdated reports whether a door of this leadership is recorded from before a change of
// the members, or from before all of them knew log version 2. While former members are
// awaited the log takes no record.
func (w *watch) recordIsOutdated(v fsm.View, d doors.Door) bool {
	return d.OpenBy == w.a.Token() && d.Index < w.a.Configured() &&
		v.Admits(doors.PassOpen{Proven: d.OpenBy}) == nil && v.AwaitedFormers() == ""
}
