package admission

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"
)

// Class says what a request costs, and of whom it comes. Each route of a server has
// one.
type Class uint8

// The classes.
const (
	// Callback is a machine that waits for an answer to what it sent. Its places are
	// taken by nothing else.
	Callback Class = iota + 1
	// Operator is a change, or a question of those who run the hosts. Requests of the
	// unix socket and of other peers have places of their own for every class.
	Operator
	// Read costs some 100 µs, and may wait for others.
	Read
	// Dear costs milliseconds of a processor or megabytes.
	Dear
	// Stream lasts until its caller goes away: a stream, or a poll that waits.
	// Operators have places of their own.
	Stream
	// Stranger is answered without credentials.
	Stranger
	// Join is a host that asks to become a peer. It takes its place when its token, or
	// what it was before, is known to be good.
	Join
	// Probe asks who leads, whether a server lives, or for its metrics, and is answered from
	// memory without credentials. Programs act on the answer within a second or two.
	Probe
	// Review is an object that an API server asks about: what is computed for it.
	Review
	// Document reads a large document of a machine: megabytes, and a processor for long.
	Document

	socket         // all requests of the socket but streams
	connection     // a connection that begins; see Connect
	intake         // a piece of a body; see Place.Take
	operatorStream // streams of operators
	peer           // what another peer asks, but for what follows
	peerDear
	peerStream
	classes
)

// String returns the name of a class as documents have it.
func (c Class) String() string {
	return [...]string{"none", "callback", "operator", "read", "dear read", "stream", "stranger", "join", "probe", "review", "document",
		"socket", "connection", "intake", "operator stream", "peer", "peer's dear read", "peer's stream"}[min(c, classes-1)]
}

// Caller is where a request comes from.
type Caller struct {
	Source   netip.Prefix // the zero Prefix is the unix socket
	Operator bool         // it may change everything
	Peer     bool         // another peer, which has proved who it is: Source is that of Named
	Scrape   bool         // of class Probe, and its answer is long: it waits in a lane without the others
	Until    time.Time    // it waits in no line any more; zero: as long as each line lets it
}

// places is how much of each class there is. What waits for another costs memory
// alone; what computes keeps the goroutines of the log from the processor for up to
// 10 ms each (the slice of Go's scheduler), and the log stands up to some 200 ms. So what
// computes for strangers may do as much at once. Connections may more: their handshakes take
// turns, and while all wait for the pace, so does a machine that connects among them.
var places = [classes]Places{
	Callback:       {AtOnce: 256, Share: 192, Waiting: 4096, Wait: CallbackWait, First: true, Waits: true, Each: Pace{Rate: 200, Burst: 2000}, All: Pace{Rate: 400, Burst: 4000}},
	Operator:       {AtOnce: 256, Share: 192, Waiting: 4096, Wait: onlyAttempt, Waits: true, Each: Pace{Rate: 200, Burst: 1000}, All: Pace{Rate: 400, Burst: 2000}},
	Read:           {AtOnce: 256, Share: 192, Waiting: 4096, Wait: onlyAttempt, Waits: true, Each: Pace{Rate: 600, Burst: 5000}, All: Pace{Rate: 800, Burst: 8000}},
	Dear:           {AtOnce: 4, Share: 3, Waiting: 4096, Wait: onlyAttempt, Each: Pace{Rate: 300, Burst: 2000}, All: Pace{Rate: 500, Burst: 3000}},
	Stream:         {AtOnce: 2048, Share: 1024, Waits: true, Each: Pace{Rate: 400, Burst: 200}, All: Pace{Rate: 600, Burst: 400}}, // of one source half as many as connections
	Stranger:       {AtOnce: 4, Share: 3, Waiting: 512, Wait: 5 * time.Second, Each: Pace{Rate: 200, Burst: 200}, All: Pace{Rate: 400, Burst: 400}},
	Join:           {AtOnce: 4, Share: 3, Waiting: 64, Wait: 5 * time.Second},
	Probe:          {AtOnce: 64, Share: 48, Waiting: 4096, Wait: 2 * time.Second, Each: Pace{Rate: 200, Burst: 200}, All: Pace{Rate: 400, Burst: 400}},
	Review:         {AtOnce: 4, Share: 3, Waiting: 512, Wait: 3 * time.Second, Each: Pace{Rate: 300, Burst: 200}, All: Pace{Rate: 500, Burst: 400}},
	Document:       {AtOnce: 2, Share: 1, Waiting: 4096, Wait: CallbackWait, First: true, Each: Pace{Rate: 200, Burst: 2000}, All: Pace{Rate: 500, Burst: 5000}},
	socket:         {AtOnce: 64, Share: 64, Waiting: 256, Wait: 10 * time.Second},
	connection:     {AtOnce: 4, Share: 3, Waiting: 4096, Wait: 10 * time.Second, Each: Pace{Rate: 100, Burst: 500}, All: Pace{Rate: 300, Burst: 1500}},
	intake:         {AtOnce: 4, Share: 3, Waiting: 4096, Wait: CallbackWait, First: true, Each: Pace{Rate: 150, Burst: 100}, All: Pace{Rate: 300, Burst: 200}}, // 30 and 60 MB/s
	operatorStream: {AtOnce: 100, Share: 100, Waits: true, Each: Pace{Rate: 200, Burst: 200}, All: Pace{Rate: 400, Burst: 400}},
	peer:           {AtOnce: 256, Share: 16, Waiting: 1024, Wait: 3 * time.Second, Waits: true, Each: Pace{Rate: 600, Burst: 5000}, All: Pace{Rate: 1000, Burst: 8000}}, // a peer has 4 to 6 under way, with commands of 4 MiB among them
	peerDear:       {AtOnce: 4, Share: 3, Waiting: 128, Wait: 10 * time.Second, Each: Pace{Rate: 300, Burst: 2000}, All: Pace{Rate: 500, Burst: 3000}},
	peerStream:     {AtOnce: 1024, Share: 96, Wait: 3 * time.Second, Waits: true, Each: Pace{Rate: 300, Burst: 2000}, All: Pace{Rate: 500, Burst: 3000}}, // a peer awaits the end of 64 leases
}

