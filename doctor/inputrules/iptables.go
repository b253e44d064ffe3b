package inputrules

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ParseSave reads what iptables-save (family ip) or ip6tables-save (ip6) prints.
// Targets whose name begins with skip are rules of ours and do nothing here.
func ParseSave(family string, text []byte, skip string) ([]Table, error) {
	var out []Table
	var t *Table
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20) // a line of rules is short
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "*"):
			out = append(out, Table{Tool: "iptables", Family: family, Name: line[1:], Chains: make(map[string]*Chain)})
			t = &out[len(out)-1]
		case t != nil && strings.HasPrefix(line, ":"):
			t.declare(line[1:])
		case t != nil && strings.HasPrefix(line, "-A "):
			t.append(line, skip)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the rules of iptables: %w", err)
	}
	return out, nil
}

// declare adds a chain from "NAME POLICY [COUNTERS]".
func (t *Table) declare(line string) {
	name, rest, _ := strings.Cut(line, " ")
	t.Chains[name] = &Chain{Drop: strings.HasPrefix(rest, "DROP")}
	if name == "INPUT" && t.Name != "nat" {
		t.Hooks = append(t.Hooks, name)
	}
}

// append adds a rule from "-A CHAIN CONDITIONS -j TARGET".
func (t *Table) append(line, skip string) {
	words := split(line)
	if len(words) < 2 || t.Chains[words[1]] == nil {
		return
	}
	p := saveParser{words: words[2:]}
	r := p.rule(t, skip)
	r.Text = line
	c := t.Chains[words[1]]
	c.Rules = append(c.Rules, r)
}

// split cuts a line into words; quotes hold one together.
func split(line string) []string {
	var out []string
	var word strings.Builder
	quoted, some := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == '"':
			quoted, some = !quoted, true
		case c == ' ' && !quoted:
			if some {
				out = append(out, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteByte(c)
			some = true
		}
	}
	if some {
		out = append(out, word.String())
	}
	return out
}

// saveParser takes the words of one rule.
type saveParser struct {
	words []string
	fits  []Condition
}

// rule takes all words.
func (p *saveParser) rule(t *Table, skip string) Rule {
	var r Rule
	negate := false
	for len(p.words) > 0 {
		word := p.words[0]
		p.words = p.words[1:]
		switch word {
		case "!":
			negate = true
			continue
		case "-m", "--match":
			p.values(1) // its options follow and say what it compares
		case "-j", "-g", "--jump", "--goto":
			target := strings.Join(p.values(1), "")
			r.Act, r.Target = t.target(word, target, skip)
			p.words = nil // what follows is how the target does it
		default:
			p.condition(word, negate)
		}
		negate = false
	}
	r.Fits = p.fits
	return r
}

// values takes the words up to the next option, at most so many.
func (p *saveParser) values(most int) []string {
	n := 0
	for n < len(p.words) && n < most && p.words[n] != "!" && !strings.HasPrefix(p.words[n], "-") {
		n++
	}
	out := p.words[:n]
	p.words = p.words[n:]
	return out
}

// target is what -j NAME does.
func (t *Table) target(option, name, skip string) (Act, string) {
	switch {
	case strings.HasPrefix(name, skip):
		return Nothing, ""
	case name == "ACCEPT":
		return Accept, ""
	case name == "DROP", name == "REJECT":
		return Drop, ""
	case name == "RETURN":
		return Return, ""
	case slices.Contains([]string{"LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "CT", "SET", "TRACE", "AUDIT", "CLASSIFY",
		"TCPMSS", "CHECKSUM"}, name):
		return Nothing, ""
	case t.Chains[name] == nil:
		return Anything, ""
	case option == "-g" || option == "--goto":
		return Goto, name
	}
	return Jump, name
}

// condition takes one option and its values.
func (p *saveParser) condition(option string, negate bool) {
	const most = 8
	values := p.values(most)
	f := p.compare(option, strings.Join(values, " "))
	if f == nil {
		return
	}
	if negate {
		p.fits = append(p.fits, func(k Packet) Answer { return not(f(k)) })
		return
	}
	p.fits = append(p.fits, f)
}

// compare is the condition of an option; nil where it says nothing of packets.
func (p *saveParser) compare(option, value string) Condition {
	list := strings.Split(value, ",")
	switch option {
	case "-i", "--in-interface":
		pattern := value
		if cut, wild := strings.CutSuffix(value, "+"); wild {
			pattern = cut + "*"
		}
		return func(k Packet) Answer { return isInterface(k, pattern) }
	case "-p", "--protocol":
		return func(k Packet) Answer { return answerOf(value == k.Protocol || value == "all") }
	case "-s", "--source":
		return func(k Packet) Answer { return isSource(k, masked(value)) }
	case "--dport", "--destination-port", "--dports", "--destination-ports":
		return anyOf(list, func(k Packet, v string) Answer { return isPort(k.Port, strings.ReplaceAll(v, ":", "-")) })
	case "--ctstate", "--state":
		return anyOf(list, func(_ Packet, v string) Answer { return answerOf(v == "NEW") })
	case "--dst-type":
		return anyOf(list, func(k Packet, v string) Answer { return answerOf(strings.EqualFold(v, k.addressType())) })
	case "--pkt-type":
		return func(k Packet) Answer { return answerOf(strings.EqualFold(value, k.pktType())) }
	case "--comment":
		return nil
	}
	return maybe
}

func anyOf(list []string, is func(Packet, string) Answer) Condition {
	return func(k Packet) Answer {
		out := No
		for _, v := range list {
			out = max(out, is(k, v))
		}
		return out
	}
}

// masked writes ADDRESS/MASK as ADDRESS/BITS.
func masked(text string) string {
	address, mask, found := strings.Cut(text, "/")
	m, err := netip.ParseAddr(mask)
	if !found || err != nil {
		return text
	}
	bits := 0
	for _, b := range m.AsSlice() {
		for ; b&0x80 != 0; b <<= 1 {
			bits++
		}
	}
	return address + "/" + strconv.Itoa(bits)
}
