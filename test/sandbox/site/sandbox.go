package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/test/sandbox/machine"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// Values of the site. Times are short, for people wait for them.
const (
	// inspectionTimeout is inspection.timeout of the peers, if Options names no other.
	inspectionTimeout = 15 * time.Second
	cleanUpPeriod     = time.Second
	// stuckAfter bounds each wait for what has to come at last, also on a machine that
	// is busy with other things: three peers that vote, a leader, a peer that starts
	// again, a node that ends after its time-out. What takes longer is stuck.
	stuckAfter = 3 * time.Minute

	bootLeast = time.Second
	bootMost  = 3 * time.Second
	nics      = 4 // of a machine; Ironic knows the first
	// ironicDelay is what each call of Ironic takes, and powerDelay what a power
	// change takes after that.
	ironicDelay = 20 * time.Millisecond
	powerDelay  = 100 * time.Millisecond

	closeLimit  = time.Minute
	headerLimit = 10 * time.Second
)

// MaxNodes is the size of site that the product is made for.
const MaxNodes = 10000

// Options are what a Sandbox is made from.
type Options struct {
	Nodes  int // 1 to MaxNodes
	Silent int // so many of them never call back
	// KillEvery is how often the leader is killed; 0 never.
	KillEvery time.Duration
	// Timeout is inspection.timeout of the peers; 0 is 15 s.
	Timeout time.Duration
	// For is how long load and kills last; 0 until the context of Run ends.
	For time.Duration
	// Dir keeps what the peers write; it must be empty or not be there. "" is a
	// temporary one that Close removes, unless Run failed.
	Dir string
	// Users is the path of the file with the users of the API (http_basic), for a site
	// that is not Run; "" asks for no credentials.
	Users string
	// Tell is told, a sentence at a time, what happens. It is called from
	// several goroutines.
	Tell func(format string, args ...any)
}

// Sandbox is the site. Start it with New, put load on it with Run, end it with
// Close.
type Sandbox struct {
	opts   Options
	dir    string
	log    *slog.Logger
	logs   *os.File
	ironic *simironic.Server
	web    *http.Server // in front of ironic
	url    string       // of web
	fleet  *machine.Fleet
	peers  *cluster
	load   *load
	failed bool // Run found something wrong: what the peers logged is kept

	serving sync.WaitGroup // web
	closing sync.Once
	closed  error // what Close found
}

