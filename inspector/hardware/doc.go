// Package hardware says what a machine is made of, by the document that its
// ramdisk sent: disks, memory modules, cards, interfaces, cables, firmware. It
// compares two documents of one machine, holds one against what was ordered, and
// tells where each interface is plugged in.
//
// A part is known by what cannot be shared: a serial number, a WWN, a MAC. Names
// such as sda or eth0, the order of lists, temperatures, clock rates and times
// differ from boot to boot, and are read by no rule. What one of two documents
// does not tell, as its collector was not enabled or no switch was heard, is no
// change.
//
// A ramdisk is not trusted: each list, text and number of parts has a bound, and
// what has another type than expected counts as not told.
package hardware
