package inputrules

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// nftMatch is the condition of one match.
func nftMatch(raw json.RawMessage) Condition {
	var m struct {
		Op          string
		Left, Right json.RawMessage
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return maybe
	}
	return nftCompare(m.Left, m.Op, m.Right)
}

// selector is the left side of a match: what of the packet is looked at.
type selector struct {
	Meta    struct{ Key string }
	Payload struct{ Protocol, Field string }
	CT      struct{ Key string } `json:"ct"`
	FIB     struct {
		Result string
		Flags  json.RawMessage
	} `json:"fib"`
}

// nftCompare is the condition that a selector compares with a value so.
func nftCompare(left json.RawMessage, op string, right json.RawMessage) Condition {
	var s selector
	if err := json.Unmarshal(left, &s); err != nil {
		return maybe
	}
	is := s.is()
	if is == nil || !slices.Contains([]string{"==", "!=", "in", ""}, op) {
		return maybe
	}
	var value any
	if err := json.Unmarshal(right, &value); err != nil {
		return maybe
	}
	values, ok := nftValue(value)
	if !ok {
		return maybe
	}
	return func(p Packet) Answer {
		out := No
		for _, v := range values {
			out = max(out, is(p, v))
		}
		if op == "!=" {
			return not(out)
		}
		return out
	}
}

// nftValue returns what the right side of a match stands for, each value as text;
// a range as FIRST-LAST and a prefix as ADDRESS/BITS.
func nftValue(v any) ([]string, bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, len(v) > 0 && v[0] != '@' // what a named set holds is not known
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, true
	case []any:
		return nftList(v)
	case map[string]any:
		if set, ok := v["set"].([]any); ok {
			return nftList(set)
		}
		if r, ok := v["range"].([]any); ok && len(r) == 2 {
			return []string{fmt.Sprintf("%v-%v", r[0], r[1])}, true
		}
		if p, ok := v["prefix"].(map[string]any); ok {
			return []string{fmt.Sprintf("%v/%v", p["addr"], p["len"])}, true
		}
		if e, ok := v["elem"].(map[string]any); ok {
			return nftValue(e["val"])
		}
	}
	return nil, false
}

func nftList(list []any) ([]string, bool) {
	var out []string
	for _, v := range list {
		values, ok := nftValue(v)
		if !ok {
			return nil, false
		}
		out = append(out, values...)
	}
	return out, true
}

// is compares what the selector looks at with one value; nil where that is not
// known.
func (s selector) is() func(Packet, string) Answer {
	switch {
	case s.Meta.Key == "iifname" || s.Meta.Key == "iif":
		return func(p Packet, v string) Answer { return isInterface(p, v) }
	case s.Meta.Key == "l4proto", s.Payload.Protocol == "ip" && s.Payload.Field == "protocol",
		s.Payload.Protocol == "ip6" && s.Payload.Field == "nexthdr":
		return func(p Packet, v string) Answer { return answerOf(v == p.Protocol) }
	case s.Meta.Key == "nfproto":
		return func(p Packet, v string) Answer { return answerOf((v == "ipv6") == p.Six) }
	case s.Meta.Key == "pkttype":
		return func(p Packet, v string) Answer { return answerOf(v == p.pktType()) }
	case s.CT.Key == "state":
		return func(_ Packet, v string) Answer { return answerOf(v == "new") }
	case s.CT.Key == "status": // of what is new, and for this host itself
		return func(Packet, string) Answer { return No }
	case s.FIB.Result == "type" && string(s.FIB.Flags) != "" && !containsSource(s.FIB.Flags):
		return func(p Packet, v string) Answer { return answerOf(v == p.addressType()) }
	case s.Payload.Field == "dport":
		return func(p Packet, v string) Answer {
			if s.Payload.Protocol != p.Protocol && s.Payload.Protocol != "th" {
				return No
			}
			return isPort(p.Port, v)
		}
	case s.Payload.Field == "saddr" && (s.Payload.Protocol == "ip" || s.Payload.Protocol == "ip6"):
		return func(p Packet, v string) Answer {
			if p.Six != (s.Payload.Protocol == "ip6") {
				return No
			}
			return isSource(p, v)
		}
	case slices.Contains([]string{"icmp", "icmpv6", "igmp", "esp", "ah", "sctp", "dccp"}, s.Payload.Protocol):
		return func(Packet, string) Answer { return No }
	}
	return nil
}

func containsSource(flags json.RawMessage) bool {
	var list []string
	if json.Unmarshal(flags, &list) != nil {
		list = []string{string(flags)}
	}
	return !slices.Equal(list, []string{"daddr"}) && !slices.Equal(list, []string{`"daddr"`})
}

// pktType is how the kernel calls the frame.
func (p Packet) pktType() string {
	if p.Cast == "unicast" {
		return "host"
	}
	return p.Cast
}

// addressType is how the kernel's routes call the destination.
func (p Packet) addressType() string {
	if p.Cast == "unicast" {
		return "local"
	}
	return p.Cast
}

// isInterface compares names; one may end in the wildcards of nft (*) or of
// iptables, which is turned into it.
func isInterface(p Packet, pattern string) Answer {
	fits, err := path.Match(pattern, p.Interface)
	return answerOf(err == nil && fits)
}

// isPort compares with a number, a range as FIRST-LAST, or a name of which
// there are too many to know.
func isPort(port uint16, text string) Answer {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	first, errFirst := strconv.ParseUint(from, 10, 16)
	last, errLast := strconv.ParseUint(to, 10, 16)
	if errFirst != nil || errLast != nil {
		return Maybe
	}
	return answerOf(first <= uint64(port) && uint64(port) <= last)
}

// isSource compares with an address, a prefix or a range.
func isSource(p Packet, text string) Answer {
	if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Bits() == 0 {
		return Yes
	}
	if !p.Source.IsValid() {
		return Maybe
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return answerOf(prefix.Contains(p.Source))
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return answerOf(a == p.Source)
	}
	return Maybe
}
