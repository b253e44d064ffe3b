package boots

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of tracks.
const (
	MaxTracks = 10_000
	// MaxSteps and MaxBytes bound one track, the latter with its findings.
	MaxSteps = 40
	MaxBytes = 4 << 10
	// MaxText bounds a name of a file and what a server said, in bytes.
	MaxText = 128

	// beginning is how many of its first steps a full track keeps: how a boot began
	// explains more than how it went on in circles.
	beginning = 8
	// stepBytes is what a step takes but for its texts.
	stepBytes = 48
)

// Kind is what happened in a boot.
type Kind uint8

// The kinds, which stand in the log: none ever changes its number.
const (
	Asked     Kind = 1  // by DHCP for an address: DISCOVER, SOLICIT
	Offered   Kind = 2  // an address, by the server that Step names
	Chose     Kind = 3  // an offer: REQUEST
	Leased    Kind = 4  // the address was given: ACK, REPLY
	Refused   Kind = 5  // NAK
	Fetched   Kind = 6  // a boot file, complete
	Failed    Kind = 7  // a boot file was refused
	Abandoned Kind = 8  // a boot file was begun and not fetched to its end
	Spoke     Kind = 9  // ARP from its leased address: an operating system or a loader runs
	Unheard   Kind = 10 // nothing was recorded here: another host led
)

var kindNames = [...]string{
	Asked: "asked", Offered: "offered", Chose: "chose", Leased: "leased", Refused: "refused", Fetched: "fetched",
	Failed: "failed", Abandoned: "abandoned", Spoke: "spoke", Unheard: "unheard",
}

// String is the kind's name in the API.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Client is the program that asks, as it says itself.
type Client uint8

// The clients.
const (
	OtherClient Client = 0 // an operating system, or it does not say
	PXEClient   Client = 1 // the firmware, for TFTP
	HTTPClient  Client = 2 // the firmware, for HTTP
	IPXEClient  Client = 3
)

// Step is what happened once, or several times alike.
type Step struct {
	Kind Kind `cbor:"1,keyasint"`
	Times
	Peer   string `cbor:"5,keyasint"` // server ID of the peer that heard it
	MAC    string `cbor:"6,keyasint,omitempty"`
	Client Client `cbor:"7,keyasint,omitempty"`
	// Arch is the client's architecture plus one (RFC 4578 and its registry); 0: it names none.
	Arch uint16 `cbor:"8,keyasint,omitempty"`
	// Server is the DHCP server's address, ServerMAC where its answer was sent from;
	// Foreign says that it is not the server of this peer's host.
	Server    string `cbor:"9,keyasint,omitempty"`
	ServerMAC string `cbor:"10,keyasint,omitempty"`
	Foreign   bool   `cbor:"11,keyasint,omitempty"`
	Address   string `cbor:"12,keyasint,omitempty"` // offered, leased, or spoken from
	Relay     string `cbor:"13,keyasint,omitempty"` // giaddr
	File      string `cbor:"14,keyasint,omitempty"` // offered or fetched: a name in the TFTP root, or a URL
	Text      string `cbor:"15,keyasint,omitempty"` // what the server said of a refusal
	Bytes     int64  `cbor:"16,keyasint,omitempty"` // of the file that were fetched, as far as was heard
}

// Times are when a step happened first and last, by the wall clock of the host that heard it,
// and how often. In the log they stand among the keys of the step.
type Times struct {
	FirstMillis int64 `cbor:"2,keyasint"`
	LastMillis  int64 `cbor:"3,keyasint"`
	Count       int   `cbor:"4,keyasint"`
}

func (s Step) size() int {
	return stepBytes + len(s.Peer) + len(s.MAC) + len(s.Server) + len(s.ServerMAC) + len(s.Address) + len(s.Relay) +
		len(s.File) + len(s.Text)
}

func (s Step) validate() error {
	if s.Kind < Asked || s.Kind > Unheard || s.Client > IPXEClient {
		return fmt.Errorf("step of kind %d, client %d", s.Kind, s.Client)
	}
	if s.Count < 1 || s.Bytes < 0 || s.LastMillis < s.FirstMillis {
		return fmt.Errorf("step %v %d times, %d bytes, from %d to %d", s.Kind, s.Count, s.Bytes, s.FirstMillis, s.LastMillis)
	}
	for _, mac := range []string{s.MAC, s.ServerMAC} {
		if mac != "" && !valid.MAC(mac) {
			return fmt.Errorf("%q is not a MAC in lower case", mac)
		}
	}
	if err := valid.Each([]string{s.Server, s.Address, s.Relay}, func(address string) error {
		return errors.Join(valid.Length("address", address, 0, valid.MaxIP), valid.Chars("address", address, valid.IPChar))
	}); err != nil {
		return err
	}
	return errors.Join(valid.ID("peer", s.Peer), valid.Millis(s.FirstMillis), valid.Millis(s.LastMillis),
		valid.Text("file", s.File, 0, MaxText), valid.Text("text", s.Text, 0, MaxText))
}

