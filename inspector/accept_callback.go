package inspector

import (
	"context"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// Suspects are documents that a process of this host was examining when it
// ended: it may have died of them. Its methods are called concurrently.
type Suspects interface {
	// Examine notes that a document is examined. It is false for a suspect, for
	// one that is being examined already, and where no note can be left.
	Examine(document blobs.Hash) bool
	// Clear ends what Examine began.
	Clear(document blobs.Hash)
}

// Memory is what a host remembers of documents.
type Memory interface {
	Suspects
	// At notes which hook looks at a document that is being examined.
	At(document blobs.Hash, hook string)
	// Suspect reports whether a document is a suspect, and at which hook the
	// process ended, "" if it had come to none.
	Suspect(document blobs.Hash) (hook string, yes bool)
}

// Callback is a ramdisk's data, and the node that it was found to come from.
type Callback struct {
	Node   string
	Packed blobs.Packed
	Data   *Document // of Packed; the worker that takes the callback may change it
}

// Taker begins callbacks where they come in.
type Taker interface {
	// Take reports false if the callback was not taken, for any reason, and is to
	// be queued; that joins it if it was taken all the same.
	Take(ctx context.Context, c Callback) (queued introspection.Queued, ok bool)
}

var _ Taker = (*WorkerPool)(nil)

// Take begins the processing of a callback without a detour through the queue,
// if a worker is free soon and finds nothing amiss: hooks have nothing to object
// to, Ironic answers and the node may be introspected. So one entry of the log
// says what takes three otherwise, and the data is not unpacked and read again. A
// document that kills this process does so once, see suspected.
func (p *WorkerPool) Take(ctx context.Context, cb Callback) (queued introspection.Queued, ok bool) {
	v, session := p.o.Log.View(), p.o.Session.ID()
	if p.o.Memory == nil || session.IsZero() || v.Admits(introspection.TakeCallback{}) != nil || p.o.Health.Err() != nil || !expected(v, cb.Node) {
		return queued, false
	}
	told := make(chan introspection.Taken, 1) // buffered, since the caller may be gone; closed when it was not taken
	engaged := p.submit(ctx, func() {
		j := p.begin(session, cb, told)
		close(told)
		if j != nil {
			j.work()
		}
	})
	if !engaged {
		return queued, false
	}
	select {
	case taken, ok := <-told:
		return taken.Queued, ok
	case <-ctx.Done():
		return queued, false
	}
}

// expected reports whether a node waits for a callback. One that is enrolled
// needs more than its data examined.
func expected(v fsm.View, node string) bool {
	rec, ok := v.Record(node)
	return ok && rec.State == introspection.NodeWaiting && !overdue(v, rec)
}

// maxAdmitted is how many workers that become free go to callbacks that wait, one
// after the other, before the queue has its turn.
const maxAdmitted = 3

// waitingTask is work that waits for a worker.
type waitingTask struct {
	run     func()
	started chan struct{} // closed when it has one
}

// submit runs a task on a worker, unless the pool is paused or stops. If all are
// busy it waits for one, for as long as a queued request is left to the peer
// whose turn it is: in the queue it would wait as well, and take two more
// entries of the log and a second reading of the data. No more wait than there
// are workers.
func (p *WorkerPool) submit(ctx context.Context, work func()) bool {
	e := &waitingTask{run: work, started: make(chan struct{})}
	if !p.enqueue(e) {
		return false
	}
	timer := time.NewTimer(turnWait)
	defer timer.Stop()
	select {
	case <-e.started:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return !p.withdraw(e)
}

// enqueue begins a task or lets it wait.
func (p *WorkerPool) enqueue(e *waitingTask) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open || p.paused || len(p.waiting) >= p.size {
		return false
	}
	p.waiting = append(p.waiting, e)
	if len(p.waiting) == 1 { // else the free worker is the queue's
		p.startWaiting()
	}
	return true
}

// withdraw ends a task's waiting; it is false for one that was begun.
func (p *WorkerPool) withdraw(e *waitingTask) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.Index(p.waiting, e)
	if n < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, n, n+1)
	return true
}

// startWaiting gives free workers to waiting tasks. The caller holds the lock, and
// does not wait for the workers to end.
func (p *WorkerPool) startWaiting() {
	for p.open && !p.paused && p.busy < p.size && len(p.waiting) > 0 {
		e := p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
		p.busy++
		p.running.Go(func() {
			defer p.release()
			e.run()
		})
		close(e.started)
	}
}

// begin examines a callback and commits that its processing has begun, notifies the
// waiting caller, and returns the job that is left to do, nil if there is none. A
// commit whose outcome is unknown is one in a session that is over.
func (p *WorkerPool) begin(session fencing.Token, cb Callback, told chan<- introspection.Taken) *job {
	if !p.o.Memory.Examine(cb.Packed.Hash) {
		return nil
	}
	defer p.o.Memory.Clear(cb.Packed.Hash)
	j := p.job(introspection.ClaimedRequest{
		Claim:   introspection.Claim{Node: cb.Node, Session: session},
		Request: introspection.QueuedRequest{Node: cb.Node, Event: introspection.EventProcess, Document: cb.Packed.Hash, Attempts: 1},
	})
	defer func() { j.hooks.runner.goroutine.stop() }() // unless the job that carries on has it
	task, ok := j.examine(WithGuard(p.stop.tasks, j.node.current), cb.Data)
	if !ok {
		return nil
	}
	write, end := p.stop.commit()
	defer end()
	res, err := p.o.Session.DoIn(write, session, introspection.TakeCallback{Node: cb.Node, Document: cb.Packed, Keep: j.by.Config.StoreData, Hook: j.hooks.firstHook()})
	if err != nil || res.Code != fsm.OK {
		return nil
	}
	var taken introspection.Taken
	if err := res.Decode(&taken); err != nil {
		p.o.Logger.Error("decode outcome of callback failed", "node", cb.Node, "err", err)
		return nil
	}
	told <- taken
	if taken.Claimed == nil {
		return nil
	}
	begun := p.job(*taken.Claimed)
	begun.hooks.runner.goroutine, j.hooks.runner.goroutine = j.hooks.runner.goroutine, &hookGoroutine{}
	task.Log = begun.log
	begun.task, begun.out.saved = task, true
	return begun
}

// examine does what precedes `processing`. It ignores faults: a worker meets each
// again and logs it. There is no claim yet, and it reads alone; still a peer whose
// session may be over sends nothing.
func (j *job) examine(ctx context.Context, data *Document) (*Task, bool) {
	failures, err := j.hooks.runner.objections(ctx, data, func(h Hook) error {
		j.pool.o.Memory.At(j.request.Document, h.Name())
		return nil
	})
	if err != nil || len(failures) > 0 {
		return nil, false
	}
	t := j.newTask(data)
	return t, j.node.fit(ctx, t) == nil
}

// suspected gives a callback back if this host's last process ended when it
// examined the data: the log did not know of that and counts it now, as if the
// process had been lost with a claim.
func (j *job) suspected() (gone bool, err error) {
	if j.pool.o.Memory == nil || j.pool.o.Log.View().Admits(introspection.Decline{}) != nil {
		return false, nil
	}
	hook, yes := j.pool.o.Memory.Suspect(j.request.Document)
	if !yes {
		return false, nil
	}
	j.log.Warn("previous process of this host ended while it examined the data; another peer processes it", "hook", hook)
	_, err = j.out.commit(introspection.Decline{Claim: j.claim.Hold(), Hook: hook})
	return true, err
}
