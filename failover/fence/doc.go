// Package fence switches machines off and on, and reads whether they are on: through
// Ironic, through Redfish, or through a program of the fence-agents collection. It
// implements failover.Device and failover.Fences, and reads the file that says which
// machine is reached how (fence.yaml).
//
// A call goes through two layers: device finds the machine in its list, bounds each try,
// tries again and names all of it in the error; a method (ironic, redfish, agent) makes
// one try. A type of device is a file with its method and its row in the registry
// (kinds.go): keys of the file, how the method is made, which machine an entry means.
//
// Every method errs to one side. "Off" is reported only when the device, asked just now,
// says so explicitly; any odd, missing or contradictory answer is "unknown". Power is
// taken away in a way that the operating system cannot refuse, and never with a reset or
// a cycle, after which no reading could show that the machine was off.
//
// IPMI is left to fence_ipmilan and ipmitool: their years with real BMCs are worth more
// than an implementation of our own.
//
// Passwords are in files, which are read for each try. No error of this package quotes
// one.
package fence
