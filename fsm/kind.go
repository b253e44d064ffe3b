package fsm

import "fmt"

// Kind is the type of a command in the log. Its number never changes.
type Kind byte

// ignorable is the bit of kinds that a binary may skip when it does not know
// them. They change nothing that others depend on and belong to no request.
const ignorable Kind = 0x80

// The kinds; rows says which log version brought each. Kinds with the top bit are
// ignorable.
const (
	KindLead  Kind = 1
	KindProbe Kind = 2
	KindFound Kind = 3

	KindOpenSession  Kind = 10
	KindRenewSession Kind = 11
	KindEndSession   Kind = 12

	KindPutMember    Kind = 20
	KindRemoveMember Kind = 21
	KindFormerHeard  Kind = 22
	KindRejoin       Kind = 23

	KindAddJoinToken    Kind = 30
	KindRevokeJoinToken Kind = 31
	KindUseJoinToken    Kind = 32

	KindPutSetting    Kind = 40
	KindDeleteSetting Kind = 41

	KindGrantLease   Kind = 50
	KindRenewLease   Kind = 51
	KindReleaseLease Kind = 52
	KindDeleteLease  Kind = 53

	KindStartIntrospection Kind = 60
	KindEnqueue            Kind = 61
	KindClaimRequests      Kind = 62
	KindAdvance            Kind = 63
	KindMark               Kind = 64
	KindConsume            Kind = 65
	KindRelease            Kind = 66
	KindDeleteNode         Kind = 67
	KindTakeTurn           Kind = 68
	KindTakeCallback       Kind = 69
	KindDecline            Kind = 75
	KindImportRecord       Kind = 76

	KindPutPorts        Kind = 70
	KindPassOpen        Kind = 71
	KindPassClosed      Kind = 72
	KindAddressTaken    Kind = 73
	KindAddressReleased Kind = 74
	KindPutInspected    Kind = 77
	KindPutGUIDPorts    Kind = 78

	KindCreateRule  Kind = 80
	KindDeleteRule  Kind = 81
	KindDeleteRules Kind = 82

	KindAcceptRelay Kind = 90
	KindTryRelay    Kind = 91
	KindSettleRelay Kind = 92

	KindPutKubeNodes       Kind = 100
	KindVoteKubeNodes      Kind = 101
	KindBeginRemediation   Kind = 102
	KindStepRemediation    Kind = 103
	KindPauseFailover      Kind = 104
	KindReleaseRemediation Kind = 105
	KindHoldFailover       Kind = 106

	KindExclude    Kind = 110
	KindObserve    Kind = 111
	KindMoveMember Kind = 112

	KindPublishMarks      Kind = 113
	KindRotateGossipKey   Kind = 114
	KindConfirmGossipKeys Kind = 115
	KindAdvanceGossipKeys Kind = 116
	KindNoteOperator      Kind = 117
	KindRevokeOperator    Kind = 118
	KindChooseZones       Kind = 119

	KindStepLeases  Kind = 120
	KindPutValue    Kind = 121
	KindDeleteValue Kind = 122
	KindJoinGroup   Kind = 123
	KindLeaveGroup  Kind = 124

	KindReportEvents Kind = 125
)

// Command is a verb of the log: one struct, one kind. Values, not pointers,
// are commands.
type Command interface {
	// Kind returns the command's number in the log.
	Kind() Kind
	// Validate checks what can be checked without the state. It runs before
	// a command is proposed and again before it is applied, so its rules are
	// as fixed as the format: a looser rule needs a new kind.
	Validate() error
}

// row is all that the log knows about one kind.
type row struct {
	kind   Kind
	name   string
	since  int // the log version that brought it
	decode func(body []byte) (Command, error)
	apply  func(*txn, Command) Result
}

// verb makes the row of the commands of type C.
func verb[C Command](kind Kind, name string, apply func(*txn, C) Result) row {
	return row{
		kind: kind, name: name, since: 1,
		decode: func(body []byte) (Command, error) {
			var c C
			err := unmarshal(body, &c)
			return c, err
		},
		apply: func(t *txn, c Command) Result { return apply(t, c.(C)) },
	}
}

// from makes a row of one that a later log version brought.
func (r row) from(version int) row {
	r.since = version
	return r
}

// byLeader makes a verb one that only a duty of the present leadership may use.
// A token that got here is the present one's: admit has compared it.
func byLeader[C Command](apply func(*txn, C) Result) func(*txn, C) Result {
	return func(t *txn, c C) Result {
		if t.header.Token.IsZero() {
			return refuse(Refused, "'%v' is for the leader's duties alone and must carry its token", c.Kind())
		}
		return apply(t, c)
	}
}

