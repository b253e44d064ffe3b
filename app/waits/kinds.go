package waits

import (
	"slices"

	"github.com/trivet-ha/trivet/doctor"
)

// Kind is one kind of state that can last. docs/waits.md lists them all.
type Kind struct {
	Name string // the kind of state, and the state
	For  string // continues "waits for"; what is known of a case follows after a colon
	// Limit says where the time limit is from, "" where there is none.
	Limit string
	// Then is what happens at the limit, or what ends it where there is none.
	Then string
	// Do is what an operator may do; SUBJECT stands for what waits.
	Do string
	// Warning is the code of the warning that status shows meanwhile, "" if there is none.
	Warning string
}

// Limits, and what happens at them.
const (
	byInspection = "its deadline: `inspection.timeout` after its start"
	bySession    = "the end of its session, 10 s after its last renewal"
	timedOut     = "it ends in error with \"Introspection timeout\", within inspection.clean_up_period"
	noLimit      = "no time limit"
)

const (
	askServices = "'trivet doctor --check services' says whether Ironic answers each host; 'trivet node history SUBJECT' shows its steps"
	showRemedy  = "'trivet failover show SUBJECT' says what holds it; 'trivet failover pause' holds each power command"
)

// Kinds returns all kinds, in the order of docs/waits.md.
func Kinds() []Kind {
	return slices.Concat([]Kind{
		{
			Name:    "leadership/none",
			For:     "a majority of the voters, and an election",
			Then:    "no time limit: nothing is written and no deadline passes until then",
			Do:      "see the warning; nothing is lost by waiting",
			Warning: "no_leader",
		},
		{
			Name: "leadership/beginning",
			For:  "the first entry of the new leader",
			Then: "it does within 10 s, or gives leadership up",
			Do:   "wait; if it lasts, 'trivet doctor' and the log of SUBJECT: 'journalctl -u trivet'",
		},
		{
			Name:  "pxe/closed",
			For:   "the leader, to open the PXE service",
			Limit: "the wait for the kernel of the leader before, or for one that is not known",
			Then:  "the leader opens it, if nothing else keeps it closed",
			Do:    "'trivet firewall show' says what keeps it closed on each host",
		},
		{
			Name:  "address/free",
			For:   "the leader, to take the floating IP",
			Limit: "as that of pxe/closed",
			Then:  "the leader takes it, if nothing else keeps it from that",
			Do:    "'trivet firewall show' says why it is not taken; 'trivet doctor --check floating-ip'",
		},
		{
			Name:    "ports/unlisted",
			For:     "Ironic, to list its ports completely for the first time",
			Then:    "no time limit: the PXE service opens nowhere before",
			Do:      "see the warning",
			Warning: "no_port_list",
		},
		{
			Name:    "nodes/suspected",
			For:     "an operator, to confirm that nodes which Ironic does not list are gone",
			Limit:   "24 h after the list began to say so",
			Then:    "their records are deleted, if the list says the same still",
			Do:      "compare 'baremetal node list'; if it is right: 'trivet node sync --confirm'",
			Warning: "sync_suspicion",
		},
		{
			Name:    "ports/suspected",
			For:     "an operator, to confirm that ports which Ironic does not list are gone",
			Limit:   "24 h after the list began to say so",
			Then:    "their MACs leave the blacklist, if the list says the same still",
			Do:      "compare 'baremetal port list'; if it is right: 'trivet node sync --confirm'",
			Warning: "sync_suspicion",
		},
		{
			Name:  "upgrade/open",
			For:   "the end of an upgrade",
			Limit: "`raft.finalize_after` after the last host was started, if it is set",
			Then:  "the leader finalizes it, and no host goes back after that",
			Do:    "'trivet upgrade status' shows each host; 'trivet upgrade finalize'",
		},
		{
			Name:  "gossip/rotation",
			For:   "the peers that live, to confirm the keys of the step",
			Limit: "1 min after the step began",
			Then:  "the rotation goes on without them; they have the keys from the log",
			Do:    "'trivet gossip status'",
		},
		{
			Name: "receiver/behind",
			For:  "the receiver, to take the events that were sent to it",
			Then: "no time limit: it is tried again at least each minute, and told of events that are gone meanwhile",
			Do:   "'trivet doctor --check services' asks it from every host",
		},
	}, memberKinds(), machineKinds(), remediationKinds())
}

// ofLog is a change of the log's configuration that the leader has to make.
func ofLog(name, what string) Kind {
	return Kind{Name: name, For: "the leader, to " + what, Then: "no time limit: the leader tries again until it is done",
		Do: "'journalctl -u trivet' on the leader's host says why it fails"}
}

