package admin

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
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
		Rewritten: func(config.Config) []string { return nil },
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
