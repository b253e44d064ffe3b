// Package recorder hears, without taking part, how machines boot that are under
// introspection: what they ask by DHCP, what they are offered and by whom, which boot
// files they fetch and how that ends. It says why a machine does not come up
// (docs/pxe.md#recorder).
//
// No packet is delayed by it, and nothing that Trivet promises depends on it: any machine on
// the network could have sent what it hears.
package recorder
