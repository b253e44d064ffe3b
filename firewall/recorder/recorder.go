package recorder

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/firewall/rawsocket"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/internal/pace"
)

// noteEvery is how often what was heard is committed: one entry for all machines.
const noteEvery = time.Second

// noteLimit bounds the wait for that entry.
const noteLimit = 5 * time.Second

// listenAgain is the pause after the interface could not be listened to.
const listenAgain = 5 * time.Second

// Wire is what passes the interface on which machines boot. Listen hands on frames until ctx
// ends or it fails; own is the interface's MAC, which answers of this host come from.
type Wire interface {
	Listen(ctx context.Context, heard func(frame []byte, own net.HardwareAddr)) error
}

// Recorder is the leader's duty that records how machines boot. All methods may be called
// concurrently.
type Recorder struct {
	wire   Wire
	log    firewall.Log
	peer   string // server ID of this peer
	logger *slog.Logger
	// RelaysDropped says why what a DHCP relay passes on over IPv4 is dropped, "" if it is not. It is
	// set before Run.
	RelaysDropped string

	mu        sync.Mutex
	lead      leadership
	err       error                   // why nothing is heard; nil: the recorder listens, or does not lead
	pending   map[string]*boots.Track // what is not committed yet, by node
	leases    leases
	transfers transfers
	shares    shares
	strangers strangers
	unread    int // messages beyond the budgets
	watch     watch
}

// leadership is what the recorder knows of the present one.
type leadership struct {
	authority firewall.Authority // nil: this peer does not lead
	hosts     map[string]bool    // addresses of the peers' hosts, as known when it began
	resumed   map[string]bool    // nodes whose gap was told
}

// New returns the duty.
func New(wire Wire, log firewall.Log, peer string, logger *slog.Logger) *Recorder {
	r := &Recorder{wire: wire, log: log, peer: peer, logger: logger, strangers: newStrangers()}
	r.forget()
	return r
}

// hostsOf are the addresses of the peers' hosts: those that members name, and those that their DHCP
// servers had in what was recorded of boots.
func hostsOf(v fsm.View) map[string]bool {
	all := make(map[string]bool)
	for _, m := range v.Members() {
		for _, address := range []string{m.Address, m.Gossip, m.API} {
			if at, err := netip.ParseAddrPort(address); err == nil {
				all[at.Addr().Unmap().WithZone("").String()] = true
			}
		}
	}
	for track := range v.BootTracks() {
		for _, s := range track.Steps {
			if _, member := v.Member(s.Peer); member && s.ServerMAC != "" && !s.Foreign {
				all[s.Server] = true
			}
		}
	}
	return all
}

// forget begins a leadership; strangers stay, since they are for display.
func (r *Recorder) forget() {
	r.pending, r.lead = make(map[string]*boots.Track), leadership{resumed: make(map[string]bool)}
	r.leases, r.transfers = newLeases(), newTransfers()
	r.watch = watch{nodes: make(map[string]*watched)}
}

// Run listens until ctx ends. Nothing that Trivet promises depends on it: what fails is logged
// once and tried again.
func (r *Recorder) Run(ctx context.Context, a firewall.Authority) error {
	v, _ := r.log.Changed()
	r.mu.Lock()
	r.forget()
	r.lead.authority, r.lead.hosts = a, hostsOf(v)
	r.leases.recall(v, func(track boots.Track, mac string) bool {
		return slices.Contains(r.nodesOf(v, mac), expected{track.Node, track.Begun})
	}, time.Now())
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lead.authority = nil
	}()
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { r.listen(ctx) })
	failed := false
	for range pace.After(ctx, noteEvery) {
		err := r.commit(ctx, a)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failed {
			r.logger.Warn("commit what was heard of booting machines failed, trying again", "err", err)
		}
		failed = err != nil
	}
	return nil
}

// Yield commits what was heard and is not committed yet: another peer leads next, and did not hear
// it. It does nothing where this peer does not lead.
func (r *Recorder) Yield(ctx context.Context) {
	r.mu.Lock()
	a := r.lead.authority
	r.mu.Unlock()
	if a == nil {
		return
	}
	if err := r.commit(ctx, a); err != nil {
		r.logger.Debug("commit what was heard of booting machines failed before another peer leads", "err", err)
	}
}

