package admission

import (
	"context"
	"net/netip"
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
	// unix socket have places of their own, whatever their class.
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

	socket         // whatever the socket asks, but for streams
	operatorStream // streams of operators
	classes
)

// String returns the name of a class as documents have it.
func (c Class) String() string {
	return [...]string{"none", "callback", "operator", "read", "dear read", "stream", "stranger", "socket", "operator stream"}[min(c, classes-1)]
}

// Caller is where a request comes from.
type Caller struct {
	Source   netip.Prefix // the zero Prefix is the unix socket
	Operator bool         // it may change everything
}

// places is how much of each class there is. What waits for another costs memory
// alone; what computes keeps the goroutines of the log from the processor for up to
// 10 ms each (the slice of Go's scheduler), and the log stands up to some 200 ms.
var places = [classes]Places{
	Callback:       {AtOnce: 256, Share: 192, Waiting: 1024, Wait: 30 * time.Second},
	Operator:       {AtOnce: 256, Share: 192, Waiting: 1024, Wait: 10 * time.Second},
	Read:           {AtOnce: 256, Share: 192, Waiting: 1024, Wait: 10 * time.Second},
	Dear:           {AtOnce: 4, Share: 3, Waiting: 512, Wait: 10 * time.Second, Each: Pace{Rate: 300, Burst: 2000}, All: Pace{Rate: 500, Burst: 3000}},
	Stream:         {AtOnce: 900, Share: 450},
	Stranger:       {AtOnce: 4, Share: 3, Waiting: 512, Wait: 5 * time.Second, Each: Pace{Rate: 200, Burst: 1000}, All: Pace{Rate: 400, Burst: 2000}},
	socket:         {AtOnce: 64, Share: 64, Waiting: 256, Wait: 10 * time.Second},
	operatorStream: {AtOnce: 100, Share: 100},
}

// refusal is how long a request waits that is refused.
const refusal = time.Second

// sendByte is what it costs to send a byte of an answer, at the least.
const sendByte = 5 * time.Nanosecond

// answers bounds the bytes of answers that callers have not taken.
var answers = Bytes{All: 64 << 20, Share: 16 << 20, Small: 64 << 10, Large: 48 << 20}

// Controller admits requests of all servers of a peer.
type Controller struct {
	lines   [classes]*Line
	answers *Memory
}

// NewController returns a controller that has admitted nothing.
func NewController() *Controller {
	c := &Controller{answers: NewMemory(answers)}
	for class, p := range places {
		p.Refusal = refusal
		c.lines[class] = NewLine(p, 1)
	}
	return c
}

// Taken returns how many requests of a class are in, and how many wait. What the socket
// asks, and the streams of operators, are not counted with their class.
func (c *Controller) Taken(class Class) (in, waiting int) {
	idle, waiting := c.lines[class].Idle()
	return places[class].AtOnce - idle, waiting
}

// Admit waits for a place of a class. The caller leaves the place. Its errors are
// those of Line.Enter.
func (c *Controller) Admit(ctx context.Context, class Class, caller Caller) (*Place, error) {
	p := &Place{of: c, caller: caller}
	return p, p.enter(ctx, class)
}

// Place is that of one request. It belongs to the request's goroutine.
type Place struct {
	of     *Controller
	caller Caller
	class  Class     // the line that it is in; 0: none
	since  time.Time // when it entered that
	held   []func()  // end what Answer holds

	sending time.Duration // work of an answer that is yet to be sent
}

// enter takes a place in one of the lines that the class means for the caller.
func (p *Place) enter(ctx context.Context, class Class) error {
	switch {
	case class == Stream && p.caller.Operator:
		if p.of.lines[operatorStream].Enter(ctx, 0, p.caller.Source) == nil {
			p.class = operatorStream
			return nil
		}
	case class != Stream && !p.caller.Source.IsValid():
		class = socket
	}
	if err := p.of.lines[class].Enter(ctx, 0, p.caller.Source); err != nil {
		return err
	}
	p.class, p.since = class, time.Now()
	return nil
}

// Switch leaves the place for one of another class, as a request does that begins to
// wait for long. Its errors are those of Line.Enter; the request has no place then.
func (p *Place) Switch(ctx context.Context, class Class) error {
	p.vacate()
	return p.enter(ctx, class)
}

// Within does a part of the request's work in a place of another class, which it has
// next to its own. Its errors are those of Line.Enter and of work.
func (p *Place) Within(ctx context.Context, class Class, work func() error) error {
	other, err := p.of.Admit(ctx, class, p.caller)
	if err != nil {
		return err
	}
	defer other.Leave()
	return work()
}

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
	p.sending = time.Duration(bytes) * sendByte
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
	if p.class != 0 {
		p.of.lines[p.class].LeaveAfter(p.caller.Source, time.Since(p.since)+p.sending)
		p.class = 0
	}
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
