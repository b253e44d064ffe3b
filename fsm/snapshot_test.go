package fsm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/doors"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/ironicports"
	"github.com/trivet-ha/trivet/fsm/leases"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/operators"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/fsm/zones"
)

// busy makes a state with something in every table.
func busy(t testing.TB) *rig {
	t.Helper()
	return busyAt(t, Version)
}

// busyAt is busy in a cluster of a log version.
func busyAt(t testing.TB, version int) *rig {
	t.Helper()
	r := newRigAt(t, version)
	r.must(Lead{Peer: "a", Boot: "b"})
	a, b := r.session("a"), r.session("b")
	r.must(settings.PutSetting{Key: "k", Value: "v"})
	r.must(membership.RenewSession{Session: b, Applied: r.index})
	held := r.must(leases.Grant{Name: "held", Holder: "h", TTL: time.Hour, Metadata: "m"}).Token
	r.must(leases.JoinGroup{Component: "web", ID: "i", Lease: "held", Token: held})
	r.must(put("k", "v", leases.Condition{Lease: "held", Token: held}))
	r.must(put("k:2", "v", leases.Condition{Compare: true}))
	token := r.must(leases.Grant{Name: "free", Holder: "h", TTL: time.Hour}).Token
	r.must(leases.Release{Name: "free", Holder: "h", Token: token})
	r.mustAs(Header{Session: a, Request: r.request(), Client: "client"}, settings.PutSetting{Key: "k2"})
	r.mustAs(Header{Session: b, Request: r.request()}, Probe{})
	r.must(introspection.Advance{Claim: r.processing(a, nodeN(9), "earlier").Claim.Hold(),
		Event: introspection.EventFinish, Consume: true})
	r.waiting(a, nodeA, "52:54:00:00:00:01", "52:54:00:00:00:02")
	doc := pack(t, "document")
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: doc})
	r.must(introspection.Enqueue{Node: nodeA, Event: introspection.EventProcess, Document: pack(t, "second")})
	c := r.claim(b)
	r.must(introspection.Advance{Claim: c.Claim.Hold(), Event: introspection.EventProcess, Unprocessed: doc.Hash})
	r.must(introspection.Mark{Claim: c.Claim.Hold(), Hook: "scheduler"})
	r.start(nodeB)
	r.must(introspection.TakeTurn{Claim: c.Claim.Hold(), Gap: time.Minute})
	if version >= 3 {
		begun, _ := r.view().Record(nodeA)
		r.must(introspection.NoteLogs{Node: nodeA, Begun: begun.Begun,
			Logs: introspection.RamdiskLogs{Peer: "a", Path: "/logs/1"}})
		r.asLeader(nodesync.Suspect{
			Suspicion: nodesync.Suspicion{Reason: "an empty list", Missing: 1, Known: 2, Digest: "d"}})
		r.asLeader(nodesync.Suspect{
			Suspicion: nodesync.Suspicion{Reason: "few ports", Missing: 3, Known: 4, Digest: "p"}, Ports: true})
	}
	r.asLeader(doors.PassOpen{Wait: time.Second})
	r.asLeader(doors.AddressTaken{Address: "192.0.2.1", Wait: 2 * time.Second})
	r.asLeader(doors.AddressReleased{})
	r.asLeader(ironicports.PutPorts{Ports: []ironicports.Port{port("p1", 1), port("p2", 2), port("p3", 2), port("p4", 4)},
		Complete: true})
	r.asLeader(ironicports.PutPorts{Remove: []string{"p4"}})
	r.asLeader(introspection.PutInspected{
		Nodes: []introspection.Inspected{{Node: nodeB, MACs: []string{macN(7), macN(8)}}}})
	r.must(ruleset.Create{UUID: nodeB, Body: []byte(`{"actions":[]}`)})
	r.must(ruleset.Create{UUID: nodeA, Body: []byte(`{"actions":[1]}`)})
	r.relayed(nodeA, "waits for Ironic")
	r.asLeader(relays.Settle{Sequence: r.tried(r.relayed(nodeB, "taken")).Sequence, Try: 1, Outcome: relays.OutcomeTaken,
		Keep: time.Hour})
	r.busyFailover(a)
	r.must(membership.RotateGossipKey{Key: bytes.Repeat([]byte{0xB7}, membership.GossipKeySize)})
	r.must(membership.ConfirmGossipKeys{Peer: "b", Changed: r.view().GossipRotation().Changed})
	r.must(operators.NoteOperator{Name: "ann", Issued: 1_700_000_000, Ends: 1_700_009_000})
	r.must(operators.RevokeOperator{Name: "bob", UpTo: 1_700_000_000, Ends: 1_700_009_000})
	r.must(membership.Exclude{Peer: "b", From: membership.FromLeading, On: true})
	r.must(membership.PutMember{Member: r.member("removed")})
	r.must(membership.RemoveMember{ID: "removed", Force: true})
	r.formerMember("former")
	r.asLeader(zones.Choose{UID: "uid-shop", Namespace: "shop", Tolerance: zones.ToleratesHost, Zones: []string{"b"}})
	if version >= 3 {
		r.asLeader(introspection.KeepInspected{For: time.Hour})
		r.busyExpectations(doc.Hash)
		r.asLeader(boots.Note{Heard: []boots.Heard{{Node: nodeA, Begun: 1,
			Step: boots.Step{Kind: boots.Asked, Times: boots.Times{FirstMillis: 1, LastMillis: 2, Count: 2}, Peer: "a",
				MAC: "52:54:00:00:00:01"}}},
			Judged: []boots.Judged{{Node: nodeA, Begun: 1, Findings: []entry.Finding{{Code: "no-offer", Text: "No."}}}}})
		r.asLeader(deliveries.Note{Receivers: []deliveries.Progress{{Receiver: "cmdb", Taken: r.view().Events().Last()}}})
	}
	r.pass(time.Second)
	r.must(Probe{})
	return r
}