// CallbackWait is how long a machine that calls may wait before its document is worked on,
// in all lines together: it gives up for good when it has no answer within 30 s
// (docs/design.md#budgets).
const CallbackWait = 20 * time.Second

// onlyAttempt is how long a request waits whose client has no time-out and repeats nothing,
// as python-ironic-inspector-client; proxies often give up after 50 s.
const onlyAttempt = 30 * time.Second

// refusal is how long a request waits that is refused.
const refusal = time.Second

// taking is what a request costs before and after it has a place: to read its head, find
// its handler, write the answer and log. Measured: 40 to 80 µs, also of one that is
// refused; without it 25,000 a second of the cheapest kind would count for nothing.
const taking = 100 * time.Microsecond

// What a connection costs that begins: to accept it and make it ready, and by TLS to shake
// hands as well.
const (
	InClear = 50 * time.Microsecond
	ByTLS   = 400 * time.Microsecond
)

// What it costs to take a byte of a body into memory, and to read and pack one of a
// document, at the least.
const (
	takeByte = 5 * time.Nanosecond
	readByte = 50 * time.Nanosecond
)

// sendByte is what it costs to send a byte of an answer, at the least.
const sendByte = 5 * time.Nanosecond

// answers bounds the bytes of answers that callers have not taken.
var answers = Bytes{All: 64 << 20, Share: 16 << 20, Small: 64 << 10, Large: 48 << 20}

// Bounds of the bodies that come in. How long one may take is for the server to bound
// (httpserver.Limits).
const (
	MaxBody        = 8 << 20           // bytes of one, of any caller
	AllBodies      = 96 << 20          // bytes of all that are held at once
	SmallBody      = 256 << 10         // bytes of an ordinary one; a quarter of all is for those
	BodiesOfSource = 3 * (MaxBody + 1) // bytes of one source
	// BodiesOfStrangers is bytes of those above SmallBody whose senders are not known: one
	// source leaves as much to all others, and all of them leave a third to those that are.
	BodiesOfStrangers = 2 * BodiesOfSource
	// bodiesOfOne is bytes of one known sender: a document and its repeat, or an imported record.
	bodiesOfOne = 2*MaxBody + 64<<10 + 1
)

// bodies bounds the bodies of all servers of a peer, but for reviews: as many wait for room
// as there are connections.
var bodies = Bytes{
	All: AllBodies, Share: BodiesOfSource, Large: AllBodies * 3 / 4, Small: SmallBody + 1, // 1 more sees the end without growing
	Known: bodiesOfOne, Strange: BodiesOfStrangers, Waiting: 4096,
}

