package simtest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

// agents are ramdisks with a list of URLs, one for each peer in the same order, and the ports
// that they call. They behave as ironic-python-agent does: the next URL on a connection error
// alone, a status of 409 or from 500 on again from the first, five times, any other 4xx and 30 s
// without an answer are final.
type agents struct {
	s    *Site
	stop context.CancelFunc
	runs sync.WaitGroup

	mu    sync.Mutex
	ports map[*process]*simPort
}

// simPort is the ramdisks' port of one process.
type simPort struct {
	*app.RamdiskPort
	mu     sync.Mutex
	server *simServer // nil while connections are refused
}

// simServer is what answers there until it is closed.
type simServer struct {
	port   *simPort
	ctx    context.Context // of its connections
	cancel context.CancelFunc
}

// Shutdown implements app.RamdiskServer.
func (s *simServer) Shutdown(context.Context) error { return s.Close() }

// Close implements app.RamdiskServer.
func (s *simServer) Close() error {
	s.port.mu.Lock()
	defer s.port.mu.Unlock()
	if s.port.server == s {
		s.port.server = nil
	}
	s.cancel()
	return nil
}

func (p *simPort) listener() *simServer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

// newAgents opens the port of each process that runs, until it ends.
func newAgents(s *Site) *agents {
	ctx, stop := context.WithCancel(context.Background())
	a := &agents{s: s, stop: stop, ports: make(map[*process]*simPort)}
	a.runs.Go(func() {
		for ctx.Err() == nil {
			for _, p := range s.c.Peers {
				if proc := p.run.Load(); proc != nil {
					a.openPortOf(ctx, p, proc)
				}
			}
			time.Sleep(50 * time.Millisecond) // in a bubble
		}
	})
	return a
}

func (a *agents) endAll() {
	a.stop()
	a.runs.Wait()
}

// openPortOf opens the port of a process once.
func (a *agents) openPortOf(ctx context.Context, p *Peer, proc *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ports[proc] != nil {
		return
	}
	port := &simPort{}
	port.RamdiskPort = &app.RamdiskPort{Address: p.Name, Logger: msgcheck.Logger(a.s.c.T),
		Proof: func(ctx context.Context) error {
			proc.gate.Wait(nil) // a stopped process asks nothing
			err := proc.core.TakesDocuments(ctx)
			proc.gate.Wait(nil)
			return err
		},
		Open: func(context.Context) (app.RamdiskServer, error) {
			server := &simServer{port: port}
			server.ctx, server.cancel = context.WithCancel(context.Background())
			port.mu.Lock()
			port.server = server
			port.mu.Unlock()
			return server, nil
		}}
	a.ports[proc] = port
	ctx, ended := context.WithCancel(ctx)
	a.runs.Go(func() { port.Run(ctx) })
	a.runs.Go(func() {
		for p.run.Load() == proc && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // in a bubble
		}
		ended()
	})
}

// errConnection is a connection that was refused or broke, errSilent one without an answer.
var (
	errConnection = errors.New("connection error")
	errSilent     = errors.New("no answer within 30 s")
)

// postOnce posts to one peer.
func (a *agents) postOnce(p *Peer, document []byte) (status int, err error) {
	arrived := time.Now()
	proc := p.run.Load()
	for proc != nil && proc.gate.Paused() && p.run.Load() == proc { // the kernel lets it connect
		if time.Since(arrived) > postLimit {
			return 0, errSilent
		}
		time.Sleep(10 * time.Millisecond) // in a bubble
	}
	a.mu.Lock()
	port := a.ports[proc]
	a.mu.Unlock()
	if proc == nil || port == nil || p.run.Load() != proc || port.listener() == nil {
		return 0, errConnection
	}
	server := port.listener()
	if server == nil {
		return 0, errConnection
	}
	ctx, cancel := context.WithDeadline(server.ctx, arrived.Add(postLimit))
	defer cancel()
	answers := make(chan int, 1)
	go func() {
		answer, err := proc.core.Service.ContinueInspection(ctx, ironic.InbandCall{Body: document})
		status := answer.Status
		var said *inspector.Refusal
		if errors.As(err, &said) {
			status = said.Status
		} else if err != nil {
			status = http.StatusServiceUnavailable
		}
		proc.gate.Wait(nil) // a stopped process answers nothing
		if p.run.Load() != proc || server.ctx.Err() != nil || status == http.StatusServiceUnavailable && port.Doubted() {
			status = 0
		}
		answers <- status
	}()
	select {
	case status = <-answers:
	case <-server.ctx.Done():
	case <-time.After(time.Until(arrived.Add(postLimit))):
		return 0, errSilent
	}
	if status == 0 {
		return 0, errConnection
	}
	return status, nil
}

