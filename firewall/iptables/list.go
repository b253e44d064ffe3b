package iptables

import (
	"slices"
	"strconv"
)

const (
	// splitAbove is the longest list that is kept in one chain, in MACs. To
	// change one rule, the nf_tables back end reads and compares all rules of
	// its chain: 200 ms at 10,000 of them, 30 ms in a sixteenth.
	splitAbove = 500
	// parts is the number of chains of a longer list.
	parts = 16
)

// list is one of the two lists, as its chains hold it.
type list struct {
	chain   string
	verdict string // ACCEPT or DROP
	split   bool
	// macs are the rules of each chain that holds some, in their order.
	macs map[string][]string
}

func newList(chain, verdict string, macs []string) list {
	l := list{chain: chain, verdict: verdict, split: len(macs) > splitAbove, macs: make(map[string][]string)}
	for _, mac := range macs {
		in := l.chainOf(mac)
		l.macs[in] = append(l.macs[in], mac)
	}
	return l
}

// chainOf is the chain in which a MAC is, or would be.
func (l list) chainOf(mac string) string {
	if !l.split {
		return l.chain
	}
	return part(l.chain, digest(mac))
}

// digest is the number of a MAC's part: all its hexadecimal digits, added
// without carry. MACs of one order come in steps of 2, 4 or 16, which leave a
// digit as it is; some other digit counts for them.
func digest(mac string) (sum int) {
	for i := range len(mac) {
		switch c := mac[i]; {
		case '0' <= c && c <= '9':
			sum ^= int(c - '0')
		case 'a' <= c && c <= 'f':
			sum ^= int(c-'a') + 10
		}
	}
	return sum % parts
}

func part(chain string, i int) string { return chain + "-" + strconv.FormatInt(int64(i), parts) }

// partsOf names the parts of a list's chain.
func partsOf(chain string) (names []string) {
	for i := range parts {
		names = append(names, part(chain, i))
	}
	return names
}

func (l list) has(mac string) bool { return slices.Contains(l.macs[l.chainOf(mac)], mac) }

// macSource begins a rule that matches one MAC, in the words of iptables-save.
const macSource = "-m mac --mac-source "

func (l list) rule(mac string) string { return macSource + mac + " -j " + l.verdict }

// size is the number of MACs.
func (l list) size() (n int) {
	for _, macs := range l.macs {
		n += len(macs)
	}
	return n
}

// all returns the MACs, sorted.
func (l list) all() (macs []string) {
	for _, some := range l.macs {
		macs = append(macs, some...)
	}
	slices.Sort(macs)
	return macs
}

// change is what makes one list of another.
type change struct{ add, remove []string }

// difference leaves out what is the case already, and repeats.
func (l list) difference(add, remove []string) (c change) {
	for _, mac := range add {
		if !l.has(mac) && !slices.Contains(c.add, mac) {
			c.add = append(c.add, mac)
		}
	}
	for _, mac := range remove {
		if l.has(mac) && !slices.Contains(c.remove, mac) {
			c.remove = append(c.remove, mac)
		}
	}
	return c
}

// after is the list after a change.
func (l list) after(c change) list {
	next := l
	next.macs = make(map[string][]string, len(l.macs))
	for chain, macs := range l.macs {
		next.macs[chain] = slices.Clone(macs)
	}
	for _, mac := range c.remove {
		in := l.chainOf(mac)
		next.macs[in] = slices.DeleteFunc(next.macs[in], func(m string) bool { return m == mac })
	}
	for _, mac := range c.add {
		in := l.chainOf(mac)
		next.macs[in] = append(next.macs[in], mac)
	}
	return next
}

// declare are the lines that make or empty the list's chains. All parts are
// made, whether the list has any or not: those of an earlier one must go.
func (l list) declare() []string {
	lines := []string{declare(l.chain)}
	for _, chain := range partsOf(l.chain) {
		lines = append(lines, declare(chain))
	}
	return lines
}

// fill are the lines of all rules.
func (l list) fill() (lines []string) {
	for _, chain := range partsOf(l.chain) {
		if l.split {
			lines = append(lines, "-A "+l.chain+" -j "+chain)
		} else {
			lines = append(lines, "-X "+chain)
		}
	}
	for _, chain := range append([]string{l.chain}, partsOf(l.chain)...) {
		for _, mac := range l.macs[chain] {
			lines = append(lines, "-A "+chain+" "+l.rule(mac))
		}
	}
	return lines
}

// assert are the lines that fail where the chains of these MACs are not as they
// should be: reached, and not emptied.
func (l list) assert(c change) (lines []string) {
	var seen []string
	for _, mac := range slices.Concat(c.add, c.remove) {
		chain := l.chainOf(mac)
		if slices.Contains(seen, chain) {
			continue
		}
		seen = append(seen, chain)
		if l.split {
			lines = append(lines, "-C "+l.chain+" -j "+chain)
		}
		if macs := l.macs[chain]; len(macs) > 0 {
			lines = append(lines, "-C "+chain+" "+l.rule(macs[0]))
		}
	}
	return lines
}

// linesOfChange are the lines of a change.
func (l list) linesOfChange(c change) (lines []string) {
	for _, mac := range c.add {
		lines = append(lines, "-A "+l.chainOf(mac)+" "+l.rule(mac))
	}
	for _, mac := range c.remove {
		lines = append(lines, "-D "+l.chainOf(mac)+" "+l.rule(mac))
	}
	return lines
}