// The lanes of each line.
const (
	unknownLane = iota
	knownLane
	lanes
)

// Controller admits requests of all servers of a peer.
type Controller struct {
	lines   [classes]*Line
	answers *Memory
	bodies  *Memory
}

// NewController returns a controller that has admitted nothing.
func NewController() *Controller {
	c := &Controller{answers: NewMemory(answers), bodies: NewMemory(bodies)}
	for class, p := range places {
		p.Refusal = refusal
		c.lines[class] = NewLine(p, lanes)
	}
	return c
}

// Bodies is the room of the bodies that come in.
func (c *Controller) Bodies() *Memory { return c.bodies }

// Connect waits for the turn of a source's new connection, which costs so much: a
// source that opens connections without end waits before work is done for them. Those
// of known sources, as members' hosts, do not wait in line with others. Its errors are
// those of Line.Enter.
func (c *Controller) Connect(ctx context.Context, source netip.Prefix, known bool, cost time.Duration) error {
	lane := unknownLane
	if known {
		lane = knownLane
	}
	line := c.lines[connection]
	if err := line.Enter(ctx, lane, source); err != nil {
		return err
	}
	line.LeaveAfter(source, cost)
	return nil
}

// Taken returns how many requests of a class are in, and how many wait. What the socket
// and other peers ask, and the streams of operators, are not counted with their class.
func (c *Controller) Taken(class Class) (in, waiting int) {
	idle, waiting := c.lines[class].Idle()
	return places[class].AtOnce - idle, waiting
}

// Admit waits for a place of a class. The caller leaves the place. Its errors are
// those of Line.Enter.
func (c *Controller) Admit(ctx context.Context, class Class, caller Caller) (*Place, error) {
	if asked, ok := ctx.Value(visitKey{}).(*atomic.Bool); ok {
		asked.Store(true)
	}
	p := &Place{of: c, caller: caller, extra: taking}
	if class == Probe && !caller.Scrape {
		p.lane = knownLane
	}
	return p, p.enter(ctx, class)
}

// visitKey finds in a context whether its request has asked for a place.
type visitKey struct{}

// Visit returns ctx for a request that begins. ended is called at its end: a request that
// asked for no place, as one for which there is no route or whose credentials are refused,
// takes then a stranger's. Its answer waits for that.
func (c *Controller) Visit(ctx context.Context, source netip.Prefix) (_ context.Context, ended func()) {
	asked := new(atomic.Bool)
	ctx = context.WithValue(ctx, visitKey{}, asked)
	return ctx, func() {
		if asked.Load() {
			return
		}
		// Where there is no place, it has waited for that.
		if p, err := c.Admit(ctx, Stranger, Caller{Source: source}); err == nil {
			p.Leave()
		}
	}
}

// Do does work in a place of a class. Its errors are those of Line.Enter and of work.
func (c *Controller) Do(ctx context.Context, class Class, caller Caller, work func() error) error {
	p, err := c.Admit(ctx, class, caller)
	if err != nil {
		return err
	}
	defer p.Leave()
	return work()
}

// Place is that of one request. It belongs to the request's goroutine.
type Place struct {
	of     *Controller
	caller Caller
	class  Class        // the line that it is in; 0: none
	source netip.Prefix // whose place that is
	since  time.Time    // when it entered that
	lane   int          // of each line
	held   []func()     // end what Answer holds
	taken  int          // bytes that were not counted yet; see Take

	extra time.Duration // work outside its places that no line was charged with: taking, or to send an answer
}

// enter takes a place in one of the lines that the class means for the caller.
func (p *Place) enter(ctx context.Context, class Class) error {
	switch {
	case p.caller.Peer:
		// Callers of other kinds take none of its places, and what a peer asks for an
		// operator none of those by which the log lives.
		switch class {
		case Dear:
			class = peerDear
		case Stream:
			class = peerStream
		default:
			class = peer
		}
	case class == Stream && p.caller.Operator:
		if p.of.lines[operatorStream].Enter(ctx, p.lane, p.caller.Source) == nil {
			p.class, p.source = operatorStream, p.caller.Source
			return nil
		}
	case class != Stream && !p.caller.Source.IsValid():
		class = socket
	}
	return p.enterLine(ctx, class)
}

// enterLine takes a place in a line.
func (p *Place) enterLine(ctx context.Context, class Class) error {
	if err := p.wait(ctx, class); err != nil {
		return err
	}
	p.class, p.source, p.since = class, p.caller.Source, time.Now()
	return nil
}

