package dnsmasq

import (
	"fmt"
	"net/netip"
	"slices"
)

// Bounds of one configuration. What is beyond them is named as a Problem.
const (
	maxFiles = 256 // with what they include
	maxLines = 100_000
	maxDepth = 8 // of files that include each other
)

// Place is a line of a file, counted from 1.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// String is FILE:LINE, as compilers write it.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Range is one dhcp-range: addresses from First to Last, both included.
type Range struct {
	Place
	First netip.Addr `json:"first"`
	Last  netip.Addr `json:"last"`
	// Bits is the length of the subnet's prefix, 0 where the line says nothing:
	// then it is that of the interface with such an address.
	Bits        int      `json:"bits,omitempty"`
	Modes       []string `json:"modes,omitempty"`       // static, proxy, ra-only, slaac, …
	Constructor string   `json:"constructor,omitempty"` // interface whose prefixes First and Last are added to
}

// Gives reports whether machines get addresses from the range that nothing else
// assigns to them. A static range serves the hosts that are written down, and
// ra-only, ra-stateless and proxy give nothing away.
func (r Range) Gives() bool {
	none := func(mode string) bool {
		return slices.Contains([]string{"static", "proxy", "ra-only", "ra-stateless"}, mode)
	}
	return !slices.ContainsFunc(r.Modes, none)
}

// Overlaps reports whether both give away some address.
func (r Range) Overlaps(o Range) bool {
	return r.First.Is4() == o.First.Is4() && r.First.Compare(o.Last) <= 0 && o.First.Compare(r.Last) <= 0
}

// Contains reports whether a is within the range.
func (r Range) Contains(a netip.Addr) bool {
	return r.First.Is4() == a.Is4() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0
}

// On returns the range with the addresses that a Constructor makes of it on an
// interface with the given prefix. A range without one is as it was.
func (r Range) On(prefix netip.Prefix) Range {
	if r.Constructor == "" || !prefix.Addr().Is6() {
		return r
	}
	r.First, r.Last = joined(prefix, r.First), joined(prefix, r.Last)
	return r
}

// joined is the network of prefix with the host part of low.
func joined(prefix netip.Prefix, low netip.Addr) netip.Addr {
	network, host := prefix.Masked().Addr().As16(), low.As16()
	for i := range host {
		for bit := range 8 {
			if 8*i+bit >= prefix.Bits() {
				mask := byte(0x80) >> bit
				network[i] |= host[i] & mask
			}
		}
	}
	return netip.AddrFrom16(network)
}

// Boot is a file that dnsmasq has machines boot.
type Boot struct {
	Place
	Name   string `json:"name"`             // in the TFTP root, or a URL
	Server string `json:"server,omitempty"` // that has it; empty: this host
	Six    bool   `json:"six,omitempty"`    // machines are told over IPv6
}

// Problem is something that keeps the configuration from being known whole.
type Problem struct {
	Place
	What string `json:"what"`
}

// Config is what a configuration says.
type Config struct {
	Files      []string  `json:"files,omitempty"` // that were read, in order
	Ranges     []Range   `json:"ranges,omitempty"`
	Boots      []Boot    `json:"boots,omitempty"`
	Interfaces []string  `json:"interfaces,omitempty"` // that are served; none: all
	Except     []string  `json:"except,omitempty"`     // and those that are not
	TFTP       bool      `json:"tftp,omitempty"`       // it serves files, too
	TFTPRoot   string    `json:"tftp_root,omitempty"`
	Service    bool      `json:"service,omitempty"` // pxe-service: it answers on port 4011
	HostsDirs  []string  `json:"hosts_dirs,omitempty"`
	Problems   []Problem `json:"problems,omitempty"`
}
