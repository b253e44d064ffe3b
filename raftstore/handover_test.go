package raftstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// handOvers are voters with the guard of the term and the gate of the product, and a raft
// that only votes, acknowledges and proves. Elections come at any time, whether a leader
// lives or not; every step may be slow, every message may be lost, every process may die.
type handOvers struct {
	t       *testing.T
	life    context.Context
	end     context.CancelFunc
	began   time.Time
	running sync.WaitGroup
	voters  []*modelVoter

	mu     sync.Mutex
	rng    *rand.Rand
	proofs []modelProof
	told   []modelProof // by voters to a leader of a term: no older proof began after t0
}

// modelProof is a proof of leadership that succeeded, or what a leader was told of those.
type modelProof struct {
	term uint64
	t0   time.Time
}

// draw returns a number below n.
func (w *handOvers) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// pause stands for a disk, a network or a process that is slow, or stopped.
func (w *handOvers) pause() {
	d := time.Duration(w.draw(20)) * 100 * time.Microsecond
	if w.draw(12) == 0 {
		d = time.Duration(w.draw(200)) * time.Millisecond
	}
	pace.Wait(w.life, d)
}

func (w *handOvers) lost() bool { return w.draw(8) == 0 }

func (w *handOvers) proved(p modelProof) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proofs = append(w.proofs, p)
}

func (w *handOvers) heard(p modelProof) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, p)
}

// modelVoter is a host. Its disk outlives its processes.
type modelVoter struct {
	w    *handOvers
	id   raft.ServerID
	zero time.Duration // what its clock shows at the beginning
	disk *raft.InmemStore
	mu   sync.Mutex // a process does not die in the middle of a write
	now  atomic.Pointer[modelProcess]
}

// modelProcess is one run of a voter.
type modelProcess struct {
	*modelVoter
	life      context.Context
	kill      context.CancelFunc
	gate      *raftguard.Gate
	guard     *raftguard.TermGuard
	acks      *raftguard.Acks
	inbox     chan raft.RPC // of the main loop
	heartbeat func(raft.RPC)
	term      atomic.Uint64
	leads     atomic.Uint64 // in which term; 0: in none
}

func (v *modelVoter) start() {
	p := &modelProcess{modelVoter: v, inbox: make(chan raft.RPC), acks: raftguard.NewAcks()}
	p.life, p.kill = context.WithCancel(v.w.life)
	p.gate = raftguard.NewGate(func() time.Duration { return v.zero + time.Since(v.w.began) })
	var err error
	if p.guard, err = raftguard.NewTermGuard(modelDisk{v.disk, p}, p.gate.Raise); err != nil {
		v.w.t.Error(err)
	}
	p.term.Store(p.guard.Term())
	p.heartbeat = p.gate.Heartbeats(p.guard.Heartbeats(func(rpc raft.RPC) {
		if err := p.append(rpc); err != nil {
			v.w.t.Errorf("a heartbeat of the present term: %v", err)
		}
	}, p.inbox, p.life.Done()), p.life.Done())
	v.w.running.Go(p.main)
	v.now.Store(p)
}

// crash ends the process, in the middle of whatever it does, and starts another.
func (v *modelVoter) crash() {
	v.mu.Lock()
	v.now.Load().kill()
	v.mu.Unlock()
	v.start()
}

// modelDisk is a slow disk, as one process has it.
type modelDisk struct {
	*raft.InmemStore
	of *modelProcess
}

var errModelCrashed = errors.New("the process is dead")

func (d modelDisk) write(put func() error) error {
	d.of.w.pause()
	d.of.mu.Lock()
	err := errModelCrashed
	if d.of.life.Err() == nil {
		err = put()
	}
	d.of.mu.Unlock()
	d.of.w.pause()
	return err
}

// SetUint64 implements raft.StableStore.
func (d modelDisk) SetUint64(key []byte, n uint64) error {
	return d.write(func() error { return d.InmemStore.SetUint64(key, n) })
}

// Set implements raft.StableStore.
func (d modelDisk) Set(key, value []byte) error {
	return d.write(func() error { return d.InmemStore.Set(key, value) })
}

