package fsm

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// zstdFrame begins every zstd frame.
var zstdFrame = []byte{0x28, 0xb5, 0x2f, 0xfd}

// samples holds one valid command of every kind.
func samples(t testing.TB) []Command {
	t.Helper()
	doc := pack(t, `{"a":1}`)
	held := introspection.Hold{Request: 3, Token: 4}
	return []Command{
		Lead{Peer: "a", Boot: "b"}, Probe{}, founding(),
		membership.OpenSession{Peer: "a", Boot: "b", Version: 1, WallMillis: 5,
			Unfinished: []introspection.Unfinished{{Request: 1 << 60, Hook: "scheduler"}}},
		membership.RenewSession{Session: 3, Applied: 9}, membership.EndSession{Session: 3},
		membership.PutMember{Member: member("b")}, membership.RemoveMember{ID: "b"},
		membership.FormerHeard{ID: "former"},
		membership.Rejoin{Former: "former", Member: rejoining("former", "new"), Key: [32]byte{1}},
		membership.AddJoinToken{ID: "j", Hash: [32]byte{1}, TTL: time.Hour}, membership.RevokeJoinToken{ID: "j"},
		membership.UseJoinToken{Hash: [32]byte{1}, Member: member("b")},
		settings.PutSetting{Key: "k", Value: "v"}, settings.DeleteSetting{Key: "k"},
		leases.Grant{Name: "l", Holder: "h", TTL: time.Minute}, leases.Renew{Name: "l", Holder: "h", Token: 4},
		leases.Release{Name: "l", Holder: "h", Token: 4}, leases.Delete{Name: "l"},
		introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: time.Minute,
			Attributes: introspection.Attributes{MACs: []string{"52:54:00:00:00:01"}}},
		introspection.Start{Node: nodeA, Event: introspection.EventEnroll, Timeout: time.Minute, Source: "192.0.2.1/32"},
		introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc},
		introspection.TakeCallback{Node: nodeA, Document: doc, Keep: true, Hook: "scheduler or later"},
		introspection.Decline{Claim: introspection.Hold{Request: 3, Token: 4}, Hook: "scheduler"},
		introspection.ClaimRequests{Requests: []fencing.Token{3, 4}},
		introspection.Advance{Claim: held, Event: introspection.EventWait, Attributes: &introspection.Attributes{}},
		introspection.Advance{Claim: held, Event: introspection.EventError, Error: "x", Processed: doc, Unprocessed: doc.Hash,
			Hook: "next", Answer: introspection.Answer{Status: 400, Message: "x"}},
		introspection.Mark{Claim: held, Hook: "scheduler"},
		introspection.Mark{Claim: held, Processed: doc, Unprocessed: doc.Hash, Answer: introspection.Answer{Status: 200}},
		introspection.Consume{Claim: held}, introspection.Release{Claim: held},
		introspection.DeleteNode{Node: nodeA, Claim: held},
		introspection.NoteLogs{Node: nodeA, Begun: 3, Logs: introspection.RamdiskLogs{Peer: "h1", Path: "/logs/1"}},
		nodesync.Confirm{Digest: "d"}, nodesync.Trust{Ports: true},
		nodesync.Suspect{Suspicion: nodesync.Suspicion{Reason: "an empty list", Missing: 3, Known: 4, Digest: "d",
			Confirmed: true}, Ports: true}, introspection.TakeTurn{Claim: held, Gap: time.Second},
		ironicports.PutPorts{Ports: []ironicports.Port{{ID: "p", MAC: "52:54:00:00:00:01", Node: nodeA}},
			Remove: []string{"q"}, Complete: true},
		introspection.PutInspected{
			Nodes:  []introspection.Inspected{{Node: nodeA, MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}}},
			Remove: []string{nodeB}}, introspection.KeepInspected{For: time.Minute},
		doors.PassOpen{Wait: time.Second, Proven: 7}, doors.PassClosed{},
		doors.AddressTaken{Address: "2001:db8::1", Wait: time.Second, Proven: 7}, doors.AddressReleased{},
		introspection.ImportRecord{Node: nodeA, State: introspection.NodeError, ManageBoot: true, Error: "x",
			StartedMicros: 1_600_000_000_123_456, FinishedMicros: 1_600_000_001_000_000, Unprocessed: doc, Processed: doc},
		ruleset.Create{UUID: nodeA, Body: []byte(`{}`)}, ruleset.Delete{UUID: nodeA}, ruleset.DeleteAll{},
		expectations.Put{Name: "compute", Body: []byte(`{}`)}, expectations.Delete{Name: "compute"},
		expectations.Judge{Under: 3, Judgements: []expectations.Judgement{{Node: nodeA, Document: doc.Hash,
			Earlier: doc.Hash, By: []string{"compute"}, Differences: []string{"too few disks"}, Name: "compute-1",
			Changed: 2, Changes: "a disk went", Before: doc.Hash, Sent: 3}}},
		expectations.Forget{Nodes: []string{nodeA}},
		relays.Accept{Node: nodeA, Document: doc, Timeout: time.Minute, Keep: time.Hour, Tried: relays.OutcomeLost,
			Source: "192.0.2.1/32"}, relays.Try{Sequence: 3},
		relays.Settle{Sequence: 3, Try: 1, Outcome: relays.OutcomeAgain, Reason: "no route", Keep: time.Hour},
		relays.Introduced{Sequence: 3, Try: 1, Outcome: relays.OutcomeTaken, Node: nodeA},
		kubestate.PutNodes{Cluster: "k", Nodes: []kubestate.Node{kubeNode(1)}, Remove: []string{"gone"}, Millis: 5},
		kubestate.VoteNodes{Session: 3, Cluster: "k", Votes: []kubestate.Vote{{UID: "uid-1", Silent: true}, {UID: "uid-2"}},
			Withdraw: []string{"uid-3"}, Millis: 5},
		kubestate.BeginRemediation{Cluster: "k", Node: "worker-1", UID: "uid-1", BootID: "b", ControlPlane: true, Peer: "a",
			Reason: "silent", Millis: 5},
		kubestate.StepRemediation{Intent: 3, From: kubestate.RemCordoned, To: kubestate.RemFencing, Peer: "a",
			Reason: "off with it", Device: "bmc", Millis: 5},
		kubestate.PauseFailover{Cluster: "k", Paused: true, For: time.Hour, By: "op", Reason: "works", Millis: 5},
		kubestate.ReleaseRemediation{Intent: 3, To: kubestate.RemCancelled, By: "op", Reason: "seen", Millis: 5},
		kubestate.ReleaseRemediation{Intent: 3, To: kubestate.RemFencing, Ended: true},
		kubestate.HoldFailover{Cluster: "k", For: time.Minute, Reason: "storm"},
		membership.Exclude{Peer: "b", From: membership.FromVoting, On: true, Force: true},
		membership.Observe{Hash: [32]byte{1}, Member: member("b")},
		membership.MoveMember{Peer: "b", Address: "h:1", Gossip: "h:2", API: "h:3"},
		membership.RotateGossipKey{Key: bytes.Repeat([]byte{3}, membership.GossipKeySize)},
		membership.ConfirmGossipKeys{Peer: "p", Changed: 3}, membership.AdvanceGossipKeys{Changed: 3},
		operators.NoteOperator{Name: "ann", Issued: 1, Ends: 2}, operators.RevokeOperator{Name: "ann", UpTo: 1, Ends: 2},
		zones.Choose{UID: "uid-1", Namespace: "shop", Tolerance: zones.ToleratesZone, Zones: []string{"a", "b", "c"},
			Replaces: 3}, zones.Choose{UID: "uid-1", Namespace: "shop", Replaces: 3},
		leases.Steps{Steps: []leases.Step{{Name: "l", Holder: "h", Token: 4, Release: true}}},
		leases.PutValue{Key: "k", Data: []byte("v"), If: leases.Condition{Lease: "l", Token: 4}},
		leases.DeleteValue{Key: "k", If: leases.Condition{Compare: true, Version: 5}},
		leases.JoinGroup{Component: "c", ID: "i", Lease: "l", Token: 4, Metadata: "m"},
		leases.LeaveGroup{Component: "c", ID: "i", Lease: "l", Token: 4},
		ReportEvents{Reports: []eventring.Report{
			{Topic: eventring.TopicWarning, Action: "raised", Millis: 5, Node: nodeA, Text: "A text.",
				Fields: map[string]string{"code": "c"}}}},
		boots.Note{Heard: []boots.Heard{{Node: nodeA, Begun: 1, Step: boots.Step{Kind: boots.Offered,
			Times: boots.Times{FirstMillis: 1, LastMillis: 2, Count: 2}, Peer: "a", MAC: "52:54:00:00:00:01",
			Server: "192.0.2.1", File: "snponly.efi"}}}},
		boots.Note{Judged: []boots.Judged{{Node: nodeA, Begun: 1,
			Findings: []entry.Finding{{Code: "silent", Text: "nothing was heard"}}}}},
		deliveries.Note{Receivers: []deliveries.Progress{{Receiver: "cmdb", Taken: eventring.ID{Incarnation: 1, Index: 3},
			Until: eventring.ID{Incarnation: 1, Index: 3, Seq: 1}, Cut: true}}, Forget: []string{"old"}},
	}
}

