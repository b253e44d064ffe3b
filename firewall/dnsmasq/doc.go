// Package dnsmasq keeps the lists of the PXE filter where dnsmasq itself looks: as
// files of its dhcp-hostsdir (firewall.Chains), for sites whose machines are told
// from one another by what DHCP says, behind relays too. dnsmasq compares the
// client's hardware address, never the frame's.
//
//	52:54:00:00:00:01   # trivet: allowed           introspected
//	                    52:54:00:00:00:01
//	52:54:00:00:00:11   # trivet: denied            known to Ironic
//	                    52:54:00:00:00:11,ignore
//	52:54:00:00:00:12   # trivet: left              on neither list any more
//	                    52:54:00:00:00:12,ignore    as unknown machines are
//	unknown             # trivet: unknown machines
//	                    *:*:*:*:*:*,ignore          the pass rule: without ignore
//
// A MAC that is on both lists is allowed. The first line says what the second
// does not: which of the lists name the MAC.
//
// # The lease
//
// Files open and close nothing in time: who is killed leaves them as they were.
// So these chains are always below a lease in the kernel, as those of driver
// iptables are; without it they must not be used.
//
// # Rewritten, never removed
//
// dnsmasq (2.90, observed) learns by inotify of files that are written or moved
// into the directory, within milliseconds, and takes the newest word on a MAC. Of
// a file that is removed, emptied or made unreadable it keeps the last word. A
// MAC that leaves both lists therefore keeps its file, with the verdict of an
// unknown machine, which is rewritten when that changes. Only Prepare removes
// files, and only before dnsmasq starts: a file that is removed under a running
// dnsmasq is gone from the directory, not from its memory.
//
// For the same reason a directory that is not there is not made but by Prepare:
// dnsmasq does not start without one, and would not look at a new one of that
// name. Chains fail then, which keeps the door shut, until dnsmasq was restarted.
//
// # One file at a time
//
// There is no commit over several files, so their order is one in which no
// moment lets through what neither before nor after may pass: the pass rule is
// taken out first and put in last, and denials go before permissions. dnsmasq
// keeps that order. A draft is written in the same directory, under a name that
// dnsmasq passes over, and renamed: half a denial would be a permission.
//
// Nothing is synced to the disk. The directory does not outlive a boot: it is
// best in memory (firewall.dhcp_hostsdir is in /run), and Prepare empties any.
//
// # What it costs
//
// A file takes a page of memory in /run, so 10,000 MACs take 40 MB. dnsmasq keeps
// 160 bytes for every time that a file was ever written, until it is restarted or
// gets SIGHUP, and looks through them for every request. The kernel holds 16,384
// events for dnsmasq, two a file, and what comes on top of that is lost: long
// lists are written in bursts, with pauses.
//
// # What it cannot do
//
// A dhcp-host of the operator's that names a client by its identifier goes before
// all of these. A DHCPv6 client whose hardware address dnsmasq cannot find out,
// behind a relay that does not tell it, matches no file, not even that of unknown
// machines: on the leader's host it is answered.
package dnsmasq
