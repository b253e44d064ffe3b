package iptables

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/trivet-ha/trivet/firewall"
)

// Our chains. Parts of a long list add "-" and a hexadecimal digit.
const (
	gateChain  = "TRIVET-PXE"
	allowChain = "TRIVET-ALLOW"
	denyChain  = "TRIVET-DENY"
	leaseChain = "TRIVET-LEASE" // of Trivet 0.1; only removed
)

// Tables in which they are.
const (
	listTable  = "filter"
	leaseTable = "mangle"
)

const (
	// input is the built-in chain from which ours are entered.
	input = "INPUT"
	// commit ends a table in what iptables-restore reads.
	commit = "COMMIT"
	// maxInterface is the kernel's bound of an interface's name, in bytes.
	maxInterface = 15
)

// check refuses a layout that iptables cannot express.
func check(l firewall.Layout) error {
	switch l.Match {
	case firewall.MatchEther:
	case firewall.MatchChaddr:
		return fmt.Errorf("firewall.match: %s needs driver nftables; write firewall.driver: nftables, or firewall.match: %s",
			firewall.MatchChaddr, firewall.MatchEther)
	default:
		return fmt.Errorf("firewall.match: %.80q is not known; write %s", l.Match, firewall.MatchEther)
	}
	name := l.Interface
	if name == "" || len(name) > maxInterface {
		return fmt.Errorf("firewall.interface: %.80q cannot be a network interface: write 1 to %d characters", name,
			maxInterface)
	}
	// A plus sign at the end means all interfaces that begin like this.
	if strings.HasSuffix(name, "+") || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "!") ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'\`, r) }) {
		return fmt.Errorf(
			"firewall.interface: iptables cannot take %q for the name of one interface; rename it, or write firewall.driver: nftables",
			name)
	}
	return nil
}

// match is what a packet must be to enter our chains.
func match(l firewall.Layout) []string {
	var ports []string
	for _, p := range firewall.Gated() {
		ports = append(ports, strconv.Itoa(int(p)))
	}
	return []string{"-i", l.Interface, "-p", "udp", "-m", "multiport", "--dports", strings.Join(ports, ",")}
}

// jump is the rule in INPUT that leads to one of our chains.
func jump(l firewall.Layout, chain string) []string { return append(match(l), "-j", chain) }

// jumpText is the same in the words of iptables-save.
func jumpText(l firewall.Layout, chain string) string { return strings.Join(jump(l, chain), " ") }

// script is what iptables-restore reads to change one table, in one commit.
func script(name string, lines []string) string {
	return "*" + name + "\n" + strings.Join(lines, "\n") + "\n" + commit + "\n"
}

// declare is the line that makes or empties a chain.
func declare(chain string) string { return ":" + chain + " - [0:0]" }
