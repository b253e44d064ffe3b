//go:build e2e

package iptables

import (
	"testing"

	"github.com/trivet-ha/trivet/firewall"
)

// TestWatch takes the rules out of the way of packets: that is told once, and
// nothing is told of what this driver does itself.
func TestWatch(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		f, ctx := filterOn(t, b), t.Context()
		w := f.Watch()
		told := func() bool {
			w.look(ctx)
			select {
			case <-w.Changed():
				return true
			default:
				return false
			}
		}
		if told() {
			t.Error("rules that never were there are missed")
		}
		for what, args := range map[string][]string{
			"a flush of everything": {"-F"},
			"the jump deleted":      append([]string{"-D", input}, jump(layout, gateChain)...),
		} {
			must(t, f.Replace(ctx, firewall.Ruleset{Deny: []string{denied}}))
			if told() {
				t.Errorf("before %s: rules that are there are missed", what)
			}
			must(t, f.Change(ctx, firewall.Change{Deny: []string{unknown}}))
			if told() {
				t.Errorf("before %s: a change of ours is told", what)
			}
			do(t, f, args...)
			if !told() {
				t.Errorf("%s is not told", what)
			}
			if told() {
				t.Errorf("%s is told twice", what)
			}
		}
	})
}
