package iptables

import (
	"strings"
	"testing"
	"time"
)

// TestWatchWantsTheJumpFirst takes a rule of another program into INPUT or into
// the chain of the gate: gated packets must still meet our rules first.
func TestWatchWantsTheJumpFirst(t *testing.T) {
	const jumpLine, first = "-A INPUT -i br-pxe", "-A TRIVET-PXE -j TRIVET-ALLOW\n"
	for name, c := range map[string]struct {
		before, rule string
		met          bool
	}{
		"nothing":                       {jumpLine, "", true},
		"of another protocol":           {jumpLine, "-A INPUT -p tcp -j ACCEPT\n", true},
		"of another interface":          {jumpLine, "-A INPUT -i lo -j ACCEPT\n", true},
		"everything":                    {jumpLine, "-A INPUT -j ACCEPT\n", false},
		"the interface":                 {jumpLine, "-A INPUT -i br-pxe -j ACCEPT\n", false},
		"interfaces like it":            {jumpLine, "-A INPUT -i br+ -j ACCEPT\n", false},
		"all interfaces but another":    {jumpLine, "-A INPUT ! -i lo -j ACCEPT\n", false},
		"UDP of a network":              {jumpLine, "-A INPUT -s 192.0.2.0/24 -p udp -j ACCEPT\n", false},
		"one port":                      {jumpLine, "-A INPUT -p udp -m udp --dport 67 -j ACCEPT\n", false},
		"what a chain of theirs takes":  {jumpLine, "-A INPUT -j THEIRS\n", false},
		"back to the policy":            {jumpLine, "-A INPUT -p udp -j RETURN\n", false},
		"an ACCEPT in our chain":        {first, "-A TRIVET-PXE -j ACCEPT\n", false},
		"a RETURN from our chain":       {first, "-A TRIVET-PXE -j RETURN\n", false},
		"a rule after all that is ours": {"COMMIT", "-A INPUT -j ACCEPT\n", true},
	} {
		now, err := parse(listTable, []byte(strings.Replace(intact, c.before, c.rule+c.before, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if got := now.rulesAreMet(site1); got != c.met {
			t.Errorf("first in INPUT: %s: our rules are met first: %v, want %v", name, got, c.met)
		}
	}
}

// TestChainsAreReadOneByOne reads what the command prints of a built-in chain and
// of one of ours.
func TestChainsAreReadOneByOne(t *testing.T) {
	text := "-P INPUT DROP\n-A INPUT -i br-pxe -p udp -m multiport --dports 67,547,4011 -j TRIVET-PXE\n" +
		"-N TRIVET-PXE\n-A TRIVET-PXE -j TRIVET-ALLOW\n-A TRIVET-PXE -j TRIVET-DENY\n-A TRIVET-PXE -j DROP\n"
	now, err := parse(listTable, []byte("*filter\n"+inSave([]byte(text))+commit))
	if err != nil || !now.rulesAreMet(site1) || now.policy[input] != drop || !now.has(gateChain) {
		t.Errorf("read %+v, %v", now, err)
	}
}

// TestRestIsBounded takes looks of every length, and demands that a flush is
// looked for often enough after each.
func TestRestIsBounded(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0:                      time.Second,
		2 * time.Millisecond:   time.Second,
		30 * time.Millisecond:  1500 * time.Millisecond,
		180 * time.Millisecond: 2 * time.Second, // on a busy machine; it was 9 s
		8 * time.Second:        2 * time.Second,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("after a look of %v it rests for %v, want %v", took, got, want)
		}
	}
}
