package fsm

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fencing"
)

// samples holds one valid command of every kind.
func samples(t testing.TB) []Command {
	t.Helper()
	blob, err := NewPutBlob([]byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	return []Command{
		Lead{Peer: "a", Boot: "b"}, Probe{}, founding(),
		OpenSession{Peer: "a", Boot: "b", Version: 1, WallMillis: 5}, RenewSession{Session: 3, Applied: 9}, EndSession{Session: 3},
		PutMember{Member: member("b")}, RemoveMember{ID: "b"},
		AddJoinToken{ID: "j", Hash: [32]byte{1}, TTL: time.Hour}, RevokeJoinToken{ID: "j"}, UseJoinToken{Hash: [32]byte{1}, Member: member("b")},
		PutSetting{Key: "k", Value: "v"}, DeleteSetting{Key: "k"},
		GrantLease{Name: "l", Holder: "h", TTL: time.Minute}, RenewLease{Name: "l", Holder: "h", Token: 4},
		ReleaseLease{Name: "l", Holder: "h", Token: 4}, DeleteLease{Name: "l"},
		StartIntrospection{Node: nodeA, Event: EventStart, Timeout: time.Minute, Attributes: Attributes{MACs: []string{"52:54:00:00:00:01"}}},
		Enqueue{Node: nodeA, Event: EventProcess, Document: blob.Hash}, ClaimNext{}, Advance{Claim: 4, Event: EventWait, Attributes: &Attributes{}},
		Mark{Claim: 4, Hook: "scheduler"}, Consume{Claim: 4}, Release{Claim: 4}, DeleteNode{Node: nodeA, Claim: 4}, blob,
	}
}

func TestEveryKindSurvivesTheLog(t *testing.T) {
	h := Header{Time: 5, WallMillis: 6, Token: 7, Session: 8, Request: MintRequestID(9, 1, [8]byte{1}), Client: "c"}
	h.Answered = h.Request
	seen := map[Kind]bool{}
	for _, c := range samples(t) {
		seen[c.Kind()] = true
		header, command, err := Decode(entry(t, h, c))
		if err != nil {
			t.Fatal(err)
		}
		if header != h || !reflect.DeepEqual(command, c) {
			t.Errorf("%+v came back as %+v under %+v", c, command, header)
		}
	}
	for _, row := range rows {
		if !seen[row.kind] {
			t.Errorf("%s has no sample", row.name)
		}
		if first, _ := lookup(row.kind); first.name != row.name {
			t.Errorf("%s and %s have one number", row.name, first.name)
		}
		if row.kind.Since() < 1 || row.kind.Since() > Version {
			t.Errorf("%s came with version %d", row.name, row.kind.Since())
		}
	}
}

func TestEncodeRefusesWhatBreaksARule(t *testing.T) {
	id := MintRequestID(5, 0, [8]byte{})
	higher := MintRequestID(5, 1, [8]byte{})
	long := strings.Repeat("x", 5000)
	bad := []struct {
		h Header
		c Command
	}{
		{Header{}, nil},
		{Header{Time: -1}, Probe{}},
		{Header{WallMillis: -1}, Probe{}},
		{Header{Request: id}, Probe{}},
		{Header{Client: "c"}, Probe{}},
		{Header{Answered: id}, Probe{}},
		{Header{Session: 1, Request: id, Answered: higher}, Probe{}},
		{Header{Session: 1, Request: RequestID{1}}, Probe{}},
		{Header{Session: 1, Request: id, Client: strings.Repeat("c", MaxClient+1)}, Probe{}},
		{Header{Session: 1, Request: id, Client: "\xff"}, Probe{}},
		{Header{}, Lead{Peer: "a"}}, {Header{}, Lead{Boot: "a"}}, {Header{}, Lead{Peer: "a b", Boot: "b"}},
		{Header{}, OpenSession{Peer: "a", Boot: "b"}}, {Header{}, RenewSession{}}, {Header{}, EndSession{}},
		{Header{}, RenewSession{Session: 1, Refuses: long}},
		{Header{}, PutMember{}}, {Header{}, PutMember{Member: Member{ID: "a", Name: "a", Address: "host", Version: 1}}},
		{Header{}, PutMember{Member: Member{ID: "a", Name: "a", Address: "a@h:1", Version: 1}}},
		{Header{}, PutMember{Member: Member{ID: "a", Name: "a", Address: "h:0", Version: 1}}},
		{Header{}, PutMember{Member: Member{ID: "a", Name: "a", Address: "h:1"}}},
		{Header{}, RemoveMember{}}, {Header{}, RevokeJoinToken{ID: "ü"}},
		{Header{}, AddJoinToken{ID: "j", TTL: time.Hour}}, {Header{}, AddJoinToken{ID: "j", Hash: [32]byte{1}}},
		{Header{}, AddJoinToken{ID: "j", Hash: [32]byte{1}, TTL: 366 * 24 * time.Hour}},
		{Header{}, PutSetting{}}, {Header{}, PutSetting{Key: "K"}}, {Header{}, PutSetting{Key: "k", Value: long}},
		{Header{}, PutSetting{Key: strings.Repeat("k", 65)}}, {Header{}, DeleteSetting{Key: "a/b"}},
		{Header{}, GrantLease{Name: "l", Holder: "h"}}, {Header{}, GrantLease{Name: "-l", Holder: "h", TTL: time.Minute}},
		{Header{}, GrantLease{Name: "l", TTL: time.Minute}}, {Header{}, GrantLease{Name: "l", Holder: "h", TTL: 25 * time.Hour}},
		{Header{}, RenewLease{Name: "L", Holder: "h"}}, {Header{}, DeleteLease{}},
		{Header{}, StartIntrospection{Node: "x", Event: EventStart, Timeout: 1}},
		{Header{}, StartIntrospection{Node: "ABCDEF00-1111-4111-8111-111111111111", Event: EventStart, Timeout: 1}},
		{Header{}, StartIntrospection{Node: nodeA, Event: EventAbort, Timeout: 1}}, {Header{}, StartIntrospection{Node: nodeA, Event: EventStart}},
		{Header{}, StartIntrospection{Node: nodeA, Event: EventStart, Timeout: 1, Attributes: Attributes{MACs: []string{"52:54:00:00:00:0A"}}}},
		{Header{}, StartIntrospection{Node: nodeA, Event: EventStart, Timeout: 1, Attributes: Attributes{BMC: []string{"::1", "::1"}}}},
		{Header{}, Enqueue{Node: nodeA, Event: EventStart}}, {Header{}, Enqueue{Node: nodeA, Event: EventProcess}},
		{Header{}, Enqueue{Node: nodeA, Event: EventAbort, Document: Hash{1}}}, {Header{}, Enqueue{Node: nodeA, Event: EventReapply}},
		{Header{}, Advance{Event: EventError}}, {Header{}, Advance{Event: EventGiveUp}}, {Header{}, Advance{Event: EventDelete}},
		{Header{}, Mark{}}, {Header{}, DeleteNode{}}, {Header{}, PutBlob{Hash: Hash{1}, Data: []byte("plain")}},
		{Header{}, PutBlob{Data: zstdMagic}}, {Header{}, PutBlob{Hash: Hash{1}, Data: append(bytes.Clone(zstdMagic), make([]byte, MaxBlob)...)}},
		{Header{}, stranger{}},
	}
	for _, b := range bad {
		data, err := Encode(b.h, b.c)
		var refusal *Error
		if err == nil || !errors.As(err, &refusal) || refusal.Code != Invalid {
			t.Errorf("%+v %+v was encoded to %d bytes, error %v", b.h, b.c, len(data), err)
		}
	}
}

// stranger is a command that the log does not know.
type stranger struct{}

func (stranger) Kind() Kind      { return 99 }
func (stranger) Validate() error { return nil }

// Promise 8.
func TestUnknownEntriesStopThePeer(t *testing.T) {
	good := entry(t, Header{Time: Time(time.Minute)}, PutSetting{Key: "k", Value: "v"})
	header := good[envelope : len(good)-len(marshal(PutSetting{Key: "k", Value: "v"}))]
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
		"garbage header":              {formatV1, byte(KindProbe), 0xff, 0xff},
		"garbage body":                with(byte(KindPutSetting), []byte("garbage")),
		"no body":                     with(byte(KindPutSetting), nil),
		"two bodies":                  append(bytes.Clone(good), 0xa0),
		"a field of a newer binary":   with(byte(KindPutSetting), newerField),
		"a body against the rules":    with(byte(KindPutSetting), marshal(PutSetting{Key: "NOT ALLOWED"})),
		"too long":                    append(bytes.Clone(good), make([]byte, MaxEntry)...),
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
	data := entry(t, Header{Time: r.now.Add(SessionTTL)}, Probe{})
	data[1] = 0xfe
	if res := r.raw(data); res.Code != OK || res.Token != fencing.Token(r.index) {
		t.Errorf("result %+v", res)
	}
	if v := r.view(); v.Index() != r.index || v.Now() != Time(SessionTTL) || len(v.Sessions()) != 0 {
		t.Errorf("index %d, time %v, sessions %v", v.Index(), v.Now(), v.Sessions())
	}
}

func TestEntriesComeInOrder(t *testing.T) {
	r := newRig(t)
	data := entry(t, Header{}, Probe{})
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
	r.now = MaxTime
	r.session("a")
	if _, err := Encode(Header{Time: MaxTime + 1}, Probe{}); err == nil {
		t.Error("an entry may leave no room for deadlines")
	}
}

func TestResultsAndErrorsNameTheirCode(t *testing.T) {
	err := refuse(Conflict, "x %d", 1).Err()
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