func TestEveryKindSurvivesTheLog(t *testing.T) {
	h := Header{Time: 5, WallMillis: 6, Token: 7, Session: 8, Request: entry.MintRequestID(9, 1, [8]byte{1}), Client: "c"}
	h.Answered = h.Request
	seen := map[Kind]bool{}
	for _, c := range samples(t) {
		seen[KindOf(c)] = true
		header, command, err := Decode(encoded(t, h, c))
		if err != nil {
			t.Fatal(err)
		}
		if header != h || !reflect.DeepEqual(command, c) {
			t.Errorf("%+v came back as %+v under %+v", c, command, header)
		}
	}
	for _, verb := range verbs {
		kind := Kind(verb.Kind)
		if !seen[kind] {
			t.Errorf("%s has no sample", verb.Name)
		}
		if first, _ := lookup(kind); first.Name != verb.Name {
			t.Errorf("%s and %s have one number", verb.Name, first.Name)
		}
		if kind.Since() < 1 || kind.Since() > Version {
			t.Errorf("%s came with version %d", verb.Name, kind.Since())
		}
	}
}

func TestEncodeRefusesWhatBreaksARule(t *testing.T) {
	id := entry.MintRequestID(5, 0, [8]byte{})
	higher := entry.MintRequestID(5, 1, [8]byte{})
	long := strings.Repeat("x", 5000)
	good := pack(t, "x")
	bad := []proposal{
		{Header{}, nil},
		{Header{Time: -1}, Probe{}},
		{Header{WallMillis: -1}, Probe{}},
		{Header{Request: id}, Probe{}},
		{Header{Client: "c"}, Probe{}},
		{Header{Answered: id}, Probe{}},
		{Header{Session: 1, Request: id, Answered: higher}, Probe{}},
		{Header{Session: 1, Request: RequestID{1}}, Probe{}},
		{Header{Session: 1, Request: id, Client: strings.Repeat("c", entry.MaxClient+1)}, Probe{}},
		{Header{Session: 1, Request: id, Client: "\xff"}, Probe{}},
		{Header{}, Lead{Peer: "a"}}, {Header{}, Lead{Boot: "a"}}, {Header{}, Lead{Peer: "a b", Boot: "b"}},
		{Header{}, membership.OpenSession{Peer: "a", Boot: "b"}},
		{Header{}, membership.OpenSession{Peer: "a", Boot: "b", Version: 1,
			Unfinished: []introspection.Unfinished{{Hook: "scheduler"}}}},
		{Header{}, membership.OpenSession{Peer: "a", Boot: "b", Version: 1,
			Unfinished: []introspection.Unfinished{{Request: 1, Hook: "\xff"}}}},
		{Header{}, membership.OpenSession{Peer: "a", Boot: "b", Version: 1,
			Unfinished: make([]introspection.Unfinished, membership.MaxUnfinished+1)}}, {Header{}, membership.RenewSession{}},
		{Header{}, membership.EndSession{}},
		{Header{}, membership.RenewSession{Session: 1, Refuses: long}},
		{Header{}, membership.PutMember{}},
		{Header{}, membership.PutMember{Member: membership.Member{ID: "a", Name: "a", Address: "host", Version: 1}}},
		{Header{}, membership.PutMember{Member: membership.Member{ID: "a", Name: "a", Address: "a@h:1", Version: 1}}},
		{Header{}, membership.PutMember{Member: membership.Member{ID: "a", Name: "a", Address: "h:0", Version: 1}}},
		{Header{}, membership.PutMember{Member: membership.Member{ID: "a", Name: "a", Address: "h:1"}}},
		{Header{}, membership.RemoveMember{}}, {Header{}, membership.RevokeJoinToken{ID: "ü"}},
		{Header{}, membership.AddJoinToken{ID: "j", TTL: time.Hour}},
		{Header{}, membership.AddJoinToken{ID: "j", Hash: [32]byte{1}}},
		{Header{}, membership.AddJoinToken{ID: "j", Hash: [32]byte{1}, TTL: 366 * 24 * time.Hour}},
		{Header{}, settings.PutSetting{}}, {Header{}, settings.PutSetting{Key: "K"}},
		{Header{}, settings.PutSetting{Key: "k", Value: long}},
		{Header{}, settings.PutSetting{Key: strings.Repeat("k", 65)}}, {Header{}, settings.DeleteSetting{Key: "a/b"}},
		{Header{}, leases.Grant{Name: "l", Holder: "h"}}, {Header{}, leases.Grant{Name: "-l", Holder: "h", TTL: time.Minute}},
		{Header{}, leases.Grant{Name: "l", TTL: time.Minute}},
		{Header{}, leases.Grant{Name: "l", Holder: "h", TTL: 25 * time.Hour}},
		{Header{}, leases.Renew{Name: "L", Holder: "h"}}, {Header{}, leases.Delete{}},
		{Header{}, introspection.Start{Node: "x", Event: introspection.EventStart, Timeout: 1}},
		{Header{}, introspection.Start{Node: "ABCDEF00-1111-4111-8111-111111111111", Event: introspection.EventStart,
			Timeout: 1}},
		{Header{}, introspection.Start{Node: nodeA, Event: introspection.EventAbort, Timeout: 1}},
		{Header{}, introspection.Start{Node: nodeA, Event: introspection.EventStart}},
		{Header{}, introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: 1,
			Attributes: introspection.Attributes{MACs: []string{"52:54:00:00:00:0A"}}}},
		{Header{}, introspection.Start{Node: nodeA, Event: introspection.EventStart, Timeout: 1,
			Attributes: introspection.Attributes{BMC: []string{"::1", "::1"}}}},
		{Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventStart}},
		{Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess}},
		{Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventAbort, Document: good}},
		{Header{}, introspection.Enqueue{Node: nodeA, Event: introspection.EventReapply}},
		{Header{}, introspection.Advance{Event: introspection.EventError}},
		{Header{}, introspection.Advance{Event: introspection.EventGiveUp}},
		{Header{}, introspection.Advance{Event: introspection.EventDelete}},
		{Header{}, introspection.Advance{Event: introspection.EventError, Error: strings.Repeat(long, 4)}},
		{Header{}, introspection.Advance{Event: introspection.EventWait,
			Attributes: &introspection.Attributes{MACs: []string{"x"}}}},
		{Header{}, introspection.Advance{Event: introspection.EventWait, Hook: long}}, {Header{}, introspection.Mark{}},
		{Header{}, introspection.Mark{Hook: long, Answer: introspection.Answer{Status: 200}}},
		{Header{}, introspection.DeleteNode{}},
		{Header{}, introspection.Decline{Hook: "\xff"}}, {Header{}, introspection.TakeCallback{Node: nodeA}},
		{Header{}, introspection.TakeCallback{Node: nodeA, Document: good, Hook: "\xff"}},
		{Header{}, introspection.ClaimRequests{}},
		{Header{}, introspection.ClaimRequests{Requests: make([]fencing.Token, introspection.MaxClaims+1)}},
		{Header{}, introspection.TakeTurn{}}, {Header{}, introspection.TakeTurn{Gap: introspection.MaxGap + 1}},
		{Header{}, doors.PassOpen{Wait: -1}}, {Header{}, doors.PassOpen{Wait: doors.MaxWait + 1}},
		{Header{}, doors.AddressTaken{}}, {Header{}, doors.AddressTaken{Address: "192.0.2.1/24"}},
		{Header{}, doors.AddressTaken{Address: "fe80::1%eth0"}},
		{Header{}, doors.AddressTaken{Address: "192.0.2.1", Wait: doors.MaxWait + 1}},
		{Header{}, expectations.Put{Name: "a b", Body: []byte("{}")}}, {Header{}, expectations.Put{Name: "a"}},
		{Header{}, expectations.Put{Name: "a", Body: make([]byte, expectations.MaxExpectation+1)}},
		{Header{}, expectations.Put{Name: ".", Body: []byte("{}")}}, {Header{}, expectations.Delete{Name: "-a"}},
		{Header{}, expectations.Judge{}},
		{Header{}, expectations.Judge{Judgements: make([]expectations.Judgement, expectations.MaxJudged+1)}},
		{Header{}, expectations.Judge{Judgements: []expectations.Judgement{{Node: nodeA}}}},
		{Header{}, expectations.Judge{Judgements: []expectations.Judgement{{Node: "x", Document: good.Hash}}}},
		{Header{}, expectations.Judge{Judgements: []expectations.Judgement{{Node: nodeA, Document: good.Hash, Changed: 1}}}},
		{Header{}, expectations.Judge{
			Judgements: []expectations.Judgement{{Node: nodeA, Document: good.Hash, Name: "\xff"}}}},
		{Header{}, expectations.Judge{Judgements: []expectations.Judgement{{Node: nodeA, Document: good.Hash,
			Differences: []string{strings.Repeat("x", expectations.MaxDifference+1)}}}}},
		{Header{}, expectations.Judge{Judgements: []expectations.Judgement{{Node: nodeA, Document: good.Hash,
			Differences: make([]string, expectations.MaxDifferences+1)}}}},
		{Header{}, expectations.Judge{
			Judgements: []expectations.Judgement{{Node: nodeA, Document: good.Hash}, {Node: nodeA, Document: good.Hash}}}},
		{Header{}, expectations.Forget{}}, {Header{}, expectations.Forget{Nodes: []string{nodeA, nodeA}}},
		{Header{}, ironicports.PutPorts{}},
		{Header{}, ironicports.PutPorts{Ports: portsN(0, ironicports.MaxPortChanges), Remove: []string{"x"}}},
		{Header{}, ironicports.PutPorts{Remove: []string{""}}},
		{Header{}, ironicports.PutPorts{Remove: []string{"x", "x"}}},
		{Header{}, ironicports.PutPorts{Ports: portsN(0, 1), Remove: []string{portsN(0, 1)[0].ID}}},
		{Header{}, ironicports.PutPorts{Ports: append(portsN(0, 1), portsN(0, 1)...)}},
		{Header{}, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "a/b", MAC: macN(1), Node: nodeA}}}},
		{Header{}, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "x", MAC: "52:54:00:00:00:0A", Node: nodeA}}}},
		{Header{}, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "x", MAC: macN(1), Node: "x"}}}},
		{Header{}, stranger{}},
	}
	for _, p := range []blobs.Packed{{Hash: blobs.Hash{1}}, {Data: zstdFrame},
		{Hash: blobs.Hash{1}, Data: []byte("plain")},
		{Hash: blobs.Hash{1}, Data: append(bytes.Clone(zstdFrame), make([]byte, blobs.MaxBlob)...)}} {
		for _, c := range []Command{introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: p},
			introspection.Advance{Event: introspection.EventWait, Processed: p}, introspection.Mark{Hook: "h", Processed: p},
			introspection.ImportRecord{Node: nodeA, State: introspection.NodeFinished, FinishedMicros: 1000, Unprocessed: p},
			introspection.ImportRecord{Node: nodeA, State: introspection.NodeFinished, FinishedMicros: 1000, Processed: p}} {
			bad = append(bad, proposal{Header{}, c})
		}
	}
	for _, a := range []introspection.Answer{{Message: "x"}, {Status: 200, Message: "x"}, {Status: 400},
		{Status: 302, Message: "x"}, {Status: 600, Message: "x"}, {Status: 400, Message: strings.Repeat(long, 4)}} {
		bad = append(bad, proposal{Header{}, introspection.Advance{Event: introspection.EventWait, Answer: a}},
			proposal{Header{}, introspection.Mark{Hook: "h", Answer: a}})
	}
	for _, b := range append(bad, badImports()...) {
		mustRefuse(t, b)
	}
}

