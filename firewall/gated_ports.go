package firewall

// Gated are the UDP ports that the door closes: DHCP, DHCPv6, and the PXE boot
// server. TFTP and HTTP are not gated, so that a boot under way finishes.
func Gated() []uint16 { return []uint16{67, 547, 4011} }
