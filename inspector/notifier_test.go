package inspector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// length returns how many wait.
func (b *Notifier) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// Whoever waits is woken, whatever happens between his look and his waiting.
func TestBellMissesNoWaiter(t *testing.T) {
	inRig(t, func(o *rig) {
		const many = 200
		var waiting sync.WaitGroup
		for n := range many {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(o.ctx, time.Minute)
				defer cancel()
				key := fmt.Sprint("k", n)
				v, err := o.notifier.Wait(ctx, func(v fsm.View) bool { _, ok := v.Setting(key); return ok })
				if err != nil {
					t.Errorf("%s was missed: %v", key, err)
				} else if _, ok := v.Setting(key); !ok {
					t.Errorf("%s: the view is not the one", key)
				}
			})
			waiting.Go(func() { o.raftLog.must(settings.PutSetting{Key: fmt.Sprint("k", n), Value: "v"}) })
		}
		waiting.Wait()
		if n := o.notifier.length(); n != 0 {
			t.Errorf("%d who were woken are kept", n)
		}
	})
}

// What is so already is seen at once; who gives up is forgotten.
func TestBellForgets(t *testing.T) {
	inRig(t, func(o *rig) {
		began := time.Now()
		if _, err := o.notifier.Wait(o.ctx, func(fsm.View) bool { return true }); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(o.ctx, time.Second, why)
		defer cancel()
		if _, err := o.notifier.Wait(ctx, func(fsm.View) bool { return false }); !errors.Is(err, why) {
			t.Error(err)
		}
		if n := o.notifier.length(); n != 0 {
			t.Errorf("%d who gave up are kept", n)
		}
	})
}
