package iptables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/firewall"
)

var site1 = firewall.Layout{Interface: "br-pxe", Match: firewall.MatchEther}

// restore does to a table what iptables-restore --noflush does: all lines of a
// script, or none.
func restore(t table, text string) (table, error) {
	next := table{name: t.name, policy: make(map[string]string), rules: make(map[string][]string)}
	for chain, policy := range t.policy {
		next.policy[chain] = policy
		next.rules[chain] = slices.Clone(t.rules[chain])
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != "*"+t.name || lines[len(lines)-1] != commit {
		return t, fmt.Errorf("not one commit to table %s", t.name)
	}
	for _, line := range lines[1 : len(lines)-1] {
		if err := next.apply(line); err != nil {
			return t, fmt.Errorf("%s: %w", line, err)
		}
	}
	return next, nil
}

func (t table) apply(line string) error {
	if name, ok := strings.CutPrefix(line, ":"); ok {
		chain, _, _ := strings.Cut(name, " ")
		t.policy[chain], t.rules[chain] = "-", nil
		return nil
	}
	words := strings.Fields(line)
	chain := words[1]
	if !t.has(chain) {
		return fmt.Errorf("no chain %s", chain)
	}
	rule := strings.Join(words[2:], " ")
	at := slices.Index(t.rules[chain], rule)
	switch words[0] {
	case "-A":
		t.rules[chain] = append(t.rules[chain], rule)
	case "-I":
		t.rules[chain] = slices.Insert(t.rules[chain], 0, strings.Join(words[3:], " "))
	case "-R":
		n, err := strconv.Atoi(words[2])
		if err != nil || n > len(t.rules[chain]) {
			return fmt.Errorf("no rule %d", n)
		}
		t.rules[chain][n-1] = strings.Join(words[3:], " ")
	case "-C", "-D":
		if at < 0 {
			return fmt.Errorf("no such rule")
		}
		if words[0] == "-D" {
			t.rules[chain] = slices.Delete(t.rules[chain], at, at+1)
		}
	case "-X":
		for _, rules := range t.rules {
			if slices.ContainsFunc(rules, func(r string) bool { return target(r) == chain }) {
				return fmt.Errorf("%s is in use", chain)
			}
		}
		delete(t.policy, chain)
		delete(t.rules, chain)
	}
	return nil
}

// host is a table as it is before us, with rules of somebody else.
func host() table {
	t, err := parse(listTable,
		[]byte(
			"# a comment\n*filter\n:INPUT ACCEPT [1:2]\n:FORWARD DROP [0:0]\n:OTHER - [0:0]\n-A INPUT -i lo -j ACCEPT\n-A FORWARD -j OTHER\nCOMMIT\n"))
	if err != nil {
		panic(err)
	}
	return t
}

// built is the host with our rules.
func built(t rapid.TB, from table, r firewall.Ruleset) (table, rules) {
	want, err := newRules(r)
	if err != nil {
		t.Fatal(err)
	}
	next, err := restore(from, want.build())
	if err != nil {
		t.Fatal(err)
	}
	if next.entrance(site1, gateChain) != nil {
		if next, err = restore(next, next.replaceJumps(site1, gateChain)); err != nil {
			t.Fatal(err)
		}
	}
	return next, want
}

// macs draws a sorted list of MACs from few, up to n.
func macs(n int) *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		all := rapid.SliceOfNDistinct(rapid.IntRange(0, n), 0, n, rapid.ID).Draw(t, "macs")
		slices.Sort(all)
		var out []string
		for _, i := range all {
			out = append(out, fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&0xff))
		}
		return out
	})
}

func drawRuleset(t *rapid.T) firewall.Ruleset {
	r := firewall.Ruleset{Allow: macs(20).Draw(t, "allow"), Pass: rapid.Bool().Draw(t, "pass")}
	if rapid.Bool().Draw(t, "long") { // about where lists are split
		r.Deny = inOrder(rapid.IntRange(splitAbove-4, splitAbove+4).Draw(t, "length"))
	} else {
		r.Deny = macs(20).Draw(t, "deny")
	}
	return r
}

func drawChange(t *rapid.T) firewall.Change {
	c := firewall.Change{Allow: macs(4).Draw(t, "allow"), Deny: macs(6).Draw(t, "deny")}
	if rapid.Bool().Draw(t, "new") {
		c.Deny = append(c.Deny, "52:54:00:ff:ff:01", "52:54:00:ff:ff:02", "52:54:00:ff:ff:03", "52:54:00:ff:ff:04")
	}
	without := func(macs, others []string) []string {
		return slices.DeleteFunc(macs, func(m string) bool { return slices.Contains(others, m) })
	}
	c.Unallow = without(macs(20).Draw(t, "unallow"), c.Allow)
	c.Undeny = without(macs(20).Draw(t, "undeny"), c.Deny)
	if rapid.Bool().Draw(t, "pass given") {
		pass := rapid.Bool().Draw(t, "pass")
		c.Pass = &pass
	}
	return c
}