// main is raft's main loop.
func (p *modelProcess) main() {
	for {
		select {
		case rpc := <-p.inbox:
			p.w.pause()
			err := p.append(rpc)
			if vote, ok := rpc.Command.(*raft.RequestVoteRequest); ok {
				err = p.vote(rpc, vote)
			}
			if err != nil && p.life.Err() == nil {
				p.w.t.Errorf("%s in term %d: %T: %v", p.id, p.term.Load(), rpc.Command, err)
			}
			if err != nil {
				return
			}
		case <-p.life.Done():
			return
		}
	}
}

// rise follows raft: the disk first, then memory.
func (p *modelProcess) rise(term uint64) error {
	p.leads.Store(0)
	if err := p.guard.SetUint64([]byte("CurrentTerm"), term); err != nil {
		return err
	}
	p.term.Store(term)
	return nil
}

func (p *modelProcess) append(rpc raft.RPC) error {
	req, ok := rpc.Command.(*raft.AppendEntriesRequest)
	if !ok {
		return nil
	}
	resp := &raft.AppendEntriesResponse{Term: p.term.Load()}
	if req.Term > resp.Term {
		if err := p.rise(req.Term); err != nil {
			return err
		}
		resp.Term = req.Term
	}
	resp.Success = req.Term == resp.Term && p.w.draw(4) > 0
	rpc.Respond(resp, nil)
	return nil
}

func (p *modelProcess) vote(rpc raft.RPC, req *raft.RequestVoteRequest) error {
	if req.Term > p.term.Load() {
		if err := p.rise(req.Term); err != nil {
			return err
		}
	}
	in, err := p.guard.GetUint64([]byte("LastVoteTerm"))
	if err != nil {
		return err
	}
	if req.Term < p.term.Load() || in == req.Term {
		rpc.Respond(&raft.RequestVoteResponse{}, nil)
		return nil
	}
	if err := p.guard.SetUint64([]byte("LastVoteTerm"), req.Term); err != nil {
		return err
	}
	if err := p.guard.Set([]byte("LastVoteCand"), req.ID); err != nil {
		return err
	}
	rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
	return nil
}

// call carries a request to a voter and brings the answer, nil if one of them is lost.
func (w *handOvers) call(to *modelVoter, command any, heartbeat bool) any {
	if w.pause(); w.lost() {
		return nil
	}
	p, answers := to.now.Load(), make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: command, RespChan: answers}
	if heartbeat {
		p.heartbeat(rpc)
	} else {
		held := p.gate.Watch(rpc, func(*raft.RPCResponse) { w.pause() }, p.life.Done())
		select {
		case p.inbox <- held:
		case <-p.life.Done():
			return nil
		}
	}
	select {
	case a := <-answers:
		if p.life.Err() != nil { // what the dead would say never left
			return nil
		}
		if w.pause(); a.Error != nil || w.lost() {
			return nil
		}
		return a.Response
	case <-p.life.Done():
		return nil
	}
}

// campaign stands for election, and leads.
func (p *modelProcess) campaign() {
	term := p.term.Load() + 1
	votes := make(chan bool, len(p.w.voters))
	for _, v := range p.w.voters {
		p.w.running.Go(func() {
			resp, _ := p.w.call(v, &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte(p.id)}, Term: term},
				false).(*raft.RequestVoteResponse)
			votes <- resp != nil && resp.Granted && (v != p.modelVoter || v.now.Load() == p)
		})
	}
	granted := 0
	for range p.w.voters {
		if <-votes { // in a bubble
			granted++
		}
	}
	if granted > len(p.w.voters)/2 && p.term.Load() == term && p.life.Err() == nil {
		p.leads.Store(term)
		p.lead(term)
	}
}