// busyExpectations judges two machines, of which one is not as ordered and has changed.
func (r *rig) busyExpectations(document blobs.Hash) {
	r.t.Helper()
	r.must(expectations.Put{Name: "compute", Body: []byte(`{"name":"compute"}`)})
	r.must(expectations.Put{Name: "storage", Body: []byte(`{"name":"storage"}`)})
	r.must(expectations.Delete{Name: "storage"})
	r.asLeader(expectations.Judge{Under: r.view().ExpectationsChanged(), Judgements: []expectations.Judgement{
		{Node: nodeA, Document: document, Earlier: pack(r.t, "second").Hash, By: []string{"compute"}, Name: "compute-1",
			Differences: []string{"too few disks"}, Changed: 1, Changes: "a disk went", Sent: 3},
		{Node: nodeB, Document: document},
	}})
}

func snapshot(t testing.TB, v View) []byte {
	t.Helper()
	var buf bytes.Buffer
	n, err := v.WriteTo(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(buf.Len()) {
		t.Errorf("WriteTo says %d bytes, wrote %d", n, buf.Len())
	}
	return buf.Bytes()
}

func TestSnapshotRestoresTheSameState(t *testing.T) {
	for name, r := range map[string]*rig{"busy": busy(t), "founded": newRig(t), "empty": {t: t, state: New()}} {
		t.Run(name, func(t *testing.T) {
			data := snapshot(t, r.view())
			back, err := Read(iotest.OneByteReader(bytes.NewReader(data)))
			if err != nil {
				t.Fatal(err)
			}
			if back.View().Hash() != r.view().Hash() {
				t.Error("another hash")
			}
			if got, want := dumpText(t, back.View()), dumpText(t, r.view()); got != want {
				t.Errorf("a table that hash and snapshot leave out?\n%s\nwas\n%s", got, want)
			}
			if err := back.View().Check(); err != nil {
				t.Error(err)
			}
			// Indices are made anew; they must behave as the old ones.
			if got, want := back.View().Claimable(), r.view().Claimable(); got != want {
				t.Errorf("%d claimable, want %d", got, want)
			}
			if got, want := back.now.shared.Deadlines(), r.state.now.shared.Deadlines(); got != want {
				t.Errorf("%d deadlines, want %d", got, want)
			}
			if got, want := back.View().ClusterVersion(), r.view().ClusterVersion(); got != want {
				t.Errorf("version %d, want %d", got, want)
			}
		})
	}
}

func dumpText(t testing.TB, v View) string {
	t.Helper()
	var buf bytes.Buffer
	if err := v.Dump(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestEveryTableIsInTheHash(t *testing.T) {
	r := busy(t)
	seen := map[byte]bool{}
	for record := range r.state.now.records() {
		seen[record[0]] = true
	}
	if len(sections) != len(sectionOrder) {
		t.Errorf("%d tables, and %d tags in sectionOrder", len(sections), len(sectionOrder))
	}
	for i, s := range sections {
		if i < len(sectionOrder) && s.Tag != sectionOrder[i] {
			t.Errorf("table %s is number %d, which sectionOrder has for %q", s.Name, i, sectionOrder[i])
		}
		if !seen[s.Tag] {
			t.Errorf("table %s has no record in the busy state", s.Name)
		}
		if first, _ := sectionOf(s.Tag); first.Name != s.Name {
			t.Errorf("tables %s and %s share a tag", s.Name, first.Name)
		}
	}
}

// Every truncation and every changed bit is found.
func TestDamagedSnapshotIsRefused(t *testing.T) {
	data := snapshot(t, busy(t).view())
	for n := range data {
		if _, err := Read(bytes.NewReader(data[:n])); err == nil {
			t.Fatalf("cut after %d of %d bytes and not noticed", n, len(data))
		}
	}
	for bit := range len(data) * 8 {
		changed := bytes.Clone(data)
		changed[bit/8] ^= 1 << (bit % 8)
		_, err := Read(bytes.NewReader(changed))
		var damage *SnapshotError
		if !errors.As(err, &damage) {
			t.Fatalf("bit %d changed: %v", bit, err)
		}
	}
	if _, err := Read(bytes.NewReader(append(bytes.Clone(data), 0))); err == nil {
		t.Error("a byte after the end was not noticed")
	}
	broken := errors.New("disk")
	if _, err := Read(io.MultiReader(bytes.NewReader(data[:len(data)-9]), iotest.ErrReader(broken))); !errors.Is(err,
		broken) {
		t.Errorf("the disk's error got lost: %v", err)
	}
}

func TestSnapshotOfANewerBinaryIsRefused(t *testing.T) {
	data := snapshot(t, newRig(t).view())
	at := len(snapshotMagic)
	for name, i := range map[string]int{"format": at, "version": at + 4} {
		newer := bytes.Clone(data)
		newer[i] = 9
		if name == "version" { // a changed bit is no newer version
			if _, err := Read(bytes.NewReader(newer)); errors.Is(err, UnknownEntry) || err == nil {
				t.Errorf("a changed bit in the version: %v", err)
			}
			resum(newer)
		}
		_, err := Read(bytes.NewReader(newer))
		if !errors.Is(err, UnknownEntry) || !strings.Contains(err.Error(), "upgrade trivet") {
			t.Errorf("newer %s: %v", name, err)
		}
	}
	if _, err := Read(strings.NewReader("#!/bin/sh\necho this is another file\n")); err == nil ||
		!strings.Contains(err.Error(), "not a snapshot") {
		t.Errorf("another file: %v", err)
	}
}

// resum makes the checksum right for what a test has changed.
func resum(data []byte) {
	body := data[:len(data)-sha256.Size]
	sum := sha256.Sum256(body)
	copy(data[len(body):], sum[:])
}

// TestDamageIsTold cuts a snapshot inside each of its parts and between them, and
// changes random bits: what is told is what a person must know.
func TestDamageIsTold(t *testing.T) {
	data := snapshot(t, busy(t).view())
	first := int(binary.BigEndian.Uint32(data[headLength:]))
	tail := len(data) - sha256.Size - 8
	for name, n := range map[string]int{
		"nothing": 0, "the magic": 3, "the head": 12, "behind the head": headLength, "a length": headLength + 2,
		"a piece":        headLength + 4 + first/2,
		"behind a piece": headLength + 4 + first, "the end mark": tail - 1, "behind the end mark": tail,
		"the count": tail + 3, "before the sum": tail + 8, "the sum": len(data) - 1,
	} {
		_, err := Read(bytes.NewReader(data[:n]))
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "cut off") {
			t.Errorf("cut at %s: %v", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		changed := bytes.Clone(data)
		for range rapid.IntRange(1, 4).Draw(t, "bits") {
			bit := rapid.IntRange(8*len(snapshotMagic), 8*len(data)-1).Draw(t, "bit")
			changed[bit/8] ^= 1 << (bit % 8)
		}
		if bytes.Equal(changed, data) {
			t.Skip("changed back")
		}
		_, err := Read(bytes.NewReader(changed))
		if err == nil {
			t.Fatal("not noticed")
		}
		if newer := errors.Is(err, UnknownEntry); newer != (changed[len(snapshotMagic)] != snapshotFormat) {
			t.Fatalf("a changed bit is told as %v", err)
		}
	})
}

func TestWriteToReportsTheWriter(t *testing.T) {
	v := busy(t).view()
	data := snapshot(t, v)
	full := errors.New("disk full")
	for n := 0; n < len(data); n += 7 {
		if _, err := v.WriteTo(&limited{left: n, err: full}); !errors.Is(err, full) {
			t.Fatalf("a disk full after %d bytes: %v", n, err)
		}
	}
}

// limited fails after so many bytes.
type limited struct {
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if n < len(p) {
		return n, l.err
	}
	return n, nil
}

// A stop does not wait for a snapshot: it is given up between any two documents that are
// checked, and any two records that are written.
func TestSnapshotIsGivenUpAnywhere(t *testing.T) {
	v := busy(t).view()
	asked, stopped := 0, errors.New("stopped")
	after := func(n int) func() error {
		asked = 0
		return func() error {
			if asked++; asked > n {
				return stopped
			}
			return nil
		}
	}
	if _, err := WriteUntil(after(math.MaxInt), v, io.Discard); err != nil {
		t.Fatal(err)
	}
	parts, times := v.data.blobs.Table().Size(), asked
	for range v.data.records() {
		parts++
	}
	if times < parts {
		t.Errorf("snapshot-given-up: asked %d times whether to go on with %d documents and records", times, parts)
	}
	for n := range times {
		if _, err := WriteUntil(after(n), v, io.Discard); !errors.Is(err, stopped) {
			t.Errorf("snapshot-given-up: after %d of %d times: %v", n, times, err)
		}
	}
}

func TestDumpShowsNoSecret(t *testing.T) {
	r := busy(t)
	r.must(membership.AddJoinToken{ID: "second", Hash: blobs.HashOf([]byte("secret")), TTL: time.Hour})
	out := dumpText(t, r.view())
	for _, secret := range []string{"topsecret", "PRIVATE", "a5a5", "b7b7", "t7e3t7e3", "pKWlpaW",
		blobs.HashOf([]byte("secret")).String(), `"Hash"`} {
		if strings.Contains(out, secret) {
			t.Errorf("the dump shows %q", secret)
		}
	}
	for _, wanted := range []string{nodeA, `"processing"`, "host-a", "(redacted)", `"second"`, `"next_turn": "1m0s"`,
		`"pass_rule"`, `"floating_ip"`, `"p3"`, "52:54:00:00:00:02"} {
		if !strings.Contains(out, wanted) {
			t.Errorf("the dump does not show %q", wanted)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(verb, r.view().Secrets()); strings.Contains(out, "topsecret") || strings.Contains(out, "165") {
			t.Errorf("%s shows %q", verb, out)
		}
	}
}

// A state that contradicts itself is not written: it could not be read back, and
// raft deletes the log that a snapshot covers.
func TestContradictoryStateIsNotWritten(t *testing.T) {
	state := busy(t).state
	broken := *state.now
	broken.shared.Position.Index = 0 // below the entries that granted its tokens
	var out bytes.Buffer
	_, err := View{&broken}.WriteTo(&out)
	var refused *SnapshotError
	if !errors.As(err, &refused) || out.Len() > 0 {
		t.Errorf("unreadable-snapshot: %d bytes were written, error %v", out.Len(), err)
	}
}