// rows is the registry of kinds. A new command is one row here, one constant
// above, and its own file or its place in one.
var rows = [...]row{
	verb(KindLead, "lead", applyLead),
	verb(KindProbe, "probe", applyProbe),
	verb(KindFound, "found", applyFound),
	verb(KindOpenSession, "open session", applyOpenSession),
	verb(KindRenewSession, "renew session", applyRenewSession),
	verb(KindEndSession, "end session", applyEndSession),
	verb(KindPutMember, "put member", applyPutMember),
	verb(KindRemoveMember, "remove member", applyRemoveMember),
	verb(KindFormerHeard, "former heard", byLeader(applyFormerHeard)).from(2),
	verb(KindRejoin, "rejoin", applyRejoin).from(2),
	verb(KindAddJoinToken, "add join token", applyAddJoinToken),
	verb(KindRevokeJoinToken, "revoke join token", applyRevokeJoinToken),
	verb(KindUseJoinToken, "use join token", applyUseJoinToken),
	verb(KindPutSetting, "put setting", applyPutSetting),
	verb(KindDeleteSetting, "delete setting", applyDeleteSetting),
	verb(KindGrantLease, "grant lease", applyGrantLease),
	verb(KindRenewLease, "renew lease", applyRenewLease),
	verb(KindReleaseLease, "release lease", applyReleaseLease),
	verb(KindDeleteLease, "delete lease", applyDeleteLease),
	verb(KindStartIntrospection, "start introspection", applyStartIntrospection),
	verb(KindEnqueue, "enqueue", applyEnqueue),
	verb(KindClaimRequests, "claim requests", applyClaimRequests),
	verb(KindAdvance, "advance", applyAdvance),
	verb(KindMark, "mark", applyMark),
	verb(KindConsume, "consume", applyConsume),
	verb(KindRelease, "release", applyRelease),
	verb(KindDeleteNode, "delete node", applyDeleteNode),
	verb(KindTakeTurn, "take turn", applyTakeTurn),
	verb(KindTakeCallback, "take callback", applyTakeCallback).from(2),
	verb(KindDecline, "decline", applyDecline).from(2),
	verb(KindImportRecord, "import record", applyImportRecord).from(2),
	verb(KindPutPorts, "put ports", byLeader(applyPutPorts)),
	verb(KindPutInspected, "put inspected", byLeader(applyPutInspected)).from(2),
	verb(KindPutGUIDPorts, "put ports with GUIDs", byLeader(applyPutGUIDPorts)).from(2),
	verb(KindPassOpen, "pass open", byLeader(applyPassOpen)),
	verb(KindPassClosed, "pass closed", byLeader(applyPassClosed)),
	verb(KindAddressTaken, "address taken", byLeader(applyAddressTaken)),
	verb(KindAddressReleased, "address released", byLeader(applyAddressReleased)),
	verb(KindCreateRule, "create rule", applyCreateRule).from(2),
	verb(KindDeleteRule, "delete rule", applyDeleteRule).from(2),
	verb(KindDeleteRules, "delete rules", applyDeleteRules).from(2),
	verb(KindAcceptRelay, "accept relay", applyAcceptRelay).from(2),
	verb(KindTryRelay, "try relay", byLeader(applyTryRelay)).from(2),
	verb(KindSettleRelay, "settle relay", byLeader(applySettleRelay)).from(2),
	verb(KindPutKubeNodes, "put kube nodes", byLeader(applyPutKubeNodes)).from(2),
	verb(KindVoteKubeNodes, "vote on kube nodes", applyVoteKubeNodes).from(2),
	verb(KindBeginRemediation, "begin remediation", byLeader(applyBeginRemediation)).from(2),
	verb(KindStepRemediation, "step remediation", byLeader(applyStepRemediation)).from(2),
	verb(KindPauseFailover, "pause failover", applyPauseFailover).from(2),
	verb(KindReleaseRemediation, "release remediation", applyReleaseRemediation).from(2),
	verb(KindHoldFailover, "hold failover", byLeader(applyHoldFailover)).from(2),
	verb(KindExclude, "exempt", applyExclude).from(2),
	verb(KindObserve, "observe", applyObserve).from(2),
	verb(KindMoveMember, "move member", applyMoveMember).from(2),
	verb(KindPublishMarks, "publish marks", applyPublishMarks).from(2),
	verb(KindRotateGossipKey, "rotate gossip key", applyRotateGossipKey).from(2),
	verb(KindConfirmGossipKeys, "confirm gossip keys", applyConfirmGossipKeys).from(2),
	verb(KindAdvanceGossipKeys, "advance gossip keys", byLeader(applyAdvanceGossipKeys)).from(2),
	verb(KindNoteOperator, "note operator", applyNoteOperator).from(2),
	verb(KindRevokeOperator, "revoke operator", applyRevokeOperator).from(2),
	verb(KindChooseZones, "choose zones", byLeader(applyChooseZones)).from(2),
	verb(KindStepLeases, "step leases", applyStepLeases).from(2),
	verb(KindPutValue, "put value", applyPutValue).from(2),
	verb(KindDeleteValue, "delete value", applyDeleteValue).from(2),
	verb(KindJoinGroup, "join group", applyJoinGroup).from(2),
	verb(KindLeaveGroup, "leave group", applyLeaveGroup).from(2),
	verb(KindReportEvents, "report events", applyReportEvents).from(2),
}

// lookup finds a kind. A scan over some fifty rows costs less than decoding.
func lookup(kind Kind) (row, bool) {
	for i := range rows {
		if rows[i].kind == kind {
			return rows[i], true
		}
	}
	return row{}, false
}

// Ignorable reports whether a binary that does not know the kind may skip it.
func (k Kind) Ignorable() bool { return k&ignorable != 0 }

// Since returns the log version that brought the kind, 0 if this binary does
// not know it. Propose it only when the cluster's version is at least that.
func (k Kind) Since() int {
	row, _ := lookup(k)
	return row.since
}

// String returns the kind in words.
func (k Kind) String() string {
	if row, known := lookup(k); known {
		return row.name
	}
	return fmt.Sprintf("kind %d", byte(k))
}
