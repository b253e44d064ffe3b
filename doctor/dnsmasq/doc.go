// Package dnsmasq reads what the configuration of dnsmasq says of DHCP and of
// boot files, as dnsmasq 2.90 reads it, for people who want to know before it
// matters. It keeps the place of every line and computes only: files are read
// through what the caller hands in.
package dnsmasq