func (r *Recorder) listen(ctx context.Context) {
	for range pace.Every(ctx, listenAgain) {
		err := r.wire.Listen(ctx, func(b []byte, own net.HardwareAddr) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.err = nil
			r.hear(b, own, time.Now())
		})
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		before := r.err
		r.err = err
		r.mu.Unlock()
		if err != nil && before == nil {
			r.logger.Warn("listen to booting machines failed, trying again", "err", err)
		}
	}
}

// Err says why nothing is heard; nil: this peer listens, or does not lead.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Strangers are the machines that asked to boot here and are not under introspection, the newest
// first, and how many messages of theirs and of others were beyond the budgets and not read.
func (r *Recorder) Strangers() (all []Stranger, unread int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strangers.list(), r.unread
}

// frame is one frame on the wire.
type frame = rawsocket.Frame

// hear reads one frame.
func (r *Recorder) hear(b []byte, own net.HardwareAddr, now time.Time) {
	f, ok := rawsocket.ReadFrame(b)
	if !ok {
		return
	}
	v, _ := r.log.Changed()
	if from, at, ok := f.ARPSender(); ok { // a machine speaks from an address that was given by DHCP
		mac := r.leases.holder(at, from)
		if mac != "" && mac == from.String() && r.admit(v, side{mac: mac}, now) {
			r.add(v, boots.Step{Kind: boots.Spoke, MAC: mac, Address: at.String()}, now)
		}
		return
	}
	if read := dhcpReader(f); read != nil {
		r.hearDHCP(v, f, read, own, now)
		return
	}
	// It is of a file on its way. Machines that are awaited alone begin a transfer: the one that was
	// given the address, also behind a router, else the one that the frame names.
	mac := ""
	if asksForFile(f) {
		if mac = r.leases.holder(f.Src.Addr(), f.From); mac == "" && f.Dst.Port() == tftpPort {
			mac = f.From.String()
		}
		if !r.admit(v, side{mac: mac}, now) {
			return
		}
	}
	for _, step := range r.transfers.hear(f, mac, now) {
		r.add(v, step, now)
	}
}

// admit reports whether a machine is awaited and may have one more message read.
func (r *Recorder) admit(v fsm.View, of side, now time.Time) bool {
	if len(r.nodesOf(v, of.mac)) == 0 {
		return false
	}
	if !r.shares.admit(of, now) {
		r.unread++
		return false
	}
	return true
}

// dhcpReader is what reads the frame, nil if its ports are not DHCP's.
func dhcpReader(f frame) func(frame) (message, bool) {
	if f.Proto != unix.IPPROTO_UDP {
		return nil
	}
	for _, port := range []uint16{f.Src.Port(), f.Dst.Port()} {
		switch port {
		case serverPort, clientPort, pxePort:
			return readDHCP4
		case server6Port, client6Port:
			return readDHCP6
		}
	}
	return nil
}

// hearDHCP reads a message of a machine, or to it, within the budget of the machine, or of all
// that are not under introspection.
func (r *Recorder) hearDHCP(v fsm.View, f frame, read func(frame) (message, bool), own net.HardwareAddr,
	now time.Time) {
	mac := clientMAC(f)
	if mac == firewall.TestMAC {
		return // a host looks for DHCP servers that no rule stops
	}
	r.leases.answered(f, mac)
	if len(r.nodesOf(v, mac)) > 0 {
		if !r.admit(v, side{mac, answers(f)}, now) {
			return
		}
	} else if !r.strangers.budget.AllowN(now, 1) {
		r.unread++
		return
	}
	s, ok := read(f)
	if !ok {
		return
	}
	switch s.step.Kind {
	case boots.Offered, boots.Leased, boots.Refused:
		s.step.Foreign = !bytes.Equal(f.From, own)
	}
	if len(r.nodesOf(v, s.mac)) == 0 {
		r.strangers.noteStranger(s, now)
		return
	}
	if at, err := netip.ParseAddr(s.step.Address); err == nil && s.step.Kind == boots.Leased {
		r.leases.grant(at, s.mac, s.step.Relay != "")
	}
	s.step.MAC = s.mac
	r.add(v, s.step, now)
}

