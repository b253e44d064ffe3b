package admin

import (
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// TestUselessOptionsOfARunningPeer: a configuration with options that are of no use together is
// taken, at the start and by a reload, and is a warning of both.
func TestUselessOptionsOfARunningPeer(t *testing.T) {
	load := func(timeout string) config.Config {
		c, err := config.Load(config.Sources{HostName: "h1", Flags: map[string]string{
			"api.auth_strategy": "noauth", "inspection.reboot_throttle": "1m", "inspection.timeout": timeout}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	next := load("15m")
	c := &Configuration{
		Load: func() (config.Config, error) { return next, nil }, Logger: slog.New(slog.DiscardHandler),
		Prepare:   func(config.Config, []string) ([]func(), error) { return nil, nil },
		Rewritten: func(config.Config) ([]string, []error) { return nil, nil },
	}
	first := load("15m")
	c.Conf.Store(&first)
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("%+v", w)
	}
	next = load("60s")
	done, err := c.Reload()
	if err != nil || len(done.Applied) != 1 ||
		!strings.Contains(strings.Join(done.Warnings, "\n"),
			"inspection.timeout (--inspection-timeout) 1m: of two that start together") {
		t.Errorf("reload: %+v, %v", done, err)
	}
	if w := c.Warnings(); len(w) != 1 || w[0].Code != "useless_options" ||
		!strings.Contains(w[0].Text, "inspection.reboot_throttle") || !strings.Contains(w[0].Remedy, "write less") {
		t.Errorf("%+v", w)
	}
}

// TestReloadOfAShareThatHangs: a reload of which a file hangs is refused and keeps no later one waiting; a file that
// no changed key needs, and that hangs, is a warning.
func TestReloadOfAShareThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, next := config.Default(), config.Default()
		next.Log.Level = "debug"
		share := make(chan struct{})
		var prepares atomic.Int32
		c := &Configuration{
			Load: func() (config.Config, error) { return next, nil }, Logger: slog.New(slog.DiscardHandler),
			Rewritten: func(config.Config) ([]string, []error) { return nil, []error{bounds.ErrHangs} },
			Prepare: func(config.Config, []string) ([]func(), error) {
				if prepares.Add(1) <= 2 {
					<-share
				}
				return nil, nil
			},
		}
		c.Conf.Store(&first)
		refused := func(what string, do func() error) {
			t.Helper()
			began := time.Now()
			if err := do(); err == nil || !strings.Contains(err.Error(), bounds.ErrHangs.Error()) ||
				time.Since(began) > readLimit {
				t.Errorf("reload-hangs: %s: %v after %v", what, err, time.Since(began))
			}
		}
		refused("the first", func() error { _, err := c.Reload(); return err })
		refused("a dry run", c.plan)
		time.Sleep(10 * time.Minute) // in a bubble
		done, err := c.Reload()
		if err != nil || !slices.Equal(done.Applied, []string{"log.level"}) || c.Current().Log.Level != "debug" {
			t.Errorf("reload-hangs: another mount: %+v, %v", done, err)
		}
		if told := strings.Join(done.Warnings, "\n"); !strings.Contains(told, bounds.ErrHangs.Error()) {
			t.Errorf("reload-hangs: warnings %q", told)
		}
		first = c.Current()
		close(share)
		synctest.Wait()
		if now := c.Current(); now.Log.Level != first.Log.Level {
			t.Errorf("reload-hangs: what came late counts: %s", now.Log.Level)
		}
	})
}
