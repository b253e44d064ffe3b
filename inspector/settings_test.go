package inspector

import (
	"context"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

// A period counts from the moment it is set: a longer one does not have to run
// out first.
func TestPeriodIsReloaded(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.CleanUpPeriod = 24 * time.Hour
		live := o.live()
		rounds := 0
		p := periodic{"task", live, func(context.Context, leader.Authority) error {
			if rounds++; rounds == 1 {
				time.AfterFunc(time.Minute, func() {
					s := live.Now()
					s.Config.CleanUpPeriod = time.Hour
					live.Set(s)
				})
			}
			return nil
		}, o.log}
		ctx, cancel := context.WithTimeout(o.ctx, 3*time.Hour+time.Minute)
		defer cancel()
		if err := p.Run(ctx, tenure{o.raftLog}); err != nil || rounds != 4 {
			t.Errorf("%d rounds in three hours, of one each, %v", rounds, err)
		}
	})
}

// What was begun is done by the settings it was begun with, what is begun later
// by the new ones, and workers come and go with them.
func TestSettingsOfAJobDoNotChange(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.StoreData, o.conf.Workers = true, 1
		c := o.workers(o.member)
		before := c.job(introspection.ClaimedRequest{})
		s := c.o.Live.Now()
		s.Config.StoreData, s.Config.Workers = false, 5
		c.o.Live.Set(s)
		if after := c.job(introspection.ClaimedRequest{}); !before.by.Config.StoreData || after.by.Config.StoreData {
			t.Errorf("data is stored by what was begun before: %t, after: %t; want true and false", before.by.Config.StoreData, after.by.Config.StoreData)
		}
		if free := c.resize(c.o.Live.Now().workers()); free != 5 {
			t.Errorf("%d workers are free of 5", free)
		}
	})
}

// More workers begin what waits, at once.
func TestWorkersAreReloaded(t *testing.T) {
	inRig(t, func(o *rig) {
		o.conf.Workers, o.conf.QueueGetTimeout = 1, 24*time.Hour
		o.work(func(c *WorkerPool) {
			o.slowly("", time.Hour, nothing)
			for n := range 3 {
				o.accept(nodeN(n), macA)
			}
			time.Sleep(time.Second) // in a bubble
			if c.Busy() != 1 {
				t.Errorf("%d are at work, of one", c.Busy())
			}
			s := c.o.Live.Now()
			s.Config.Workers = 3
			c.o.Live.Set(s)
			time.Sleep(time.Second) // in a bubble
			if c.Busy() != 3 {
				t.Errorf("%d are at work, of three", c.Busy())
			}
		})
	})
}