// expected is a node whose machine is awaited, and its introspection, as boots.Track has it.
type expected struct {
	node  string
	begun fencing.Token
}

// nodesOf are the nodes with a MAC whose machines are awaited.
func (r *Recorder) nodesOf(v fsm.View, mac string) []expected {
	var all []expected
	for _, node := range v.BootingByMAC(mac) {
		rec, _ := v.Record(node)
		all = append(all, expected{node, rec.Begun})
	}
	for _, node := range v.InspectedByMAC(mac) {
		i, _ := v.Inspected(node)
		all = append(all, expected{node, i.Since})
	}
	return all
}

// add keeps a step of a machine, which its MAC names, until it is committed.
func (r *Recorder) add(v fsm.View, step boots.Step, now time.Time) {
	for _, e := range r.nodesOf(v, step.MAC) {
		t := r.pending[e.node]
		if t == nil || t.Begun != e.begun {
			t = &boots.Track{Node: e.node, Begun: e.begun}
			r.pending[e.node] = t
			// Once in a leadership, a step of its own tells that nothing was recorded since the newest step under
			// another leader. A track of findings alone has none.
			before, ok := v.BootTrack(e.node)
			if !r.lead.resumed[e.node] && ok && before.Begun == e.begun && len(before.Steps) > 0 {
				from := min(before.Latest(), now.UnixMilli())
				t.Add(boots.Step{Kind: boots.Unheard, Peer: r.peer,
					Times: boots.Times{FirstMillis: from, LastMillis: now.UnixMilli(), Count: 1}})
			}
			r.lead.resumed[e.node] = true
		}
		step.Peer, step.Count = r.peer, 1
		step.FirstMillis, step.LastMillis = now.UnixMilli(), now.UnixMilli()
		t.Add(step)
	}
}

// commit ends transfers that fell silent, and commits what was heard since the last time and what
// was found of it, in one entry. What does not fit, or fails, is kept for the next.
func (r *Recorder) commit(ctx context.Context, a firewall.Authority) error {
	v, _ := r.log.Changed()
	r.mu.Lock()
	now := time.Now()
	for _, step := range r.transfers.quiet(now) {
		r.add(v, step, now)
	}
	if v.Admits(boots.Note{}) != nil {
		clear(r.pending) // a peer of an older release could not read it
	}
	taken := make(map[string]*boots.Track)
	var c boots.Note
	for node, t := range r.pending {
		if len(c.Heard)+len(t.Steps) > boots.MaxHeard {
			break
		}
		taken[node] = t
		for _, step := range t.Steps {
			c.Heard = append(c.Heard, boots.Heard{Node: node, Begun: t.Begun, Step: step})
		}
	}
	maps.DeleteFunc(r.pending, func(node string, _ *boots.Track) bool { return taken[node] != nil })
	c.Judged = r.judgeNodes(v, taken, now)
	r.mu.Unlock()
	if len(c.Heard)+len(c.Judged) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	res, err := a.Propose(limited, c)
	if err != nil {
		r.giveBack(taken, c.Judged)
	} else {
		err = res.Err() // what the log refuses once, it refuses always
	}
	if err != nil {
		return fmt.Errorf("commit %d steps and %d findings of booting machines: %w", len(c.Heard), len(c.Judged), err)
	}
	return nil
}

// giveBack keeps what was not committed, before what was heard meanwhile. What may have been
// committed all the same is then counted twice.
func (r *Recorder) giveBack(taken map[string]*boots.Track, judged []boots.Judged) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, j := range judged { // their findings were not committed: they are judged again soon
		if known := r.watch.nodes[j.Node]; known != nil {
			known.next = known.last
		}
	}
	for node, t := range taken {
		if newer := r.pending[node]; newer != nil {
			if newer.Begun != t.Begun {
				continue
			}
			for _, step := range newer.Steps {
				t.Add(step)
			}
		}
		r.pending[node] = t
	}
}
