package work

import (
	"context"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// Take begins the processing of a callback without a detour through the queue,
// if a worker is free soon and finds nothing amiss: hooks have nothing to object
// to, Ironic answers and the node may be introspected. So one entry of the log
// says what takes three otherwise, and the data is not unpacked and read again. A
// document that kills this process does so once, see suspected.
func (p *Pool) Take(ctx context.Context, cb inspector.Callback) (queued introspection.Queued, ok bool) {
	v, session := p.o.Log.View(), p.o.Session.ID()
	if p.o.Memory == nil || session.IsZero() || v.Admits(introspection.TakeCallback{}) != nil || p.o.Health.Err() != nil ||
		!expected(v, cb.Node) {
		return queued, false
	}
	told := make(chan introspection.Taken, 1) // buffered, since the caller may be gone; closed when it was not taken
	engaged := p.submit(ctx, func() {
		j := p.beginCallback(session, cb, told)
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

// beginCallback examines a callback and commits that its processing has begun, notifies the
// waiting caller, and returns the job that is left to do, nil if there is none. A
// commit whose outcome is unknown is one in a session that is over.
func (p *Pool) beginCallback(session fencing.Token, cb inspector.Callback, told chan<- introspection.Taken) *job {
	if !p.o.Memory.Examine(cb.Packed.Hash) {
		return nil
	}
	defer p.o.Memory.Clear(cb.Packed.Hash)
	j := p.job(introspection.ClaimedRequest{
		Claim: introspection.Claim{Node: cb.Node, Session: session},
		Request: introspection.QueuedRequest{Node: cb.Node, Event: introspection.EventProcess, Document: cb.Packed.Hash,
			Attempts: 1},
	})
	defer j.hooks.runner.Stop() // unless the job that carries on has it
	task, ok := j.examine(ironic.WithGuard(p.stop.tasks, j.node.current), cb.Data)
	if !ok {
		return nil
	}
	write, end := p.stop.commit()
	defer end()
	res, err := p.o.Session.DoIn(write, session,
		introspection.TakeCallback{Node: cb.Node, Document: cb.Packed, Keep: j.by.Config.StoreData,
			Hook: j.hooks.firstHook()})
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
	begun.hooks.runner.Inherit(&j.hooks.runner)
	begun.task, begun.out.saved = begun.own(task), true
	return begun
}

// examine does what precedes `processing`. It ignores faults: a worker meets each
// again and logs it. There is no claim yet, and it reads alone; still a peer whose
// session may be over sends nothing.
func (j *job) examine(ctx context.Context, data *document.Document) (*inspector.Task, bool) {
	failures, err := j.hooks.runner.Objections(ctx, data, func(h inspector.Hook) error {
		j.pool.o.Memory.At(j.request.Document, h.Name())
		return nil
	})
	if err != nil || len(failures) > 0 {
		return nil, false
	}
	t := j.own(newTask(data))
	return t, j.node.fit(ctx, t) == nil
}
