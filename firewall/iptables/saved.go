package iptables

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trivet-ha/trivet/firewall"
)

// table is one table of the kernel, as iptables-save prints it.
type table struct {
	name   string
	policy map[string]string   // of each chain; "-" of those that are not built in
	rules  map[string][]string // of each chain, without "-A CHAIN"
}

// errInexpressible says that a table cannot be of iptables.
var errInexpressible = errors.New(
	"rules that iptables cannot express, written by another program; use firewall.driver: nftables")

// parse reads what iptables-save printed of one table. A table that the kernel
// does not have is printed as nothing, and is empty.
func parse(name string, saved []byte) (table, error) {
	t := table{name: name, policy: make(map[string]string), rules: make(map[string][]string)}
	inside, complete := false, true
	for line := range bytes.Lines(saved) {
		text := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(text, "# Table") && strings.Contains(text, "incompatible"):
			return table{}, fmt.Errorf("table %s holds %w", name, errInexpressible)
		case text == "" || text[0] == '#':
		case text[0] == '*':
			if inside || text[1:] != name {
				return table{}, fmt.Errorf("iptables-save printed table %.40q, asked for %s", text[1:], name)
			}
			inside, complete = true, false
		case text == commit:
			inside, complete = false, true
		case inside && text[0] == ':':
			chain, rest, _ := strings.Cut(text[1:], " ")
			t.policy[chain], _, _ = strings.Cut(rest, " ")
		case inside && strings.HasPrefix(text, "-A "):
			chain, rule, _ := strings.Cut(text[len("-A "):], " ")
			t.rules[chain] = append(t.rules[chain], rule)
		default:
			return table{}, fmt.Errorf("iptables-save printed %.80q, which is no rule", text)
		}
	}
	if !complete {
		return table{}, fmt.Errorf("iptables-save stopped in the middle of table %s", name)
	}
	return t, nil
}

func (t table) has(chain string) bool { return t.policy[chain] != "" }

// target is the chain or verdict to which a rule sends its packets, "" if none.
func target(rule string) string {
	words := strings.Fields(rule)
	for i := len(words) - 2; i >= 0; i-- {
		if words[i] == "-j" || words[i] == "-g" {
			return words[i+1]
		}
	}
	return ""
}

// harmless reports whether no packet of ours can match a rule of another program,
// since it wants another protocol or another interface.
func harmless(rule string, l firewall.Layout) bool {
	words := strings.Fields(rule)
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == "!" {
			i++ // everything but this value: ours may be among it
			continue
		}
		value := words[i+1]
		switch words[i] {
		case "-p":
			if value != "udp" && value != "17" && value != "all" && value != "0" {
				return true
			}
		case "-i":
			if value != l.Interface && !strings.HasSuffix(value, "+") {
				return true
			}
		case "-s", "-d", "-o":
		default:
			return false // from here on matches, which may say anything
		}
	}
	return false
}

// entrance says how a chain of ours is entered from INPUT: nothing before the
// jump may take packets away from it, and no other rule may lead there.
func (t table) entrance(l firewall.Layout, chain string) error {
	want := jumpText(l, chain)
	var before string
	found := 0
	for _, rule := range t.rules[input] {
		switch {
		case rule == want:
			found++
		case target(rule) == chain:
			return fmt.Errorf("%w: in table %s a rule that is not ours leads to %s: -A %s %s", firewall.ErrForeign, t.name,
				chain, input, rule)
		case found == 0 && before == "" && !harmless(rule, l):
			before = rule
		}
	}
	switch {
	case found == 0:
		return fmt.Errorf("%w: table %s has no jump from %s to %s", firewall.ErrForeign, t.name, input, chain)
	case found > 1:
		return fmt.Errorf("%w: table %s has %d jumps from %s to %s", firewall.ErrForeign, t.name, found, input, chain)
	case before != "":
		return fmt.Errorf("%w: in table %s packets meet another rule before the jump to %s: -A %s %s", firewall.ErrForeign,
			t.name, chain, input, before)
	}
	return nil
}

// exactly says whether a chain holds these rules and no others.
func (t table) exactly(chain string, want ...string) error {
	if !t.has(chain) {
		return fmt.Errorf("%w: table %s has no chain %s", firewall.ErrForeign, t.name, chain)
	}
	if got := t.rules[chain]; !slices.Equal(got, want) {
		return fmt.Errorf("%w: chain %s of table %s holds %d rules that are not the %d of ours", firewall.ErrForeign, chain,
			t.name, len(got), len(want))
	}
	return nil
}

// rulesOf reads our rules out of the table filter.
func (t table) rulesOf(l firewall.Layout) (r rules, err error) {
	if err := t.entrance(l, gateChain); err != nil {
		return rules{}, err
	}
	if n := len(t.rules[gateChain]); n > 0 {
		r.pass = target(t.rules[gateChain][n-1]) == accept
	}
	if err := t.exactly(gateChain, gate(r.pass)...); err != nil {
		return rules{}, err
	}
	if r.allow, err = t.list(allowChain, accept); err != nil {
		return rules{}, err
	}
	r.deny, err = t.list(denyChain, drop)
	return r, err
}

// list reads a list out of its chains.
func (t table) list(chain, verdict string) (list, error) {
	l := list{chain: chain, verdict: verdict, macs: make(map[string][]string)}
	var to []string
	for _, name := range partsOf(chain) {
		to = append(to, "-j "+name)
		l.split = l.split || t.has(name)
	}
	homes := []string{chain}
	if l.split {
		if err := t.exactly(chain, to...); err != nil {
			return list{}, err
		}
		homes = partsOf(chain)
	}
	seen := make(map[string]bool)
	for _, home := range homes {
		if !t.has(home) {
			return list{}, fmt.Errorf("%w: table %s has no chain %s", firewall.ErrForeign, t.name, home)
		}
		for _, rule := range t.rules[home] {
			mac, err := l.macOf(home, rule)
			if err == nil && seen[mac] {
				err = fmt.Errorf("%w: %s is twice on the list of %s", firewall.ErrForeign, mac, chain)
			}
			if err != nil {
				return list{}, err
			}
			seen[mac] = true
			l.macs[home] = append(l.macs[home], mac)
		}
	}
	return l, nil
}

// macOf reads a rule of a chain that holds nothing but MACs. Older versions
// print them in upper case.
func (l list) macOf(chain, rule string) (string, error) {
	if mac, ok := strings.CutPrefix(rule, macSource); ok { // as the versions of today print it
		mac, ok = strings.CutSuffix(mac, " -j "+l.verdict)
		if ok && firewall.IsMAC(mac) && l.chainOf(mac) == chain {
			return mac, nil
		}
	}
	words := strings.Fields(rule)
	for i, word := range words {
		if mac := strings.ToLower(word); i > 0 && words[i-1] == "--mac-source" && firewall.IsMAC(mac) &&
			strings.Join(words, " ") == strings.Replace(l.rule(mac), mac, word, 1) && l.chainOf(mac) == chain {
			return mac, nil
		}
	}
	return "", fmt.Errorf("%w: chain %s holds a rule that is not ours: %.120s", firewall.ErrForeign, chain, rule)
}
