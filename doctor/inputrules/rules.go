package inputrules

import "net/netip"

// Packet is the first one of something new that comes in from elsewhere.
type Packet struct {
	Interface string
	Protocol  string // tcp or udp
	Port      uint16 // that it is for
	Six       bool   // IPv6
	Cast      string // unicast, broadcast or multicast: how it is addressed
	// Source is where it comes from; invalid: anywhere.
	Source netip.Addr
}

// Table is a table of rules with the chains that see what comes in.
type Table struct {
	Tool   string // whose language it is read from: nft or iptables
	Family string // ip, ip6 or inet
	Name   string
	Chains map[string]*Chain
	// Hooks are the chains that the kernel calls for packets to this host.
	Hooks []string
}

// Chain is a list of rules. What none of them decides goes back to the caller
// or, in a chain that the kernel calls, by the policy.
type Chain struct {
	Drop  bool // the policy
	Rules []Rule
}

// Rule is what happens to a packet that fits all conditions.
type Rule struct {
	Fits   []Condition
	Act    Act
	Target string // of jump and goto
	Text   string // as people read it
}

// Condition says whether a packet fits.
type Condition func(Packet) Answer

// Answer is what is known of a condition.
type Answer int

// The answers.
const (
	No Answer = iota
	Maybe
	Yes
)

// Act is what a rule does.
type Act int

// The acts. Anything is what may do any of them.
const (
	Nothing Act = iota
	Accept
	Drop
	Return
	Jump
	Goto
	Anything
)

// Verdict is why a packet is kept out.
type Verdict struct {
	Tool, Family, Table string
	Chain               string   // that decided
	Rule                string   // the rule that did; empty: the policy of the chain
	Trail               []string // chains that it surely went through
}

// Blocked says why the packet is surely kept out by one of the tables. ok is
// false where it may come through.
func Blocked(tables []Table, p Packet) (v Verdict, ok bool) {
	for _, t := range tables {
		if t.Family == "ip" && p.Six || t.Family == "ip6" && !p.Six {
			continue
		}
		for _, name := range t.Hooks {
			w := walk{table: t, packet: p, left: maxSteps}
			if end := w.base(name); !end.accept {
				return Verdict{Tool: t.Tool, Family: t.Family, Table: t.Name, Chain: end.chain, Rule: end.rule, Trail: w.trail},
					true
			}
		}
	}
	return Verdict{}, false
}

// Bounds of one decision; beyond them anything may happen.
const (
	maxSteps = 100_000 // rules that are looked at
	maxDepth = 32      // of jumps; the kernel has 16
)

// ends are the ways in which a chain may end for the packet.
type ends struct {
	accept, drop, back bool
	chain, rule        string // that dropped it last
}

// walk leads one packet through one table.
type walk struct {
	table  Table
	packet Packet
	left   int
	trail  []string
}

// base walks a chain that the kernel calls.
func (w *walk) base(name string) ends {
	c, ok := w.table.Chains[name]
	if !ok {
		return ends{accept: true}
	}
	out := w.chain(name, c, 0, true)
	if out.back && c.Drop {
		out.drop, out.chain, out.rule = true, name, ""
	}
	out.accept = out.accept || out.back && !c.Drop
	return out
}

func (w *walk) chain(name string, c *Chain, depth int, sure bool) ends {
	if sure {
		w.trail = append(w.trail, name)
	}
	var out ends
	for _, r := range c.Rules {
		if w.left--; w.left < 0 || depth > maxDepth {
			out.accept = true
			return out
		}
		fits := r.fits(w.packet)
		if fits == No {
			continue
		}
		if w.act(name, r, depth, sure && fits == Yes, &out) && fits == Yes {
			return out
		}
	}
	out.back = true
	return out
}

// act adds how the rule may end it, and reports whether it surely does.
func (w *walk) act(name string, r Rule, depth int, sure bool, out *ends) (final bool) {
	switch r.Act {
	case Accept, Anything:
		out.accept = true
		return r.Act == Accept
	case Drop:
		out.drop, out.chain, out.rule = true, name, r.Text
		return true
	case Return:
		out.back = true
		return true
	case Jump, Goto:
		next, ok := w.table.Chains[r.Target]
		if !ok {
			out.accept = true // not known here
			return false
		}
		end := w.chain(r.Target, next, depth+1, sure)
		out.accept = out.accept || end.accept
		if end.drop {
			out.drop, out.chain, out.rule = true, end.chain, end.rule
		}
		if r.Act == Goto {
			out.back = out.back || end.back
			return true
		}
		return !end.back
	}
	return false
}

// fits is the least that any condition says.
func (r Rule) fits(p Packet) Answer {
	out := Yes
	for _, f := range r.Fits {
		out = min(out, f(p))
		if out == No {
			break
		}
	}
	return out
}

// answerOf turns what is certain into an Answer.
func answerOf(fits bool) Answer {
	if fits {
		return Yes
	}
	return No
}

// not turns an Answer around.
func not(a Answer) Answer { return Yes - a }

func maybe(Packet) Answer { return Maybe }
