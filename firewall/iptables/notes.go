package iptables

import "fmt"

// manyMACs is the number of MACs above which a log line warns, since iptables
// compares each packet with all of them.
const manyMACs = 2000

// Notes returns what the operator should know about the rules of this host, a
// sentence each. It may be called concurrently.
func (f *Filter) Notes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notes
}

func (f *Filter) noteSize(macs int) {
	notes := []string{fmt.Sprintf("the rules are kept in the %s back end of iptables", f.tools.backend)}
	if len(f.tools.families) < 2 {
		notes = append(notes, "the kernel has no IPv6; DHCPv6 is not filtered")
	}
	if macs > manyMACs {
		notes = append(notes, fmt.Sprintf(
			"%d MACs are on the lists, and iptables compares each packet with one after the other; above %d firewall.driver: nftables is the better choice",
			macs, manyMACs))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = notes
}
