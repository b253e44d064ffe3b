// Package rawsocket sends and receives Ethernet frames on one interface of this host,
// for what no UDP or TCP socket can say: to neighbours in the name of an address
// (floatingip), to DHCP servers as another machine (firewall/probe).
//
// A socket belongs to the network namespace of the thread that opens it, and to
// the interface as it is at that moment: one that goes and comes back needs a new
// socket, so that sockets here are opened for one question. To open one takes
// CAP_NET_RAW.
package rawsocket
