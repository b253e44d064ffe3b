// Package host gathers what doctor judges, on the host where it runs: interfaces
// and sockets from the kernel, rules of packet filters by the programs that
// list them, configurations from their files, and boot files by fetching them
// as a machine would.
//
// It changes nothing and needs no cluster. Everything has a bound of time and
// of size. What it may not see, as a service without rights, is a Gap and no
// error: a peer under systemd sees less of a host than root does.
package host
