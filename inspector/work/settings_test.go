package work_test

import (
	"testing"
	"time"

	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// What was begun is done by the settings it was begun with, what is begun later
// by the new ones, and workers come and go with them.
func TestSettingsOfAJobDoNotChange(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.StoreData, o.Conf.Workers = true, 1
		c := o.Workers(o.Member)
		before := c.StoresData()
		s := c.Live().Now()
		s.Config.StoreData, s.Config.Workers = false, 5
		c.Live().Set(s)
		if after := c.StoresData(); !before() || after() {
			t.Errorf("data is stored by what was begun before: %t, after: %t; want true and false", before(), after())
		}
		if free := c.Resize(); free != 5 {
			t.Errorf("%d workers are free of 5", free)
		}
	})
}

// More workers begin what waits, at once.
func TestWorkersAreReloaded(t *testing.T) {
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.Workers, o.Conf.QueueGetTimeout = 1, 24*time.Hour
		o.Work(func(c *work.Pool) {
			o.Slowly("", time.Hour, inspecttest.Nothing)
			for n := range 3 {
				o.Accept(inspecttest.NodeN(n), inspecttest.MacA)
			}
			time.Sleep(time.Second) // in a bubble
			if c.Busy() != 1 {
				t.Errorf("%d are at work, of one", c.Busy())
			}
			s := c.Live().Now()
			s.Config.Workers = 3
			c.Live().Set(s)
			time.Sleep(time.Second) // in a bubble
			if c.Busy() != 3 {
				t.Errorf("%d are at work, of three", c.Busy())
			}
		})
	})
}
