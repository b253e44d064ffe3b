package dnsmasq

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// modes are the words of dhcp-range that are neither addresses nor times.
var modes = []string{"static", "proxy", "ra-only", "ra-names", "ra-stateless", "ra-advrouter", "slaac", "off-link"}

// dhcpRange reads [tag:…,][set:…,]FIRST[,LAST][,MODE…][,MASK|BITS][,LEASE].
func (p *parser) dhcpRange(at Place, w []string) {
	if len(w) > 0 && !isAddress(w[0]) {
		w = w[1:] // how tags were set once: by their bare name
	}
	if len(w) == 0 || !isAddress(w[0]) {
		p.problem(at, "dhcp-range: it does not begin with an address")
		return
	}
	r := Range{Place: at, First: netip.MustParseAddr(w[0])}
	r.Last = r.First
	for i, word := range w[1:] {
		r.readWord(i == 0, word)
	}
	if r.First.Is6() && r.Bits == 0 {
		r.Bits = 64 // as dnsmasq assumes
	}
	if r.First.Is4() != r.Last.Is4() || r.First.Compare(r.Last) > 0 {
		p.problem(at, "dhcp-range: it does not end behind its beginning")
		return
	}
	p.conf.Ranges = append(p.conf.Ranges, r)
}

// readWord takes one word after the first address.
func (r *Range) readWord(second bool, word string) {
	name, constructed := strings.CutPrefix(word, "constructor:")
	a, err := netip.ParseAddr(word)
	n, noNumber := strconv.Atoi(word)
	switch {
	case constructed:
		r.Constructor = name
	case slices.Contains(modes, word):
		r.Modes = append(r.Modes, word)
	case err == nil && second:
		r.Last = a
	case err == nil && r.Bits == 0 && a.Is4():
		r.Bits, _ = net.IPMask(a.AsSlice()).Size() // 0 for what is no netmask
	case noNumber == nil && r.First.Is6() && n <= 128 && r.Bits == 0:
		r.Bits = n // a lease of so few seconds is none
	}
}

func isAddress(word string) bool {
	_, err := netip.ParseAddr(word)
	return err == nil
}

// untagged are the words of a value without those that say to whom it applies.
func untagged(value string) []string {
	w := words(value)
	for len(w) > 0 {
		kind, _, found := strings.Cut(w[0], ":")
		if !found || !slices.Contains([]string{"tag", "set", "net", "vendor", "encap", "vi-encap"}, kind) {
			break
		}
		w = w[1:]
	}
	return w
}

// pxeService reads [tag:…,]CSA,TEXT[,FILE|TYPE|URL][,SERVER]. A file without a
// dot has .0 added; a type, which is a number, has no file.
func (p *parser) pxeService(at Place, w []string) {
	p.conf.Service = true
	if len(w) < 3 || w[2] == "" {
		return
	}
	if _, err := strconv.Atoi(w[2]); err == nil {
		return
	}
	b := Boot{Place: at, Name: w[2]}
	if !strings.Contains(b.Name, ".") {
		b.Name += ".0"
	}
	if len(w) > 3 {
		b.Server = w[3]
	}
	p.conf.Boots = append(p.conf.Boots, b)
}

// bootOptions are the options of DHCP that name a file to boot.
var bootOptions = []string{"67", "option:67", "option:bootfile-name", "option6:59", "option6:bootfile-url"}