func memberKinds() []Kind {
	return []Kind{
		{
			Name:    "member/silent",
			For:     "a peer that is silent",
			Limit:   bySession,
			Then:    "other workers take over what it was at",
			Do:      "on SUBJECT: 'systemctl status trivet'; " + doctor.AskPeers,
			Warning: "peer_silent",
		},
		{
			Name: "member/joining",
			For:  "the joiner, to catch up with the log",
			Then: "no time limit: it votes once it has kept up for 2 s",
			Do:   "'journalctl -u trivet' on SUBJECT; a join that is not wanted: 'trivet remove SUBJECT'",
		},
		ofLog("member/changing", "change the configuration of the log"),
		ofLog("member/leaving", "take a removed peer out of the configuration of the log"),
		{
			Name:  "member/removed",
			For:   "the work of a removed peer to end",
			Limit: bySession,
			Then:  "other workers take over its nodes",
			Do:    "wait; stop its peer",
		},
		{
			Name:    "maintenance",
			For:     "an operator, to end the maintenance of the peer",
			Then:    "no time limit: it neither leads nor works",
			Do:      "'trivet maintenance off SUBJECT'",
			Warning: "maintenance",
		},
		{
			Name:    "former/unheard",
			For:     "its host, to be heard as stopped since the cluster was founded again",
			Then:    "no time limit: PXE service and floating IP stay closed on every host",
			Do:      "stop the peer there; a host that is lost: 'trivet remove SUBJECT'",
			Warning: "former_silent",
		},
		{
			Name:    "former/absent",
			For:     "its host, to join again since the cluster was founded again",
			Then:    "no time limit: the next leader has to hear it before PXE opens",
			Do:      "see the warning; a host that is lost: 'trivet remove SUBJECT'",
			Warning: "former_member",
		},
		{
			Name: "former/returning",
			For:  "the peer that has joined again, to open a session",
			Then: "no time limit: the next leader has to hear it before PXE opens",
			Do:   "start trivet on SUBJECT",
		},
	}
}

// ofWorker is a state of an introspection in which a worker has something to do.
func ofWorker(state, what string) Kind {
	return Kind{Name: "introspection/" + state, For: "a worker, to " + what, Limit: byInspection, Then: timedOut,
		Do: askServices}
}

func machineKinds() []Kind {
	queued := ofWorker("queued", "do what is queued for its node")
	queued.Limit += ", if it is under way"
	return []Kind{
		ofWorker("starting", "set the boot device and switch the machine on"),
		ofWorker("enrolling", "create the node in Ironic"),
		{
			Name:  "introspection/waiting",
			For:   "the machine, to boot its ramdisk and post its data to /v1/continue",
			Limit: byInspection,
			Then:  timedOut,
			Do:    "'trivet firewall explain SUBJECT' says whether it may boot; look at its console; 'trivet introspection abort SUBJECT' ends it",
		},
		queued,
		ofWorker("processing", "run the hooks and rules and store the result in Ironic"),
		ofWorker("reapplying", "run the hooks and rules on its stored data"),
		ofWorker("aborting", "switch the machine off"),
		{
			Name: "introspection/by-ironic",
			For:  "Ironic, whose own inspection waits for the machine's ramdisk",
			Then: "Ironic ends it by [conductor]inspect_wait_timeout of its own configuration",
			Do:   "'trivet firewall explain SUBJECT' says whether it may boot; 'baremetal node abort SUBJECT' ends it",
		},
		{
			Name:  "relay/pending",
			For:   "Ironic, to take the data of a ramdisk",
			Limit: "`inspection.timeout` after it was accepted; 30 s after Ironic first said that it waits for none",
			Then:  "it has failed: inspect the node again",
			Do:    "'trivet node relays' lists them; 'trivet doctor --check services' says whether Ironic answers each host",
		},
	}
}

// remediation is a state of a remediation that goes on by itself.
func remediation(state, what, then string) Kind {
	return Kind{Name: "remediation/" + state, For: what, Then: then, Do: showRemedy}
}

func remediationKinds() []Kind {
	deleted := remediation("deleted", "its volumes to be detached", "an operator is called")
	deleted.Limit = "10 min after the leader met this state"
	return []Kind{
		remediation("intent", "the leader, to keep new pods from the kube node",
			"no time limit: nothing is done while a guard rail forbids it"),
		remediation("cordoned", "the leader, to announce that it takes the power of the machine",
			"no time limit: nothing is done while a guard rail forbids it"),
		remediation("fencing", "a fence device, to switch the machine off, and for proof that it is off",
			"no time limit: a command lasts up to 5 min, then the next device is asked, or an operator"),
		remediation("off", "the leader, to mark the kube node as out of service",
			"no time limit: it is proven again that the machine is off"),
		remediation("tainted", "its pods to be deleted", "an operator is called when they do not become fewer for 2 min"),
		deleted,
		{
			Name: "remediation/detached",
			For:  "the machine, to be back and Ready",
			Then: "no time limit: its work runs elsewhere; its marks stay until it is back",
			Do:   "repair it and switch it on, or delete its Node",
		},
		{
			Name:    "remediation/stuck",
			For:     "an operator",
			Then:    "no time limit: what does not need an operator is tried again each minute",
			Do:      "'trivet failover show SUBJECT'; mend what it names; 'trivet failover release SUBJECT --to fencing'",
			Warning: "failover_stuck",
		},
		{
			Name:    "failover/paused",
			For:     "an operator, to resume failover",
			Limit:   "the end of the pause, if it has one",
			Then:    "remediations may begin again",
			Do:      "'trivet failover resume', with --cluster if it is of one cluster",
			Warning: "failover_paused",
		},
		{
			Name:  "failover/held",
			For:   "fewer kube nodes to be down at once",
			Limit: "the end of the hold, which is longer while they are down",
			Then:  "remediations may begin, if fewer are down",
			Do:    "'trivet failover list' says which are down",
		},
	}
}
