// Package dnsmasq reads the parts of dnsmasq's configuration that concern DHCP and
// boot files, as dnsmasq 2.90 reads them. It records the place of every line. It
// only computes: the caller hands in a function that reads files.
package dnsmasq
