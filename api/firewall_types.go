package api

import "github.com/trivet-ha/trivet/fsm/fencing"

// Firewall is how the PXE filter of one host stands, as its peer says.
type Firewall struct {
	Peer      string       `json:"peer"`
	ID        string       `json:"id"`
	Self      bool         `json:"self"`            // it is the peer that answers
	Error     string       `json:"error,omitempty"` // why it said nothing; the rest is empty then
	Role      string       `json:"role,omitempty"`
	Driver    string       `json:"driver,omitempty"`
	Interface string       `json:"interface,omitempty"`
	Door      Door         `json:"door"`
	Address   FloatingIP   `json:"floating_ip"`
	Rules     Rules        `json:"rules"`
	Ports     PortList     `json:"ports"`
	Bypass    []DHCPServer `json:"dhcp_bypass,omitempty"` // that no rule of another host stops
	SelfTest  string       `json:"self_test_problem,omitempty"`
}

// Door is the pass rule's lease on one host.
type Door struct {
	Open     bool          `json:"open"`
	Why      string        `json:"why,omitempty"`   // it is shut
	Since    string        `json:"since,omitempty"` // it is open, or shut
	Token    fencing.Token `json:"token,omitempty"` // of the leadership that this peer acts under
	Swaps    uint64        `json:"swaps"`           // how often the lease was opened or held
	Lapses   uint64        `json:"lapses"`          // how often the kernel had ended it first
	Recorded Recorded      `json:"recorded"`
}

// Recorded is who may have a door open, as the log has it.
type Recorded struct {
	Peer    string        `json:"peer,omitempty"` // name; empty: no peer
	Token   fencing.Token `json:"token,omitempty"`
	Since   string        `json:"since,omitempty"`
	Unknown bool          `json:"unknown,omitempty"` // a peer of before a restore or recovery may, too
}

// FloatingIP is the floating address on one host.
type FloatingIP struct {
	Address  string   `json:"address,omitempty"` // empty: there is none
	Held     bool     `json:"held"`
	Why      string   `json:"why,omitempty"`          // it is not held
	Conflict string   `json:"conflict_mac,omitempty"` // of another host that answers ARP for it
	Recorded Recorded `json:"recorded"`
}

// Rules are the lists of one host: as they should be, and as they are.
type Rules struct {
	Wanted  RuleCounts `json:"wanted"`
	Actual  RuleCounts `json:"actual"` // as programmed, or read back since
	Equal   bool       `json:"equal"`
	Problem string     `json:"problem,omitempty"`     // why they are not as they should be
	AsOf    string     `json:"compared_at,omitempty"` // when the kernel's were last read back and right
	Drift   int        `json:"drift"`                 // how often another program changed them
	Index   uint64     `json:"index"`                 // of the state they were made from
}

// RuleCounts says how much is let through.
type RuleCounts struct {
	Allow int  `json:"allow"` // MACs
	Deny  int  `json:"deny"`  // MACs, the self-test's among them
	Pass  bool `json:"pass"`  // what no list names is let through
}

// PortList is the list of Ironic's ports in the log.
type PortList struct {
	Ports    int    `json:"ports"`
	Complete bool   `json:"complete"` // they were listed completely at least once
	Listed   string `json:"listed_at,omitempty"`
	AgeMS    int64  `json:"age_ms"`            // since then, in cluster time
	Problem  string `json:"problem,omitempty"` // of the newest listing; the leader knows it
}

// DHCPServer is one that answered a machine which every host denies.
type DHCPServer struct {
	Address string `json:"address"`
	MAC     string `json:"mac"`
}

// Explanation says what becomes of the requests of one machine on one host.
type Explanation struct {
	Peer  string `json:"peer"`
	ID    string `json:"id"`
	Self  bool   `json:"self"`
	Error string `json:"error,omitempty"` // why it said nothing; the rest is empty then
	Role  string `json:"role,omitempty"`
	MAC   string `json:"mac"`
	// Node is the UUID of the node that has the MAC, as far as the peer that
	// answers knows, and NodeName its name in Ironic. NodeProblem says why the name
	// of a node is missing.
	Node        string `json:"node,omitempty"`
	NodeName    string `json:"node_name,omitempty"`
	NodeProblem string `json:"node_problem,omitempty"`
	Verdict     string `json:"verdict,omitempty"` // accept, drop or unknown
	Why         string `json:"why,omitempty"`     // the words of the rule that decided
	Steps       []Step `json:"steps,omitempty"`   // the rules in their order
	// Boot is what was heard of the machine's newest boot; nil if nothing was and none is
	// awaited.
	Boot *Boot `json:"boot,omitempty"`
}

// Boot is what was heard of a machine that boots (docs/pxe.md#recorder).
type Boot struct {
	Node     string        `json:"node"`
	State    string        `json:"state"`             // of its introspection here; "": there was none
	Awaited  bool          `json:"awaited"`           // its machine is to boot now, also for Ironic's own inspection
	Steps    []BootStep    `json:"steps"`             // in the order in which they were heard first
	Dropped  int           `json:"dropped,omitempty"` // steps that made room
	Findings []BootFinding `json:"findings"`          // why it has not called, or did not in time; what stops it first
}

// BootStep is what happened once, or several times alike.
type BootStep struct {
	Time  string `json:"time"`  // RFC 3339, of the first time
	Until string `json:"until"` // of the last
	Count int    `json:"count"`
	Peer  string `json:"peer"` // name of the one that heard it
	Kind  string `json:"kind"`
	MAC   string `json:"mac,omitempty"`
	Text  string `json:"text"`
}

// BootFinding is one reason why a machine has not called.
type BootFinding struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// Heard are machines that asked to boot on a host and are not under introspection.
type Heard struct {
	Peer  string `json:"peer"`
	ID    string `json:"id"`
	Self  bool   `json:"self"`
	Error string `json:"error,omitempty"` // why it said nothing, or hears nothing
	// Unread are messages beyond what is read of such machines in a second.
	Unread   int               `json:"unread,omitempty"`
	Machines []StrangerMachine `json:"machines"` // the newest first, at most 1,000
}

// StrangerMachine is one of them.
type StrangerMachine struct {
	MAC      string `json:"mac"`
	First    string `json:"first"` // RFC 3339
	Last     string `json:"last"`
	Asked    int    `json:"asked"`
	Firmware string `json:"firmware"`
	Relay    string `json:"relay,omitempty"`
	UUID     string `json:"uuid,omitempty"`    // that its firmware tells
	Verdict  string `json:"verdict,omitempty"` // of the filter now: accept, drop or unknown
	Why      string `json:"why,omitempty"`     // the words of the rule that decides
	Offered  string `json:"offered,omitempty"` // by which DHCP server
}

// Step is one rule of the filter and what it makes of a machine.
type Step struct {
	Rule    string `json:"rule"`
	Verdict string `json:"verdict"` // accept, drop, next or unknown
	Reached bool   `json:"reached"` // false: an earlier rule decided
	Text    string `json:"text"`
}
