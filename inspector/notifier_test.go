package inspector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/settings"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// Whoever waits is woken, whatever happens between his look and his waiting.
func TestBellMissesNoWaiter(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		const many = 200
		var waiting sync.WaitGroup
		for n := range many {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(o.Ctx, time.Minute)
				defer cancel()
				key := fmt.Sprint("k", n)
				v, err := o.Notifier.Wait(ctx, func(v fsm.View) bool { _, ok := v.Setting(key); return ok })
				if err != nil {
					t.Errorf("%s was missed: %v", key, err)
				} else if _, ok := v.Setting(key); !ok {
					t.Errorf("%s: the view is not the one", key)
				}
			})
			waiting.Go(func() { o.RaftLog.Must(settings.PutSetting{Key: fmt.Sprint("k", n), Value: "v"}) })
		}
		waiting.Wait()
		if n := o.Notifier.Waiting(); n != 0 {
			t.Errorf("%d who were woken are kept", n)
		}
	})
}

// What is so already is seen at once; who gives up is forgotten.
func TestBellForgets(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		began := time.Now()
		if _, err := o.Notifier.Wait(o.Ctx, func(fsm.View) bool { return true }); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(o.Ctx, time.Second, why)
		defer cancel()
		if _, err := o.Notifier.Wait(ctx, func(fsm.View) bool { return false }); !errors.Is(err, why) {
			t.Error(err)
		}
		if n := o.Notifier.Waiting(); n != 0 {
			t.Errorf("%d who gave up are kept", n)
		}
	})
}
