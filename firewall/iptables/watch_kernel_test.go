//go:build e2e

package iptables

import (
	"testing"

	"github.com/trivet-ha/trivet/firewall"
)

// TestWatch lets packets pass the rules by, in each way that another program has:
// every look tells of it until the rules are in order again, and no look tells of
// what this driver does itself or of rules that gated packets cannot match.
func TestWatch(t *testing.T) {
	onBoth(t, func(t *testing.T, b Backend) {
		f, ctx := filterOn(t, b), t.Context()
		do(t, f, "-N", "STRANGER")
		w := f.Watch()
		told := func() bool {
			w.checkRules(ctx)
			select {
			case <-w.Changed():
				return true
			default:
				return false
			}
		}
		if !told() {
			t.Error("that there are no rules is not told")
		}
		for what, args := range map[string][]string{
			"a flush of everything":                         {"-F"},
			"the jump deleted":                              append([]string{"-D", input}, jump(layout, gateChain)...),
			"an ACCEPT of everything before the jump":       {"-I", input, "1", "-j", accept},
			"an ACCEPT of the interface before the jump":    {"-I", input, "1", "-i", near, "-j", accept},
			"an ACCEPT of other interfaces before the jump": {"-I", input, "1", "!", "-i", "lo", "-j", accept},
			"an ACCEPT of DHCP before the jump":             {"-I", input, "1", "-p", "udp", "--dport", "67", "-j", accept},
			"an ACCEPT of a machine before the jump": {"-I", input, "1", "-m", "mac", "--mac-source", denied, "-j",
				accept},
			"a chain that may accept before the jump":         {"-I", input, "1", "-j", "STRANGER"},
			"a RETURN to the policy before the jump":          {"-I", input, "1", "-j", "RETURN"},
			"an ACCEPT in the chain that the jump leads to":   {"-I", gateChain, "1", "-j", accept},
			"a RETURN from the chain that the jump leads to":  {"-I", gateChain, "1", "-j", "RETURN"},
			"the chain that the jump leads to without a list": {"-D", gateChain, "2"},
		} {
			do(t, f, "-F", input)
			must(t, f.Replace(ctx, firewall.Ruleset{Deny: []string{denied}}))
			if told() {
				t.Errorf("before %s: rules that are there are missed", what)
			}
			must(t, f.Change(ctx, firewall.Change{Deny: []string{unknown}}))
			if told() {
				t.Errorf("before %s: a change of ours is told", what)
			}
			do(t, f, "-I", input, "1", "-i", "lo", "-j", accept)
			do(t, f, "-I", input, "1", "-p", "tcp", "-j", accept)
			do(t, f, "-A", input, "-j", accept)
			if told() {
				t.Errorf("before %s: rules that take no packet from ours are told", what)
			}
			do(t, f, args...)
			if !told() {
				t.Errorf("%s is not told", what)
			}
			must(t, f.Replace(ctx, firewall.Ruleset{}))
			do(t, f, args...)
			if !told() {
				t.Errorf("%s: it is not told that it was done again", what)
			}
		}
	})
}