// Track is what was heard of a machine that boots to be introspected.
type Track struct {
	Node string `cbor:"1,keyasint"` // UUID in lower case
	// Begun is that of the record, or Since of what Ironic itself inspects: the track of another
	// inspection begins empty.
	Begun   fencing.Token `cbor:"2,keyasint,omitempty"`
	Steps   []Step        `cbor:"3,keyasint"`
	Dropped int           `cbor:"4,keyasint,omitempty"` // steps that made room
	Expires entry.Time    `cbor:"5,keyasint"`
	// Findings are why the machine has not called, what stops it first before the rest. They stay
	// when its introspection has ended without its call.
	Findings []entry.Finding `cbor:"6,keyasint,omitempty"` // at most MaxFindings; never changed in place
	Told     Told            `cbor:"7,keyasint,omitzero"`
}

// Add merges a step that was heard now into the track, and makes room for it: a machine that begins
// again and again makes the steps of one boot, each so many times. Before a gap nothing is merged.
// Steps that others share stay as they are.
func (t *Track) Add(s Step) {
	t.Steps = slices.Clone(t.Steps)
	defer t.trim()
	for i := len(t.Steps) - 1; i >= 0 && t.Steps[i].Kind != Unheard; i-- {
		o := &t.Steps[i]
		same := *o // but for when and how often
		if same.Times, same.Bytes = s.Times, s.Bytes; same == s {
			o.FirstMillis, o.LastMillis = min(o.FirstMillis, s.FirstMillis), max(o.LastMillis, s.LastMillis)
			o.Count, o.Bytes = o.Count+s.Count, max(o.Bytes, s.Bytes)
			return
		}
	}
	t.Steps = append(t.Steps, s)
}

// trim drops steps from the middle until the rest fits, the oldest of those of which there are most:
// a flood of one kind, such as another server's offers, takes no room of the others.
func (t *Track) trim() {
	size := t.findingBytes()
	for _, s := range t.Steps {
		size += s.size()
	}
	if len(t.Steps) <= MaxSteps && size <= MaxBytes {
		return
	}
	t.Steps = slices.Clone(t.Steps)
	for len(t.Steps) > MaxSteps || size > MaxBytes {
		at := crowded(t.Steps)
		size -= t.Steps[at].size()
		t.Dropped += t.Steps[at].Count
		t.Steps = slices.Delete(t.Steps, at, at+1)
	}
}

// crowded is the index of the step that makes room.
func crowded(steps []Step) int {
	begin, most := min(beginning, len(steps)-1), 0
	var of [2][Unheard + 1]int // by Foreign and Kind
	count := func(s Step) *int {
		if s.Foreign {
			return &of[1][s.Kind]
		}
		return &of[0][s.Kind]
	}
	for _, s := range steps[begin:] {
		n := count(s)
		*n++
		most = max(most, *n)
	}
	return begin + slices.IndexFunc(steps[begin:], func(s Step) bool { return *count(s) == most })
}

// findingBytes is what the findings take of MaxBytes.
func (t Track) findingBytes() (n int) {
	for _, f := range t.Findings {
		n += len(f.Code) + len(f.Text)
	}
	return n
}

func (t Track) validate() error {
	size := t.findingBytes()
	for _, s := range t.Steps {
		if err := s.validate(); err != nil {
			return err
		}
		size += s.size()
	}
	if len(t.Steps)+len(t.Findings) == 0 || len(t.Steps) > MaxSteps || size > MaxBytes || t.Dropped < 0 {
		return fmt.Errorf("%d steps of %d bytes, %d dropped", len(t.Steps), size, t.Dropped)
	}
	return errors.Join(valid.Node(t.Node), validFindings(t.Findings))
}

// Noted is when the track changed last, in cluster time.
func (t Track) Noted() entry.Time { return t.Expires.Add(-keepFor) }

// Latest is when the newest step was heard, a wall clock in ms.
func (t Track) Latest() int64 {
	if len(t.Steps) == 0 {
		return 0
	}
	return slices.MaxFunc(t.Steps, func(a, b Step) int { return cmp.Compare(a.LastMillis, b.LastMillis) }).LastMillis
}
