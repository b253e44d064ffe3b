package raftstore

import (
	"context"
	"sync"
	"time"
)

// Role is what raft last said about this peer's leadership.
type Role struct {
	Leader bool
	// Change counts raft's notices. A gain after a gain has a greater number:
	// leadership was lost in between, even where nobody saw it.
	Change uint64
	Since  time.Time // when the notice came (monotonic)
}

// roleKeeper drains raft's NotifyCh. Raft's main loop blocks on that channel,
// so this goroutine records and does nothing else (hashicorp/consul 3230).
type roleKeeper struct {
	notify chan bool

	mu   sync.Mutex
	role Role
	next chan struct{} // closed and replaced at every notice
}

func newRoleKeeper() *roleKeeper {
	return &roleKeeper{notify: make(chan bool, 16), next: make(chan struct{})}
}

func (k *roleKeeper) run(ctx context.Context) {
	for {
		select {
		case leader := <-k.notify:
			k.record(leader)
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

// Role returns the newest notice and a channel that is closed at the next one.
// Notices that came between two calls are merged; Change tells.
func (s *Store) Role() (Role, <-chan struct{}) {
	s.roles.mu.Lock()
	defer s.roles.mu.Unlock()
	return s.roles.role, s.roles.next
}
