// Package labtest attacks real trivet processes on one machine: three peers
// with their own data directories, killed, stopped, frozen, partitioned and fed
// with nonsense. Peers live on ports of the loopback interface, or each in a
// network namespace of its own (Net). Its tests carry the build tag e2e ("make
// e2e"); some need root, for mounts, namespaces and packages.
//
// Introspection is tried against an unmodified OpenStack Ironic, which the lab
// installs and starts by itself (openstack.Ironic). Between it and the peers stands a
// wiretap.Tap, which writes down what every peer sends and spoils it as a test says;
// what it sees switched on boots and calls back (SiteLab.Fleet). Recorded
// conversations with the original ironic-inspector are replayed through the peers
// (Golden).
//
// A gate is tried with a DHCP server behind every host's filter. A client asks
// every 50 ms for an offer and for who has the floating IP, over IPv4, IPv6 or
// through a relay, and what it was answered is the verdict: gaps, and two hosts at
// once.
//
// Failover is tried on a real Kubernetes control plane whose kube nodes can lose
// their power (kubelab.Cluster).
//
// What comes in a package is tried where it will live: on a Debian with a systemd
// of its own, in a container (System), and on three of them as an operator sets
// them up (Packaged).
//
// What namespaces cannot show is tried on hosts with kernels and clocks of their
// own, three emulated machines (guest, ownLab): wall clocks are set, machines are
// paused and lose their power, and a kernel lacks a part. "make e2e-pxe" does it.
//
// Tests run next to each other (testing.T.Parallel), because they wait most of the
// time: a lab has its own directories, ports and namespaces. Those that measure for
// how long something is away run in a process of their own, before the others
// start Ironics and compilers (the table of targets in test/gate has their names); TestDrill and TestUpgrade
// run alone.
//
// The packages below this one know nothing of Trivet's peers: program starts processes
// and installs packages, httpapi asks APIs, and wiretap, openstack and kubelab are above.
//
// A test speaks in verbs of a Lab and its Peers. It never sleeps: it waits for
// what must come true and fails, with the output of every process, when it
// does not in time.
package labtest
