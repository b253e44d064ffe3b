package admission

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"
)

// Class says what a request costs. Each route of a server has one.
type Class uint8

// The classes. docs/design.md#admission has who is in each, and why.
const (
	// Callback is a machine that waits for an answer to what it sent.
	Callback Class = iota + 1
	// Request waits for the log, or costs some 100 µs.
	Request
	// Dear costs milliseconds of a processor or megabytes.
	Dear
	// Stream lasts until its caller goes away: a stream, or a poll that waits.
	Stream
	// Stranger is answered without credentials, or judges those of a joiner.
	Stranger
	// Probe asks who leads, whether a server lives, or for its metrics, and is answered from
	// memory without credentials. Programs act on the answer within a second or two.
	Probe
	classes
)

// String returns the name of a class as documents have it.
func (c Class) String() string {
	return [...]string{"none", "callback", "request", "dear", "stream", "stranger", "probe"}[min(c, classes-1)]
}

// Port is where a request comes in. Each port has places of its own for each class.
type Port uint8

// The ports.
const (
	Public  Port = iota // of machines and users, and of those who ask who leads
	Socket              // of programs on this host
	Peers               // of other peers, and of joiners
	Webhook             // of API servers
	ports
)

// Caller is where a request comes from.
type Caller struct {
	Port   Port
	Source netip.Prefix // the zero Prefix is the unix socket, for any Port
	Known  bool         // it waits in a lane without those that are not
	Change bool         // it asks for more than an answer, and costs the log as well; see changing
	Until  time.Time    // it waits in no line any more; zero: as long as each line lets it
}

// places is how much of each class there is on a port. What waits for another costs memory
// alone; what computes keeps the goroutines of the log from the processor for up to
// 10 ms each (the slice of Go's scheduler), and the log stands up to some 200 ms. So what
// computes for strangers may do as much at once.
var places = [classes]Places{
	Callback: {AtOnce: 256, Share: 192, Waiting: 4096, Wait: CallbackWait, First: true, Waits: true,
		Each: Pace{Rate: 200, Burst: 2000}, All: Pace{Rate: 400, Burst: 4000}},
	Request: {AtOnce: 256, Share: 192, Waiting: 4096, Wait: onlyAttempt, Waits: true, Each: Pace{Rate: 600, Burst: 5000},
		All: Pace{Rate: 1000, Burst: 8000}},
	Dear: {AtOnce: 4, Share: 3, Waiting: 4096, Wait: onlyAttempt, Each: Pace{Rate: 300, Burst: 2000},
		All: Pace{Rate: 500, Burst: 3000}},
	// of one source half as many as connections
	Stream: {AtOnce: 2148, OfKnown: 100, Share: 1024, Waits: true, Each: Pace{Rate: 400, Burst: 200},
		All: Pace{Rate: 600, Burst: 400}},
	Stranger: {AtOnce: 4, Share: 3, Waiting: 512, Wait: 5 * time.Second, Each: Pace{Rate: 200, Burst: 200},
		All: Pace{Rate: 400, Burst: 400}},
	Probe: {AtOnce: 64, Share: 48, Waiting: 4096, Wait: 2 * time.Second, Each: Pace{Rate: 200, Burst: 200},
		All: Pace{Rate: 400, Burst: 400}},
}

// places returns how much of a class there is on a port: what differs there.
func (p Port) places(class Class) Places {
	of := places[class]
	switch {
	case p == Socket: // those who may do everything
		of.Share, of.Wait, of.Each, of.All = of.AtOnce, min(of.Wait, 10*time.Second), Pace{}, Pace{}
	case p == Peers && class == Request: // a peer has 4 to 6 under way, with commands of 4 MiB among them
		of.Share, of.Wait = 16, 3*time.Second
	case p == Peers: // a peer awaits the end of 64 leases
		of.Share, of.Wait = min(of.Share, 96), min(of.Wait, 10*time.Second)
	case p == Webhook && class == Stranger: // of API servers; each review takes two places
		of.Wait, of.Each, of.All = 3*time.Second, Pace{Rate: 300, Burst: 200}, Pace{Rate: 500, Burst: 400}
	}
	return of
}