// wait waits in a line.
func (p *Place) wait(ctx context.Context, class Class) error {
	if end := p.caller.Until; !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, ErrBusy)
		defer cancel()
	}
	return p.of.lines[class].Enter(ctx, p.lane, p.caller.Source)
}

// Vouch notes that the request comes from one machine that is known. In each line that it
// enters from now on it stands before those that are not, and its source is the machine,
// wherever it calls from.
func (p *Place) Vouch(machine netip.Prefix) { p.lane, p.caller.Source = knownLane, machine }

// Switch leaves the place for one of another class, as a request does that begins to
// wait for long. Its errors are those of Line.Enter; the request has no place then.
func (p *Place) Switch(ctx context.Context, class Class) error {
	p.vacate()
	return p.enter(ctx, class)
}

// Aside leaves the place while something else is waited for, as a body or a place of
// another class, and takes one of the same class again: who sends slowly keeps no others
// out. Its errors are those of Line.Enter, for want of a place, and of wait.
func (p *Place) Aside(ctx context.Context, wait func() error) error {
	class := p.class
	p.vacate()
	if err := wait(); err != nil {
		return err
	}
	return p.enterLine(ctx, class)
}

// Within does a part of the request's work in a place of another class, which it has
// next to its own. Its errors are those of Line.Enter and of work.
func (p *Place) Within(ctx context.Context, class Class, work func() error) error {
	other := &Place{of: p.of, caller: p.caller, lane: p.lane, extra: taking}
	if err := other.enter(ctx, class); err != nil {
		return err
	}
	defer other.Leave()
	return work()
}

// Take counts what it costs to take so many bytes of a body in, used or not.
// Of a large one the next bytes wait for the source's turn: memory that fills faster than
// it is collected keeps the log waiting. Its errors are those of Line.Enter.
func (p *Place) Take(ctx context.Context, bytes int) error {
	p.taken += bytes
	if p.taken < firstPiece {
		return nil
	}
	cost := time.Duration(p.taken) * takeByte
	p.taken = 0
	if err := p.wait(ctx, intake); err != nil {
		return err
	}
	p.of.lines[intake].LeaveAfter(p.caller.Source, cost)
	return nil
}

// Pay counts work of a request that lasts, and the bytes that it sends next. It returns when
// its source, and all of its class, are within their pace: where a thousand streams have as
// much to do at once, each waits for its turn. Its error is the cause of ctx's end.
func (p *Place) Pay(ctx context.Context, work time.Duration, bytes int) error {
	return p.of.lines[p.class].pay(ctx, p.source, work+time.Duration(bytes)*sendByte)
}

// Read counts what it costs to read a document of so many bytes.
func (p *Place) Read(bytes int) { p.extra += time.Duration(bytes) * readByte }

// Bodies is that of the controller.
func (p *Place) Bodies() *Memory { return p.of.bodies }

// Hold takes room for bytes that the caller has not taken, until done is called. Its
// error is ErrBusy: they must not be sent.
func (p *Place) Hold(bytes int) (done func(), err error) {
	room := p.of.answers.Enter(p.caller.Source, nil)
	if err := room.Take(bytes); err != nil {
		room.Release()
		return nil, err
	}
	return room.Release, nil
}

// Answer is Hold for the whole answer of a request, until the request ends. It gives the
// place to another, since a caller may take its answer slowly.
func (p *Place) Answer(bytes int) error {
	done, err := p.Hold(bytes)
	if err != nil {
		return err
	}
	p.extra += time.Duration(bytes) * sendByte
	p.vacate()
	p.held = append(p.held, done)
	return nil
}

// Leave ends the request.
func (p *Place) Leave() {
	p.vacate()
	for _, done := range p.held {
		done()
	}
}

func (p *Place) vacate() {
	if p.class == 0 {
		return
	}
	work := p.extra
	if !places[p.class].Waits {
		work += time.Since(p.since)
	}
	p.of.lines[p.class].LeaveAfter(p.source, work)
	p.class, p.extra = 0, 0
}

// placeKey finds the place of a request in its context.
type placeKey struct{}

// With returns ctx with the place of its request.
func With(ctx context.Context, p *Place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// Of returns the place of the request that ctx belongs to, nil if it has none.
func Of(ctx context.Context) *Place {
	p, _ := ctx.Value(placeKey{}).(*Place)
	return p
}
