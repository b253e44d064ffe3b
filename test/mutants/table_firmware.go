package main

// firmwareMutants leave firmware with an address and no boot file.
func firmwareMutants() []Mutant {
	return []Mutant{
		{
			Name: "http-boot-without-vendor-class", Promise: "install", File: "firewall/pxe/dnsmasq.go",
			Old:     "dhcp-option-force=tag:!ipxe,tag:http-%s,option:vendor-class,HTTPClient",
			New:     "dhcp-option-force=tag:!ipxe,tag:http-%s,option:vendor-class,PXEClient",
			Package: "./firewall/pxe", Run: "^TestConfigByHTTP$", Assertion: "http-boot:",
		},
		{
			Name: "nameless-firmware-not-served", Promise: "install", File: "firewall/pxe/dnsmasq.go",
			Old:     "dhcp-boot=tag:!ipxe,tag:pxe,tag:!named,%s",
			New:     "dhcp-boot=tag:!ipxe,tag:pxe,tag:named,%s",
			Package: "./firewall/pxe", Run: "^TestConfig$", Assertion: "differs",
		},
	}
}
