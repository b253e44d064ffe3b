package fsm

import "github.com/trivet-ha/trivet/fsm/fencing"

var marksDomain = domain{
	verbs: []row{
		verb(113, "publish marks", applyPublishMarks).from(2),
	},
	sections: []section{
		many('M', "configuration marks", func(d *data) table[ConfigMarks] { return d.peers.marks },
			func(d *data, m ConfigMarks) { d.peers.marks.put([]byte(m.Peer), m) }),
	},
	check: checkMarks,
}

// Bounds of what a peer says of its configuration.
const (
	MaxMarks     = 512 // options
	maxMarkName  = 64  // bytes of the name of a section or an option
	maxMarkParts = 64  // sections
)

// ConfigMarks is what a member says of the options of its configuration that have to
// be the same on all peers: a short mark of each value, equal where the values are.
// It stays while the member does, also while it is down: the member is expected to
// come back with it.
type ConfigMarks struct {
	Peer     string        `cbor:"1,keyasint"` // server ID
	Sections []MarkSection `cbor:"2,keyasint"`
	Wall     int64         `cbor:"3,keyasint,omitempty"` // wall clock then, Unix ms; for display
}

// MarkSection is one section of a configuration, in the order of names.
type MarkSection struct {
	Name  string       `cbor:"1,keyasint,omitempty"` // "" for the top
	Marks []OptionMark `cbor:"2,keyasint"`
}

// OptionMark is one option and the mark of its value, in the order of names.
type OptionMark struct {
	Name  string `cbor:"1,keyasint"` // within its section
	Value uint64 `cbor:"2,keyasint"`
}

// PublishMarks tells the log what a peer is configured with. It replaces what it
// told before.
type PublishMarks struct {
	Session  fencing.Token `cbor:"1,keyasint"` // of the peer; must live
	Sections []MarkSection `cbor:"2,keyasint"`
}

// Validate implements Command.
func (c PublishMarks) Validate() error {
	if c.Session.IsZero() {
		return invalid("no session")
	}
	return validMarks(c.Sections)
}

// validMarks checks bounds and order: what is equal is written in one way.
func validMarks(sections []MarkSection) error {
	if n := len(sections); n == 0 || n > maxMarkParts {
		return invalid("%d sections of a configuration, allowed are 1 to %d", n, maxMarkParts)
	}
	total := 0
	for i, s := range sections {
		if err := within("section", s.Name, 0, maxMarkName); err != nil {
			return err
		}
		if i > 0 && sections[i-1].Name >= s.Name {
			return invalid("section %q does not come after %q", s.Name, sections[i-1].Name)
		}
		if total += len(s.Marks); len(s.Marks) == 0 || total > MaxMarks {
			return invalid("section %q has %d marks, and there are %d of at most %d", s.Name, len(s.Marks), total, MaxMarks)
		}
		for j, m := range s.Marks {
			if err := within("option", m.Name, 1, maxMarkName); err != nil {
				return err
			}
			if j > 0 && s.Marks[j-1].Name >= m.Name {
				return invalid("option %q does not come after %q", m.Name, s.Marks[j-1].Name)
			}
		}
	}
	return nil
}

func applyPublishMarks(t *txn, c PublishMarks) Result {
	s, live := t.peers.memberSession(c.Session)
	switch {
	case !live:
		return refuse(SessionEnded, "session %v has ended", c.Session)
	case !t.header.Session.IsZero() && t.header.Session != c.Session:
		return refuse(Refused, "session %v does not speak for session %v", t.header.Session, c.Session)
	}
	t.peers.marks.put([]byte(s.Peer), ConfigMarks{Peer: s.Peer, Sections: c.Sections, Wall: t.header.WallMillis})
	return done()
}

// ConfigMarks returns what a member says of its configuration.
func (v View) ConfigMarks(id string) (ConfigMarks, bool) { return v.d.peers.marks.get([]byte(id)) }

// AllConfigMarks returns what all members say, in the order of server IDs.
func (v View) AllConfigMarks() []ConfigMarks { return values(v.d.peers.marks.all()) }

func checkMarks(d *data, p *problems) {
	for key, m := range d.peers.marks.all() {
		p.want(string(key) == m.Peer, "the marks of %s are filed under %q", m.Peer, key)
		p.want(d.peers.members.has(key), "marks of %s, which is not a member", m.Peer)
		if err := validMarks(m.Sections); err != nil {
			p.addf("marks of %s: %v", m.Peer, err)
		}
	}
}
