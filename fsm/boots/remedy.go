package boots

// Remedy says what to do about a finding, by its code; "" of a code that this binary does not
// know. It is no part of the state, so that it may be corrected.
func Remedy(code string) string {
	switch code {
	case "silent":
		return "look at its power, cable, VLAN and boot order; behind a relay this host must be among the relay's servers"
	case "unknown-mac":
		return "compare these with the node's ports in Ironic ('baremetal port list --node NODE'); " +
			"'trivet firewall heard' lists them"
	case "denied":
		return "'trivet firewall explain MAC' shows the rule"
	case "foreign-server":
		return "switch that server off, or keep it from this network; 'trivet doctor --check raw-dhcp' looks for more"
	case "no-offer":
		return "'trivet doctor --check dhcp --check pools' looks at dnsmasq and its pools; 'nft list ruleset' and " +
			"'iptables-save' show the host's own firewall; 'Operation not permitted' in dnsmasq's log is an offer of an address " +
			"that another machine was offered (docs/pxe.md#offers)"
	case "refused-address":
		return "'trivet doctor --check pools' looks at dnsmasq's pools; see its log, too"
	case "no-boot-file":
		return "docs/pxe.md#firmware says which kinds of firmware are served, and what helps others"
	case "not-fetched":
		return "UDP 69 and the ports that TFTP answers from must be open between the machine and this host; " +
			"'trivet doctor --check boot' fetches the files here"
	case "file-refused":
		return "'trivet doctor --check boot' names the files that are missing on each host"
	case "transfer-broken":
		return "look for loss of packets, another MTU, or a firewall between the machine and this host"
	case "loop", "loader-stopped":
		return "its firmware does not run the loader, as with Secure Boot, or the loader does not find its network card: " +
			"switch Secure Boot off, or try another loader (docs/pxe.md#firmware)"
	case "no-kernel":
		return "look at the script: its kernel and ramdisk must be where it says; the machine's screen has iPXE's error"
	case "no-callback":
		return "look at ipa-inspection-callback-url in the kernel's arguments, at the machine's address, clock and trust of " +
			"the API's certificate, and at its console"
	}
	return ""
}
