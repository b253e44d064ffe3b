package iptables

import (
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/firewall"
)

// rules are what our chains of the table filter hold, in either family.
type rules struct {
	allow, deny list
	pass        bool
}

// newRules lays out a ruleset in chains.
func newRules(r firewall.Ruleset) (rules, error) {
	if err := firewall.CheckMACs(r.Allow, r.Deny); err != nil {
		return rules{}, err
	}
	return rules{allow: newList(allowChain, accept, r.Allow), deny: newList(denyChain, drop, r.Deny), pass: r.Pass}, nil
}

// The verdicts.
const (
	accept = "ACCEPT"
	drop   = "DROP"
)

// ruleset is the same without chains.
func (r rules) ruleset() firewall.Ruleset {
	return firewall.Ruleset{Allow: r.allow.all(), Deny: r.deny.all(), Pass: r.pass}
}

// gate are the rules of the chain that packets enter.
func gate(pass bool) []string {
	last := drop
	if pass {
		last = accept
	}
	return []string{"-j " + allowChain, "-j " + denyChain, "-j " + last}
}

// build is the commit that makes our chains hold r and nothing else. The jump is
// not part of it.
func (r rules) build() string {
	lines := slices.Concat([]string{declare(gateChain)}, r.allow.declare(), r.deny.declare())
	for _, rule := range gate(r.pass) {
		lines = append(lines, "-A "+gateChain+" "+rule)
	}
	return script(listTable, slices.Concat(lines, r.allow.fill(), r.deny.fill()))
}

// maxInline bounds a change that is made rule by rule, in MACs: each that is
// removed is compared with those of its part, 1 to 3 ms. For a larger change all
// chains are rebuilt.
const maxInline = 32

// edit is the commit that makes a small change, and the rules after it; not ok
// if the chains have to be rebuilt. Text is empty if nothing changes. The
// commit fails where jump and chains are not as they were built: each line that
// begins with -C looks for a rule.
func (r rules) edit(c firewall.Change, jump string) (text string, next rules, ok bool) {
	if len(c.Allow)+len(c.Unallow)+len(c.Deny)+len(c.Undeny) > maxInline {
		return "", rules{}, false
	}
	allow, deny := r.allow.difference(c.Allow, c.Unallow), r.deny.difference(c.Deny, c.Undeny)
	next = rules{allow: r.allow.after(allow), deny: r.deny.after(deny), pass: r.pass}
	if c.Pass != nil {
		next.pass = *c.Pass
	}
	if outgrown(next.allow) || outgrown(next.deny) {
		return "", rules{}, false
	}
	if len(allow.add)+len(allow.remove)+len(deny.add)+len(deny.remove) == 0 && next.pass == r.pass {
		return "", r, true
	}
	lines := []string{"-C " + input + " " + jump}
	for _, rule := range gate(r.pass) {
		lines = append(lines, "-C "+gateChain+" "+rule)
	}
	lines = slices.Concat(lines, r.allow.assert(allow), r.deny.assert(deny))
	if last := gate(next.pass); next.pass != r.pass {
		lines = append(lines, fmt.Sprintf("-R %s %d %s", gateChain, len(last), last[len(last)-1]))
	}
	return script(listTable, slices.Concat(lines, r.allow.linesOfChange(allow), r.deny.linesOfChange(deny))), next, true
}

func outgrown(l list) bool { return !l.split && l.size() > splitAbove }
