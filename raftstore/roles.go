package raftstore

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Role is what raft last said about this peer's leadership.
type Role struct {
	Leader bool
	// Change counts raft's notices. A gain after a gain has a greater number:
	// leadership was lost in between, even where no reader saw it.
	Change uint64
	Since  time.Time // when the notice came (monotonic)
}

// roleKeeper drains raft's NotifyCh. Raft's main loop blocks on that channel,
// so this goroutine records and does nothing else (hashicorp/consul 3230).
type roleKeeper struct {
	notify chan bool
	seen   chan raft.Observation // of leaders, this peer or others; raft drops what does not fit

	mu    sync.Mutex
	role  Role
	next  chan struct{} // closed and replaced at every notice
	led   raft.ServerID
	ledBy context.Context // ends when another leader is heard of
	over  context.CancelFunc
}

func newRoleKeeper() *roleKeeper {
	k := &roleKeeper{notify: make(chan bool, 16), seen: make(chan raft.Observation, 16), next: make(chan struct{})}
	k.ledBy, k.over = context.WithCancel(context.Background())
	return k
}

func leaders(o *raft.Observation) bool { _, ok := o.Data.(raft.LeaderObservation); return ok }

func (k *roleKeeper) run(ctx context.Context) {
	for {
		select {
		case leader := <-k.notify:
			k.record(leader)
		case o := <-k.seen:
			k.endOldCalls(o.Data.(raft.LeaderObservation).LeaderID)
		case <-ctx.Done():
			return
		}
	}
}

func (k *roleKeeper) record(leader bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.role = Role{Leader: leader, Change: k.role.Change + 1, Since: time.Now()}
	close(k.next)
	k.next = make(chan struct{})
}

// endOldCalls ends the calls to an earlier leader.
func (k *roleKeeper) endOldCalls(id raft.ServerID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == "" || id == k.led {
		return
	}
	k.over()
	k.led = id
	k.ledBy, k.over = context.WithCancel(context.Background())
}

// Role returns the newest notice and a channel that is closed at the next one.
// Notices that came between two calls are merged; Change tells.
func (s *Store) Role() (Role, <-chan struct{}) {
	s.roles.mu.Lock()
	defer s.roles.mu.Unlock()
	return s.roles.role, s.roles.next
}
