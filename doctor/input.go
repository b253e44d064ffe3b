package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// judgeInput makes one finding of all that the same rules of one host drop on
// one interface.
func judgeInput(hosts []Facts) []Finding {
	var out []Finding
	for _, f := range hosts {
		var keys []owner
		byOwner := make(map[owner][]Blocked)
		for _, b := range f.Blocked {
			k := ownerOfRules(b)
			if byOwner[k] == nil {
				keys = append(keys, k)
			}
			byOwner[k] = append(byOwner[k], b)
		}
		for _, k := range keys {
			out = append(out, f.dropped(k, byOwner[k]))
		}
	}
	return out
}

// owner is the program that made rules, and the part of them that matters.
type owner struct {
	tool      string // firewalld, ufw, nft or iptables
	zone      string // of firewalld
	table     string // of nft: family and name
	chain     string // of nft and iptables, that the kernel calls
	iface     string
	sixTables bool // ip6tables
}

// ownerOfRules recognises whose rules they are by the names of tables and
// chains.
func ownerOfRules(b Blocked) owner {
	o := owner{tool: b.By.Tool, iface: b.Need.Interface}
	switch {
	case strings.HasPrefix(b.By.Table, "firewalld"):
		o.tool, o.zone = "firewalld", zoneOf(b.By.Trail)
		return o
	case slices.ContainsFunc(b.By.Trail,
		func(c string) bool { return strings.HasPrefix(c, "ufw-") || strings.HasPrefix(c, "ufw6-") }):
		o.tool = "ufw"
		return o
	case zoneOf(b.By.Trail) != "": // firewalld that uses iptables
		o.tool, o.zone = "firewalld", zoneOf(b.By.Trail)
		return o
	}
	o.chain = b.By.Chain
	if len(b.By.Trail) > 0 {
		o.chain = b.By.Trail[0]
	}
	if o.tool == "nft" {
		o.table = b.By.Family + " " + b.By.Table
	} else {
		o.sixTables = b.By.Family == "ip6"
	}
	return o
}

// zoneOf finds firewalld's zone in the names of the chains that it makes for
// each, "" if there is none.
func zoneOf(trail []string) string {
	for _, chain := range trail {
		for _, prefix := range []string{"filter_IN_", "IN_"} {
			if zone, ok := strings.CutPrefix(chain, prefix); ok && !strings.HasPrefix(zone, "policy_") {
				return zone
			}
		}
	}
	return ""
}

// dropped is what one owner's rules drop.
func (f Facts) dropped(o owner, all []Blocked) Finding {
	var what []string
	for _, b := range all {
		text := fmt.Sprintf("%s (%d/%s)", b.Need.What, b.Need.Port, b.Need.Protocol)
		if b.From != "" {
			text += " from " + b.From
		}
		if !slices.Contains(what, text) {
			what = append(what, text)
		}
	}
	by := all[0].By
	where := fmt.Sprintf("%s, table %s %s, chain %s", o.tool, by.Family, by.Table, by.Chain)
	if o.zone != "" {
		where = fmt.Sprintf("firewalld, zone %s", o.zone)
	}
	return newFinding(Error, f, o.remedy(ports(all)), "the firewall of this host drops on %s: %s; it is %s, by %s",
		o.iface, strings.Join(what, ", "), where, cmp.Or(by.Rule, "its policy"))
}

// port is one that is to be let in.
type port struct {
	protocol string
	number   uint16
}

// ports are those of the needs, each once.
func ports(all []Blocked) []port {
	var out []port
	for _, b := range all {
		if p := (port{b.Need.Protocol, b.Need.Port}); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// remedy are the lines that let ports in, in the language of who owns the rules.
func (o owner) remedy(ports []port) []string {
	var out []string
	switch o.tool {
	case "firewalld":
		for _, p := range ports {
			out = append(out, fmt.Sprintf("firewall-cmd --permanent --zone=%s --add-port=%d/%s", o.zone, p.number, p.protocol))
		}
		return append(out, "firewall-cmd --reload")
	case "ufw":
		for _, p := range ports {
			out = append(out, fmt.Sprintf("ufw allow in on %s to any port %d proto %s", o.iface, p.number, p.protocol))
		}
		return out
	case "nft":
		for _, protocol := range []string{"udp", "tcp"} {
			if list := numbers(ports, protocol); len(list) > 0 {
				out = append(out, fmt.Sprintf("nft insert rule %s %s iifname %q %s dport '{ %s }' accept", o.table, o.chain,
					o.iface, protocol, strings.Join(list, ", ")))
			}
		}
		return append(out, "# and the same in the file that is loaded at boot, often /etc/nftables.conf")
	}
	command := "iptables"
	if o.sixTables {
		command = "ip6tables"
	}
	for _, protocol := range []string{"udp", "tcp"} {
		if list := numbers(ports, protocol); len(list) > 0 {
			out = append(out, fmt.Sprintf("%s -I %s -i %s -p %s -m multiport --dports %s -j ACCEPT", command, o.chain, o.iface,
				protocol, strings.Join(list, ",")))
		}
	}
	return append(out, "# and keep it over a reboot, for instance with 'netfilter-persistent save'")
}

func numbers(ports []port, protocol string) []string {
	var out []string
	for _, p := range ports {
		if p.protocol == protocol {
			out = append(out, strconv.Itoa(int(p.number)))
		}
	}
	return out
}
