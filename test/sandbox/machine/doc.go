// Package machine simulates bare-metal machines that boot an inspection
// ramdisk: switched on, a machine takes a while to boot, posts its inventory
// to the callback addresses as the ramdisk does, and waits to be switched off.
//
// The inventories are as large and as repetitive as real ones, and the same
// for a node whenever it boots; Inventory alone serves tests and benchmarks
// that post by themselves.
package machine