// New builds the site and returns when its three peers vote. When a later step
// fails, what the earlier ones built is taken down again.
func New(ctx context.Context, o Options) (_ *Sandbox, err error) {
	s := &Sandbox{opts: o}
	defer func() {
		if err != nil {
			s.failed = s.peers != nil
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openDir(); err != nil {
		return nil, err
	}
	if s.peers, err = newCluster(s.dir, o, s.log); err != nil {
		return nil, err
	}
	if err := s.openIronic(ctx, s.peers); err != nil {
		return nil, err
	}
	if err := s.peers.form(ctx, s.url); err != nil {
		return nil, err
	}
	s.load, err = newLoad(o, s.peers)
	return s, err
}

func (s *Sandbox) openDir() (err error) {
	if s.opts.Dir == "" {
		if s.dir, err = os.MkdirTemp("", "trivet-sandbox-"); err != nil {
			return fmt.Errorf("make a directory for the peers: %w", err)
		}
	} else if err := s.takeDir(); err != nil {
		return err
	}
	if s.logs, err = os.Create(filepath.Join(s.dir, "peers.log")); err != nil {
		return fmt.Errorf("log of the peers: %w", err)
	}
	s.log = slog.New(slog.NewTextHandler(s.logs, nil))
	return nil
}

// takeDir makes sure that the directory that was named is there and empty: two
// runs must not find each other's peers.
func (s *Sandbox) takeDir() (err error) {
	if s.dir, err = filepath.Abs(s.opts.Dir); err != nil {
		return fmt.Errorf("directory for the peers: %w", err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("directory for the peers: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("directory for the peers: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: name a directory that is, or that is not there", s.dir)
	}
	return nil
}

// openIronic starts Ironic and the machines it switches.
func (s *Sandbox) openIronic(ctx context.Context, peers *cluster) error {
	var callbacks []string
	for _, slot := range peers.slots {
		callbacks = append(callbacks, slot.URL()+"/v1/continue")
	}
	s.fleet = machine.NewFleet(machine.Options{
		Callbacks: callbacks, BootLeast: bootLeast, BootMost: bootMost, Seed: rand.Uint64(),
		Client:   &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, // as ramdisks, each of which comes once
		Answered: peers.lets,
		Logger:   s.log.With("part", "machines"),
	})
	s.ironic = simironic.New(simironic.Options{Delay: ironicDelay, PowerDelay: powerDelay, OnPower: s.fleet.Power})
	for i := range s.opts.Nodes {
		m := hardware(i)
		m.Silent = i < s.opts.Silent
		s.fleet.Add(m)
		if err := s.ironic.Enroll(
			simironic.Enrolment{UUID: m.UUID, Name: fmt.Sprintf("node%d", i+1), BMC: m.BMC, MACs: m.MACs[:1]}); err != nil {
			return err
		}
	}
	lc := net.ListenConfig{}
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("simulated Ironic: %w", err)
	}
	s.url = "http://" + ln.Addr().String()
	s.web = &http.Server{Handler: s.ironic, ReadHeaderTimeout: headerLimit,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.serving.Go(func() {
		if err := s.web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("serve simulated Ironic failed", "err", err)
		}
	})
	return nil
}

// hardware is the machine of one node.
func hardware(i int) machine.Machine { return machine.Number(0xde, i, nics) }

// Dir returns the directory in which the peers live.
func (s *Sandbox) Dir() string { return s.dir }

// Ironic returns the address of the simulated Ironic.
func (s *Sandbox) Ironic() string { return s.url }

// Peer is where to find one of the three.
type Peer struct {
	Name   string
	URL    string // of its REST API
	Socket string // for trivet's own commands
}

// Peers lists them.
func (s *Sandbox) Peers() []Peer {
	var out []Peer
	for _, slot := range s.peers.slots {
		out = append(out, Peer{Name: slot.Config.Name, URL: slot.URL(), Socket: slot.Config.Socket})
	}
	return out
}

// KillLeader kills the peer that leads and waits for the first write through a
// survivor. What it returns starts the dead peer again.
func (s *Sandbox) KillLeader(ctx context.Context) (revive func(context.Context) error, err error) {
	victim, _, err := s.peers.kill(ctx)
	return func(ctx context.Context) error { return s.peers.revive(ctx, victim) }, err
}

// Close ends everything; a second one does nothing. The peers die: what they
// hold is either thrown away or can be started again.
func (s *Sandbox) Close() error {
	s.closing.Do(func() { s.closed = s.end() })
	return s.closed
}

func (s *Sandbox) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	var errs []error
	if s.peers != nil {
		errs = append(errs, s.peers.Close(ctx))
	}
	if s.web != nil {
		errs = append(errs, s.web.Close())
		s.serving.Wait()
	}
	if s.ironic != nil {
		s.ironic.Close()
	}
	if s.fleet != nil {
		s.fleet.Close()
	}
	if s.logs != nil {
		errs = append(errs, s.logs.Close())
	}
	switch {
	case s.dir == "" || s.opts.Dir != "":
	case s.failed:
		s.opts.Tell("what the peers logged is kept: %s", filepath.Join(s.dir, "peers.log"))
	default:
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// Run introspects every node, kills leaders, and returns what became of the
// nodes: when For is over and every node has ended or is stuck, or when ctx
// ends. The error says what did not go as it should; the summary holds in any
// case. It is called once.
func (s *Sandbox) Run(ctx context.Context) (Summary, error) {
	whole, stop := context.WithCancel(ctx)
	defer stop()
	var parts, watching sync.WaitGroup
	watching.Go(func() { s.load.watch(whole) })
	watching.Go(func() { s.peers.follow(whole) })
	parts.Go(func() { s.load.run(whole) })
	parts.Go(func() { s.peers.strikes(whole, s.opts.KillEvery, s.opts.For) })
	done := make(chan struct{}) // closed when the parts have ended
	go func() { parts.Wait(); close(done) }()
	err := s.await(ctx, done)
	stop()
	<-done
	watching.Wait()
	sum := s.summary()
	err = errors.Join(err, s.load.verdict(err != nil || ctx.Err() != nil), sum.promise())
	s.failed = err != nil
	return sum, err
}

// await returns when the run is over, or why it cannot go on.
func (s *Sandbox) await(ctx context.Context, done <-chan struct{}) error {
	if s.opts.For == 0 {
		done = nil // it stays up until it is ended
	}
	select {
	case <-done:
	case <-ctx.Done():
	case err := <-s.peers.broken:
		return err
	}
	return nil
}