// TestRules programs rulesets and changes into a model of the kernel, and reads
// back after each what was meant.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kernel, now := host(), rules{}
		var want firewall.Ruleset
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			small := false
			if step > 0 && rapid.Bool().Draw(t, "change") {
				c := drawChange(t)
				var text string
				var next rules
				want = want.With(c)
				if text, next, small = now.edit(c, jumpText(site1, gateChain)); text != "" {
					var err error
					if kernel, err = restore(kernel, text); err != nil {
						t.Fatal(err)
					}
					now = next
				}
			} else {
				want = drawRuleset(t)
			}
			if !small {
				kernel, now = built(t, kernel, want)
			}
			got, err := kernel.rulesOf(site1)
			if err != nil {
				t.Fatal(err)
			}
			if !got.ruleset().Equal(want) || !now.ruleset().Equal(want) {
				t.Fatalf("the kernel has %v, is believed to have %v, should have %v", got.ruleset(), now.ruleset(), want)
			}
		}
		checkUntouched(t, kernel)
		gone, err := restore(kernel, kernel.withoutOurs())
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(gone.policy, gone.rules[input], gone.rules["FORWARD"]) !=
			fmt.Sprint(host().policy, host().rules[input], host().rules["FORWARD"]) {
			t.Fatalf("removed, and the table is %v", gone)
		}
	})
}

// checkUntouched finds what is neither ours nor as it was.
func checkUntouched(t rapid.TB, kernel table) {
	for chain := range kernel.policy {
		if !strings.HasPrefix(chain, "TRIVET-") && chain != input && !slices.Equal(kernel.rules[chain], host().rules[chain]) {
			t.Fatalf("chain %s is %q now", chain, kernel.rules[chain])
		}
	}
	if !slices.Contains(kernel.rules[input], "-i lo -j ACCEPT") {
		t.Fatal("a rule of somebody else is gone from INPUT")
	}
}

// TestChangeOfOthersRules makes a change where somebody was at the rules.
func TestChangeOfOthersRules(t *testing.T) {
	for name, r := range map[string]firewall.Ruleset{
		"short": {Allow: inOrder(2), Deny: inOrder(3), Pass: true},
		"long":  {Allow: inOrder(2), Deny: inOrder(splitAbove + 1), Pass: true},
	} {
		kernel, now := built(t, host(), r)
		text, _, ok := now.edit(firewall.Change{Deny: []string{"52:54:00:ff:ff:01"}, Unallow: r.Allow[:1]},
			jumpText(site1, gateChain))
		if !ok {
			t.Fatalf("%s: the change is not small", name)
		}
		for _, chain := range []string{input, gateChain, allowChain, denyChain} {
			flushed, err := restore(kernel, "*filter\n:"+chain+" - [0:0]\nCOMMIT\n")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := restore(flushed, text); err == nil {
				t.Errorf("%s: chain %s was flushed, and the change succeeds:\n%s", name, chain, text)
			}
		}
		if _, err := restore(kernel, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// inOrder are n MACs, one after the other.
func inOrder(n int) (macs []string) {
	for i := range n {
		macs = append(macs, fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&0xff))
	}
	return macs
}

// TestParts has MACs of one order in steps, as cards with several ports have.
func TestParts(t *testing.T) {
	long := newList(denyChain, drop, inOrder(splitAbove+1))
	for _, step := range []int{1, 2, 4, 8, 16, 32, 256} {
		count := make(map[string]int)
		for i := range 4096 {
			n := i * step
			count[long.chainOf(fmt.Sprintf("52:54:00:%02x:%02x:%02x", n>>16, n>>8&0xff, n&0xff))]++
		}
		for part, n := range count {
			if n > 2*4096/parts {
				t.Errorf("in steps of %d, %s holds %d of 4096 MACs", step, part, n)
			}
		}
	}
}

func TestBuild(t *testing.T) {
	r, err := newRules(firewall.Ruleset{Allow: []string{"52:54:00:00:00:01"}, Deny: []string{"52:54:00:00:00:02"}})
	if err != nil {
		t.Fatal(err)
	}
	text := r.build()
	for _, want := range []string{
		"*filter\n:TRIVET-PXE - [0:0]\n:TRIVET-ALLOW - [0:0]\n",
		"\n-A TRIVET-PXE -j TRIVET-ALLOW\n-A TRIVET-PXE -j TRIVET-DENY\n-A TRIVET-PXE -j DROP\n",
		"\n-A TRIVET-ALLOW -m mac --mac-source 52:54:00:00:00:01 -j ACCEPT\n",
		"\n-A TRIVET-DENY -m mac --mac-source 52:54:00:00:00:02 -j DROP\nCOMMIT\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for _, mac := range []string{"", "52:54:00:00:00:0A", "52:54:00:00:00:01 -j ACCEPT", "52:54:00:00:00\n01",
		"525400000001"} {
		if _, err := newRules(firewall.Ruleset{Deny: []string{mac}}); err == nil ||
			!strings.Contains(err.Error(), strconv.Quote(mac)) {
			t.Errorf("%q: %v", mac, err)
		}
	}
}

func TestLayoutRefused(t *testing.T) {
	for _, c := range []struct {
		layout firewall.Layout
		want   string
	}{
		{firewall.Layout{Interface: "br-pxe", Match: firewall.MatchChaddr}, "firewall.match: chaddr needs driver nftables"},
		{firewall.Layout{Interface: "br-pxe", Match: "port"}, "firewall.match"},
		{firewall.Layout{Interface: "eth+", Match: firewall.MatchEther}, "firewall.interface"},
		{firewall.Layout{Interface: "", Match: firewall.MatchEther}, "firewall.interface"},
		{firewall.Layout{Interface: "a b", Match: firewall.MatchEther}, "firewall.interface"},
		{firewall.Layout{Interface: "-j", Match: firewall.MatchEther}, "firewall.interface"},
		{firewall.Layout{Interface: `a"b`, Match: firewall.MatchEther}, "firewall.interface"},
		{firewall.Layout{Interface: "0123456789abcdef", Match: firewall.MatchEther}, "firewall.interface"},
	} {
		if err := check(c.layout); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.layout, err)
		}
	}
	if err := check(site1); err != nil {
		t.Error(err)
	}
}