func badImports() []proposal {
	return []proposal{
		{Header{}, introspection.ImportRecord{Node: "x", State: introspection.NodeFinished, FinishedMicros: 1000}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeWaiting, FinishedMicros: 1000}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeError, FinishedMicros: 1000}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeFinished, Error: "x",
			FinishedMicros: 1000}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeError, Error: "\xff",
			FinishedMicros: 1000}}, {Header{},
			introspection.ImportRecord{Node: nodeA, State: introspection.NodeError,
				Error: strings.Repeat("x", introspection.MaxErrorText+1), FinishedMicros: 1000}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeFinished, FinishedMicros: 999}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeFinished,
			FinishedMicros: 253_402_300_799_999_999 + 1}},
		{Header{}, introspection.ImportRecord{Node: nodeA, State: introspection.NodeFinished, FinishedMicros: 1000,
			StartedMicros: -1}},
	}
}

// mustRefuse checks that a proposal is not encoded.
func mustRefuse(t *testing.T, b proposal) {
	t.Helper()
	data, err := Encode(b.header, b.command)
	var refusal *Error
	if err == nil || !errors.As(err, &refusal) || refusal.Code != Invalid {
		t.Errorf("%+v %+v was encoded to %d bytes, error %v", b.header, b.command, len(data), err)
	}
}

