package raftguard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// lookShare is the part of a heartbeat timeout that lies between the looks of two voters. A
// leader sends heartbeats to each of them within a fifth, apart from the others.
const lookShare = 4

// Looks has a follower notice that its leader is silent when the heartbeat timeout is over.
// raft alone looks once in one to two of them, so that up to three pass; and a majority has to
// notice, since a voter that still has its leader votes for no other.
//
// Voters look in turn, by their IDs, so that they do not split their votes: one that was
// refused for being early votes for the next.
type Looks struct {
	Raft      *raft.Raft
	Self      raft.ServerID
	Heartbeat time.Duration // HeartbeatTimeout of raft's configuration
}

// Run has raft look until stop is closed, or raft refuses its own configuration.
func (l Looks) Run(stop <-chan struct{}) error {
	pause := l.Heartbeat
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for due := time.Now().Add(pause); ; due = time.Now().Add(pause) {
		select {
		case <-timer.C:
		case <-stop:
			return nil
		}
		left, err := l.lookIfDue(time.Since(due))
		if err != nil {
			return fmt.Errorf("have raft look whether its leader is silent: %w", err)
		}
		pause = left
		timer.Reset(pause)
	}
}

// lookIfDue has raft look if its leader has been silent for long enough, and returns when to
// ask again. late is how much later than it was to be this call is: then the processor was
// elsewhere, and what the leader has sent may wait unread.
func (l Looks) lookIfDue(late time.Duration) (again time.Duration, err error) {
	_, leads := l.Raft.LeaderWithID()
	if l.Raft.State() != raft.Follower || leads == "" {
		return l.Heartbeat, nil
	}
	silent := time.Since(l.Raft.LastContact())
	if silent < l.Heartbeat {
		return l.Heartbeat - silent, nil
	}
	turn, err := l.turn(leads)
	apart := l.Heartbeat / lookShare
	switch wait := l.Heartbeat + time.Duration(turn)*apart; {
	case err != nil:
		return 0, err
	case turn < 0:
		return l.Heartbeat, nil
	case silent < wait:
		return wait - silent, nil
	case late > apart:
		return apart, nil
	}
	// raft looks whenever its heartbeat timeout becomes shorter. A leader that it has heard meanwhile
	// it keeps.
	c := l.Raft.ReloadableConfig()
	c.HeartbeatTimeout = l.Heartbeat
	longer := l.Raft.ReloadConfig(c)
	c.HeartbeatTimeout--
	return l.Heartbeat, errors.Join(longer, l.Raft.ReloadConfig(c))
}

// turn is the place of this server among the voters that may follow a leader, -1 if it is none.
func (l Looks) turn(leads raft.ServerID) (int, error) {
	known := l.Raft.GetConfiguration()
	if err := known.Error(); err != nil {
		return 0, err
	}
	var heirs []raft.ServerID
	for _, s := range known.Configuration().Servers {
		if s.Suffrage == raft.Voter && s.ID != leads {
			heirs = append(heirs, s.ID)
		}
	}
	slices.Sort(heirs)
	return slices.Index(heirs, l.Self), nil
}
