// Package fence switches machines off, on, and asks whether they are on:
// through Ironic, through Redfish, or through a program of the fence-agents
// collection. It implements failover.Device and failover.Fences, and reads the
// file that says which machine is reached how (fence.yaml).
//
// The flow of a call is: device, which finds the machine in its list, bounds each
// try, tries again and names all of it in the error; a method (ironic, redfish,
// agent), which makes one try.
//
// Every method errs to one side. "Off" is said only where something that was just
// asked says so in so many words; all that is odd, silent or contradictory is
// unknown. Power is taken away with what cannot be refused by the operating
// system, and never with a reset or a cycle, after which nobody could see that the
// machine was off.
//
// IPMI is left to fence_ipmilan and ipmitool: their years with real BMCs are worth
// more than a protocol of our own in less code.
//
// Passwords stand in files, which are read for each try; no error of this package
// quotes one.
package fence
