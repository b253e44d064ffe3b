package iptables

import "fmt"

// Notes returns what the operator should know about the rules of this host, a
// sentence each.
func (f *Filter) Notes() []string {
	notes := []string{fmt.Sprintf("the rules are kept in the %s back end of iptables", f.tools.backend)}
	if len(f.tools.families) < 2 {
		notes = append(notes, "the kernel has no IPv6; DHCPv6 is not filtered")
	}
	return notes
}