// lead asks the voters and proves, until it learns of a newer term.
func (p *modelProcess) lead(term uint64) {
	var questions []raftguard.Question
	for _, v := range p.w.voters {
		questions = append(questions, func(ctx context.Context, term uint64) (time.Duration, error) {
			if p.w.pause(); v != p.modelVoter && p.w.lost() {
				return 0, errors.New("lost")
			}
			age, err := v.now.Load().gate.Age(term)
			p.w.pause()
			return age, errors.Join(err, ctx.Err())
		})
	}
	ages := raftguard.NewAges(p.life, term, questions)
	p.w.running.Go(ages.Ask)
	defer ages.End()
	for p.stands(term) {
		p.w.running.Go(func() { p.prove(term) })
		pace.Wait(p.life, time.Duration(p.w.draw(30))*time.Millisecond)
		if until, ok := ages.Until(term); ok {
			p.w.heard(modelProof{term, until})
		}
	}
}

func (p *modelProcess) stands(term uint64) bool {
	return p.life.Err() == nil && p.leads.Load() == term && p.term.Load() == term
}

// prove is Leadership.Confirm.
func (p *modelProcess) prove(term uint64) {
	t0, mark := time.Now(), p.acks.Mark()
	ctx, cancel := context.WithTimeout(p.life, 300*time.Millisecond)
	defer cancel()
	var others []raft.ServerID
	for _, v := range p.w.voters {
		if v == p.modelVoter {
			continue
		}
		others = append(others, v.id)
		heartbeat := p.w.draw(2) == 0
		p.w.running.Go(func() {
			sent := p.acks.Sending(term)
			resp, _ := p.w.call(v, &raft.AppendEntriesRequest{Term: term}, heartbeat).(*raft.AppendEntriesResponse)
			if resp != nil && resp.Term == term {
				p.acks.Answered(v.id, sent)
			}
		})
	}
	for {
		got, changed := p.acks.Count(others, term, t0, mark)
		if got >= len(p.w.voters)/2 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
	p.w.pause()
	if !p.stands(term) {
		return
	}
	p.w.pause()
	if p.gate.Pass(term) == nil && p.life.Err() == nil {
		p.w.proved(modelProof{term, t0})
	}
}

// run has leaders elected n times, at any moment.
func (w *handOvers) run(voters, n int) {
	for i := range voters {
		v := &modelVoter{w: w, id: raft.ServerID(fmt.Sprintf("h%d", i+1)), zero: time.Duration(w.draw(1e6)) * time.Hour / 1e3,
			disk: raft.NewInmemStore()}
		v.start()
		w.voters = append(w.voters, v)
	}
	for range n {
		v := w.voters[w.draw(voters)]
		if w.draw(5) == 0 {
			v.crash()
		}
		w.running.Go(v.now.Load().campaign)
		pace.Wait(w.life, time.Duration(w.draw(150))*time.Millisecond)
	}
	pace.Wait(w.life, time.Second)
	w.end()
	w.running.Wait()
}

// TestNoOlderProofBeginsLater has thousands of hand-overs, in which every step between a
// proof, a write, a stamp, an answer and a question may take its time: no proof of an older
// term that succeeds, then or later, began after what the voters told the new leader.
func TestNoOlderProofBeginsLater(t *testing.T) {
	told, proofs, latest := 0, 0, time.Duration(1<<62)
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			w := &handOvers{t: t, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now()}
			w.life, w.end = context.WithCancel(t.Context())
			w.run(3+2*int(seed%2), 60)
			for _, said := range w.told {
				for _, p := range w.proofs {
					if p.term >= said.term {
						continue
					}
					margin := said.t0.Sub(p.t0)
					if latest = min(latest, margin); margin < 0 {
						t.Fatalf(
							"no-older-proof: the voters told the leader of term %d that no older proof began after %v, and one of term %d began %v later (seed %d)",
							said.term, said.t0.Sub(w.began), p.term, -margin, seed)
					}
				}
			}
			told += len(w.told)
			proofs += len(w.proofs)
		})
	}
	t.Logf("%d proofs; leaders were told %d times; the closest proof began %v before", proofs, told, latest)
	if told < 2000 || proofs < 2000 || latest > 10*time.Millisecond {
		t.Errorf("the test tries too little: %d proofs, %d answers of a majority, the closest proof began %v before", proofs,
			told, latest)
	}
}