// The lines that requests of all ports pass on their way. Connections may compute more
// at once than strangers: their handshakes take turns, and while all wait for the pace, so
// does a machine that connects among them.
var (
	connections = Places{AtOnce: 4, Share: 3, Waiting: 4096, Wait: 10 * time.Second, Each: Pace{Rate: 100, Burst: 500},
		All: Pace{Rate: 300, Burst: 1500}, Refusal: refusal}
	// 30 and 60 MB/s
	intake = Places{AtOnce: 4, Share: 3, Waiting: 4096, Wait: CallbackWait, First: true,
		Each: Pace{Rate: 150, Burst: 100}, All: Pace{Rate: 300, Burst: 200}, Refusal: refusal}
	documents = Places{AtOnce: 2, Share: 1, Waiting: 4096, Wait: CallbackWait, First: true,
		Each: Pace{Rate: 200, Burst: 2000}, All: Pace{Rate: 500, Burst: 5000}, Refusal: refusal}
)

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

// changing is what a Request costs besides that asks for a change: the log's part on the
// peer that leads (docs/design.md#admission). One that is refused has cost less; it asked for it.
const changing = 150 * time.Microsecond

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
	// 1 more sees the end without growing
	All: AllBodies, Share: BodiesOfSource, Large: AllBodies * 3 / 4, Small: SmallBody + 1,
	Known: bodiesOfOne, Strange: BodiesOfStrangers, Waiting: 4096,
}

// The lanes of each line.
const (
	unknownLane = iota
	knownLane
	lanes
)

func laneOf(known bool) int {
	if known {
		return knownLane
	}
	return unknownLane
}

// Controller admits requests of all servers of a peer.
type Controller struct {
	lines       [ports][classes]*Line
	connections *Line // that begin
	intake      *Line // pieces of bodies that come in
	documents   *Line // large ones that are read
	answers     *Memory
	bodies      *Memory
}

// NewController returns a controller that has admitted nothing.
func NewController() *Controller {
	c := &Controller{
		connections: NewLine(connections, lanes), intake: NewLine(intake, lanes), documents: NewLine(documents, lanes),
		answers: NewMemory(answers), bodies: NewMemory(bodies),
	}
	for port := range ports {
		for class := Callback; class < classes; class++ {
			of := port.places(class)
			of.Refusal = refusal
			c.lines[port][class] = NewLine(of, lanes)
		}
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
	return c.connections.pass(ctx, laneOf(known), source, cost)
}

// Taken returns how many requests of a class are in on all ports, and how many wait.
func (c *Controller) Taken(class Class) (in, waiting int) {
	for port := range ports {
		idle, more := c.lines[port][class].Idle()
		in, waiting = in+places[class].AtOnce-idle, waiting+more
	}
	return in, waiting
}

// Admit waits for a place of a class. The caller leaves the place. Its errors are
// those of Line.Enter.
func (c *Controller) Admit(ctx context.Context, class Class, caller Caller) (*Place, error) {
	if asked, ok := ctx.Value(visitKey{}).(*atomic.Bool); ok {
		asked.Store(true)
	}
	if !caller.Source.IsValid() {
		caller.Port = Socket
	}
	p := &Place{of: c, caller: caller, sender: caller.Source, extra: taking}
	if caller.Change && class == Request {
		p.extra += changing
	}
	return p, p.enter(ctx, class)
}

// visitKey finds in a context whether its request has asked for a place.
type visitKey struct{}

// Visit returns ctx for a request that begins. ended is called at its end: a request that
// asked for no place, as one for which there is no route or whose credentials are refused,
// takes then a stranger's. Its answer waits for that.
func (c *Controller) Visit(ctx context.Context, caller Caller) (_ context.Context, ended func()) {
	asked := new(atomic.Bool)
	ctx = context.WithValue(ctx, visitKey{}, asked)
	return ctx, func() {
		if asked.Load() {
			return
		}
		// Where there is no place, it has waited for that.
		if p, err := c.Admit(ctx, Stranger, caller); err == nil {
			p.Leave()
		}
	}
}

// Place is that of one request. It belongs to the request's goroutine.
type Place struct {
	of     *Controller
	caller Caller
	sender netip.Prefix // where the request came from, vouched for or not
	class  Class        // that it has a place of; 0: none
	line   *Line        // of that place; nil: it has none
	source netip.Prefix // whose place that is
	since  time.Time    // when it entered that
	held   []func()     // end what Answer holds
	taken  int          // bytes that were not counted yet; see Take

	extra time.Duration // work outside its places that no line was charged with: taking, or to send an answer
}

// enter takes a place of a class.
func (p *Place) enter(ctx context.Context, class Class) error {
	p.class = class
	return p.enterLine(ctx, p.of.lines[p.caller.Port][class])
}

// enterLine takes a place in a line.
func (p *Place) enterLine(ctx context.Context, line *Line) error {
	ctx, cancel := p.patient(ctx)
	defer cancel()
	if err := line.Enter(ctx, laneOf(p.caller.Known), p.caller.Source); err != nil {
		return err
	}
	p.line, p.source, p.since = line, p.caller.Source, time.Now()
	return nil
}

// patient returns ctx with the time that the caller has for all lines.
func (p *Place) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if end := p.caller.Until; !end.IsZero() {
		return context.WithDeadlineCause(ctx, end, ErrBusy)
	}
	return ctx, func() {}
}