// stranger is a command that the log does not know.
type stranger struct{}

func (stranger) Kind() Kind      { return 99 }
func (stranger) Validate() error { return nil }

// Promise 8.
func TestUnknownEntriesStopThePeer(t *testing.T) {
	good := encoded(t, Header{Time: Time(time.Minute)}, settings.PutSetting{Key: "k", Value: "v"})
	header := good[envelope : len(good)-len(codec.Marshal(settings.PutSetting{Key: "k", Value: "v"}))]
	with := func(kind byte, body []byte) []byte {
		return append(append([]byte{formatV1, kind}, header...), body...)
	}
	newerField := append([]byte{0xa2, 0x01, 0x61, 'k', 0x18, 0x63}, 0x01) // {1: "k", 99: 1}
	cases := map[string][]byte{
		"empty":                       nil,
		"format alone":                {formatV1},
		"newer format":                append([]byte{formatV1 + 1}, good[1:]...),
		"newer format, ignorable":     append([]byte{formatV1 + 1, 0xfe}, good[2:]...),
		"unknown kind":                with(0x7e, []byte{0xa0}),
		"unknown kind without header": {formatV1, 0x7e},
		"ignorable without header":    {formatV1, 0xfe},
		"garbage header":              {formatV1, byte(KindOf(Probe{})), 0xff, 0xff},
		"garbage body":                with(byte(KindOf(settings.PutSetting{})), []byte("garbage")),
		"no body":                     with(byte(KindOf(settings.PutSetting{})), nil),
		"two bodies":                  append(bytes.Clone(good), 0xa0),
		"a field of a newer binary":   with(byte(KindOf(settings.PutSetting{})), newerField),
		"a body against the rules": with(byte(KindOf(settings.PutSetting{})),
			codec.Marshal(settings.PutSetting{Key: "NOT ALLOWED"})),
		"too long": append(bytes.Clone(good), make([]byte, MaxEntry)...),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			before := r.view().Hash()
			res := r.raw(data)
			if res.Code != UnknownEntry || !strings.Contains(res.Message, "upgrade trivet") {
				t.Errorf("result %v: %q", res.Code, res.Message)
			}
			if r.view().Hash() != before {
				t.Error("the state changed")
			}
			if _, _, err := Decode(data); !errors.Is(err, UnknownEntry) {
				t.Errorf("decode: %v", err)
			}
		})
	}
}

