package main

// firmwareMutants leave firmware with an address and no boot file.
func firmwareMutants() []Mutant {
	return []Mutant{
		{
			Name: "http-boot-without-vendor-class", Promise: "install", File: "firewall/pxe/dnsmasq.go",
			Old:     "dhcp-option-force=tag:!ipxe,tag:%s,option:vendor-class,HTTPClient",
			New:     "dhcp-option-force=tag:!ipxe,tag:%s,option:vendor-class,PXEClient",
			Package: "./firewall/pxe", Run: "^TestConfigByHTTP$", Assertion: "http-boot:",
		},
		{
			Name: "http-boot-over-ipv6-at-an-ipv4-server", Promise: "install", File: "firewall/pxe/dnsmasq.go",
			Old:     "err != nil || ip.Is4() != six {",
			New:     "err != nil || ip.IsValid() {",
			Package: "./firewall/pxe", Run: "^TestConfigByHTTP$", Assertion: "http-boot: no",
		},
		{
			Name: "vendor-class-without-an-enterprise", Promise: "install", File: "firewall/pxe/dnsmasq.go",
			Old:     "option6:16,tr,HTTPClient",
			New:     "option6:16,HTTPClient",
			Package: "./firewall/pxe", Run: "^TestConfigByHTTP$", Assertion: "http-boot: no",
		},
		{
			Name: "nameless-firmware-not-served", Promise: "install", File: "firewall/pxe/dnsmasq.go",
			Old:     "dhcp-boot=tag:!ipxe,tag:pxe,tag:!named,%s",
			New:     "dhcp-boot=tag:!ipxe,tag:pxe,tag:named,%s",
			Package: "./firewall/pxe", Run: "^TestConfig$", Assertion: "differs",
		},
	}
}