// Vouch notes that the request comes from one machine that is known. In each line that it
// enters from now on it stands before those that are not, and its source is the machine,
// wherever it calls from.
func (p *Place) Vouch(machine netip.Prefix) { p.caller.Known, p.caller.Source = true, machine }

// Sender returns the network that the request came from, vouched for or not.
func (p *Place) Sender() netip.Prefix { return p.sender }

// Switch leaves the place for one of another class, as a request does that begins to
// wait for long. Its errors are those of Line.Enter; the request has no place then.
func (p *Place) Switch(ctx context.Context, class Class) error {
	p.vacate()
	return p.enter(ctx, class)
}

// Aside leaves the place while something else is waited for, as a body, and takes one of the
// same class again: who sends slowly keeps no others out. Its errors are those of Line.Enter,
// for want of a place, and of wait.
func (p *Place) Aside(ctx context.Context, wait func() error) error {
	p.vacate()
	if err := wait(); err != nil {
		return err
	}
	return p.enter(ctx, p.class)
}

// Document does work on a large document, as one of the few that are read at once, and not in
// the request's own place: small ones are not kept from theirs. Its errors are those of
// Line.Enter and of work.
func (p *Place) Document(ctx context.Context, work func() error) error {
	return p.Aside(ctx, func() error {
		p.extra += taking
		if err := p.enterLine(ctx, p.of.documents); err != nil {
			return err
		}
		defer p.vacate()
		return work()
	})
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
	ctx, cancel := p.patient(ctx)
	defer cancel()
	return p.of.intake.pass(ctx, laneOf(p.caller.Known), p.caller.Source, cost)
}

// Pay counts work of a request that lasts, and the bytes that it sends next. It returns when
// its source, and all of its class, are within their pace: where a thousand streams have as
// much to do at once, each waits for its turn, and known ones for that of their source alone.
// Its error is the cause of ctx's end.
func (p *Place) Pay(ctx context.Context, work time.Duration, bytes int) error {
	return p.line.pay(ctx, laneOf(p.caller.Known), p.source, work+time.Duration(bytes)*sendByte)
}

// Read counts what it costs to read a document of so many bytes.
func (p *Place) Read(bytes int) { p.extra += time.Duration(bytes) * readByte }

// Compute counts work that a request of a class that waits has done meanwhile.
func (p *Place) Compute(work time.Duration) { p.extra += work }

// Bodies is that of the controller.
func (p *Place) Bodies() *Memory { return p.of.bodies }

// Hold takes room for bytes that the caller has not taken, until done is called. Its
// error is ErrBusy: they must not be sent.
func (p *Place) Hold(bytes int) (done func(), err error) {
	return p.of.answers.Take(p.caller.Source, int64(bytes))
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
	if p.line == nil {
		return
	}
	work := p.extra
	if !p.line.places.Waits {
		work += time.Since(p.since)
	}
	p.line.LeaveAfter(p.source, work)
	p.line, p.extra = nil, 0
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