func TestIgnorableUnknownKindsOnlyLetTimePass(t *testing.T) {
	r := newRig(t)
	r.session("a")
	data := encoded(t, Header{Time: r.now.Add(membership.SessionTTL)}, Probe{})
	data[1] = 0xfe
	if res := r.raw(data); res.Code != OK || res.Token != fencing.Token(r.index) {
		t.Errorf("result %+v", res)
	}
	if v := r.view(); v.Index() != r.index || v.Now() != Time(membership.SessionTTL) || len(v.Sessions()) != 0 {
		t.Errorf("index %d, time %v, sessions %v", v.Index(), v.Now(), v.Sessions())
	}
}

func TestEntriesComeInOrder(t *testing.T) {
	r := newRig(t)
	data := encoded(t, Header{}, Probe{})
	before := r.view().Hash()
	for _, index := range []uint64{0, 1} {
		if res := r.state.Apply(Entry{Index: index, Term: 2, Data: data}); res.Code != UnknownEntry {
			t.Errorf("entry %d after 1: %v", index, res.Code)
		}
	}
	if r.view().Hash() != before {
		t.Error("the state changed")
	}
}

func TestTimeDoesNotWrapAround(t *testing.T) {
	last := Time(math.MaxInt64)
	if got := last.Add(time.Second); got != last {
		t.Errorf("the end of time plus a second is %v", got)
	}
	if got := Time(5).Add(-time.Second); got != 0 {
		t.Errorf("before the beginning is %v", got)
	}
	r := newRig(t)
	r.now = entry.MaxTime
	r.session("a")
	if _, err := Encode(Header{Time: entry.MaxTime + 1}, Probe{}); err == nil {
		t.Error("an entry may leave no room for deadlines")
	}
}