// deliverByList posts a node's document as the agent does, and reports whether it was taken; the
// log says what made it give up.
func (a *agents) deliverByList(node string) bool {
	a.s.mu.Lock()
	e := a.s.expects[node]
	a.s.mu.Unlock()
	status, err := 0, errConnection
	for _, wait := range []time.Duration{5, 5, 6, 12, 0} {
		for _, p := range a.s.c.Peers {
			if status, err = a.postOnce(p, e.document); !errors.Is(err, errConnection) {
				break
			}
		}
		switch {
		case errors.Is(err, errSilent), err == nil && status/100 == 4 && status != http.StatusConflict:
			a.s.c.T.Logf("the ramdisk of %s gave up: status %d, %v", node, status, err)
			return false
		case err == nil && status/100 == 2:
			a.s.mu.Lock()
			e.accepted = true
			a.s.mu.Unlock()
			return true
		}
		time.Sleep(wait * time.Second) // in a bubble
	}
	a.s.c.T.Logf("the ramdisk of %s gave up after five tries, the last one: status %d, %v", node, status, err)
	return false
}

// agentSite is a site whose machines' documents are Ironic's, with the ports of all nodes known.
func agentSite(c *Cluster, machines int) *Site {
	conf := quick()
	conf.Timeout = relayTime
	conf.ContinueInspection = config.ContinueRelay
	s := NewSite(c, machines, conf)
	s.expectAll()
	s.show(s.Nodes()...)
	c.Duties = func(*Peer) []leader.Duty { return []leader.Duty{portLister{s}} }
	return s
}

// everyDocumentArrived wants the document of each machine in Ironic, once.
func everyDocumentArrived(c *Cluster, s *Site) {
	c.Until(relayTime, "no callback is pending", func() bool {
		c.revive()
		v, ok := c.newest()
		return ok && v.RelaysPending() == 0
	})
	s.judgeRelays()
	s.mu.Lock()
	defer s.mu.Unlock()
	for node, e := range s.expects {
		if e.taken != 1 {
			c.T.Errorf("list-delivered: Ironic has the document of %s %d times, its ramdisk was told so: %v", node, e.taken,
				e.accepted)
		}
	}
}

// The first host of the list is cut off for longer than a ramdisk tries: each goes on to the next.
func TestAgentsLeaveAPeerWithoutQuorum(t *testing.T) {
	t.Parallel()
	const machines = 12
	for i, how := range Losses() {
		if how.Name == "pause" { // a stopped process cannot close its port
			continue
		}
		t.Run(how.Name, func(t *testing.T) {
			SimulateSite(t, 3, uint64(4100+i), func(c *Cluster) *Site { return agentSite(c, machines) },
				func(c *Cluster, s *Site) {
					c.AwaitLeader(successionLimit)
					a := newAgents(s)
					defer a.endAll()
					time.Sleep(5 * time.Second) // in a bubble
					first := c.Peers[0]
					how.Strike(c, first)
					for n, node := range s.Nodes() {
						s.ramdisks.Go(func() {
							time.Sleep(time.Duration(n) * time.Second) // in a bubble
							if !a.deliverByList(node) {
								t.Errorf("list-delivered: the ramdisk of %s gave up", node)
							}
						})
					}
					s.ramdisks.Wait()
					how.Mend(c, first)
					everyDocumentArrived(c, s)
				})
		})
	}
}

// A cluster that was without a leader for as long as its ports need to close is left alone for as
// long as a ramdisk's first four tries are apart: a ramdisk that met it at none has no promise.
const (
	portsCloseAfter = 3 * time.Second
	triesApart      = 6 * time.Second
)

// Leaders are lost one after the other in every way, while the first host of the list is cut off
// now and then, for shorter and longer than a peer waits before it refuses: two faults at once,
// at whatever step a delivery is.
func TestAgentsWithListsSurvive(t *testing.T) {
	t.Parallel()
	const machines = 24
	for i, how := range Losses() {
		t.Run(how.Name, func(t *testing.T) {
			SimulateSite(t, 3, uint64(4200+i), func(c *Cluster) *Site { return agentSite(c, machines) },
				func(c *Cluster, s *Site) {
					c.AwaitLeader(successionLimit)
					a := newAgents(s)
					defer a.endAll()
					time.Sleep(3 * time.Second) // in a bubble
					for n, node := range s.Nodes() {
						s.ramdisks.Go(func() { a.deliverByList(node) })
						if n%4 != 3 {
							continue
						}
						if n%8 == 7 {
							first := c.Peers[0]
							c.Net.Isolate(first.Name)
							time.Sleep(time.Duration(c.rng.Int64N(int64(8 * time.Second)))) // in a bubble
							for range 2 {
								s.ramdisks.Go(func() { a.deliverByList(node) }) // whose answer was lost
							}
							c.Net.Heal(first.Name)
						}
						began := time.Now()
						if c.Lose(how); time.Since(began) > portsCloseAfter {
							time.Sleep(triesApart) // in a bubble
						}
					}
					s.ramdisks.Wait()
					everyDocumentArrived(c, s)
				})
		})
	}
}
