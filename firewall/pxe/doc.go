// Package pxe writes what the DHCP server of one peer's host needs so that
// machines boot the inspection ramdisk: which addresses are this host's to give
// away, the configuration of dnsmasq, and the script that iPXE runs. It is text
// from values; nothing here touches the host.
package pxe