func TestResultsAndErrorsNameTheirCode(t *testing.T) {
	err := entry.Refuse(Conflict, "x %d", 1).Err()
	var e *Error
	if !errors.Is(err, Conflict) || errors.Is(err, NotFound) || !errors.As(err, &e) || e.Message != "x 1" {
		t.Errorf("error %#v", err)
	}
	if (Result{}).Err() != nil {
		t.Error("OK is an error")
	}
	if err := (Result{}).Decode(new(int)); err == nil {
		t.Error("an empty value was decoded")
	}
	for c := OK; c <= UnknownEntry; c++ {
		if strings.HasPrefix(c.String(), "code ") {
			t.Errorf("code %d has no name", c)
		}
	}
}

// Two verbs with one number would read each other's entries, and two tables with one tag each
// other's records.
func TestNumbersAndTagsAreUnique(t *testing.T) {
	kinds, tags := make(map[byte]string), make(map[byte]string)
	for _, verb := range verbs {
		if other, taken := kinds[verb.Kind]; taken {
			t.Errorf("verb '%s' has number %d, which '%s' has", verb.Name, verb.Kind, other)
		}
		kinds[verb.Kind] = verb.Name
	}
	for _, d := range domains {
		for _, section := range d.Sections {
			if other, taken := tags[section.Tag]; taken {
				t.Errorf("table '%s' has tag %q, which '%s' has", section.Name, section.Tag, other)
			}
			tags[section.Tag] = section.Name
		}
	}
}
