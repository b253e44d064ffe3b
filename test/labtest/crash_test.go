//go:build e2e

package labtest

import (
	"fmt"
	"testing"
	"time"
)

// TestAllKilledAtOnce kills three peers under load and starts them again, in
// every order, sometimes with a pause that makes the first two elect without
// the last.
func TestAllKilledAtOnce(t *testing.T) { eachLogStore(t, allKilledAtOnce) }

func allKilledAtOnce(t *testing.T, store string) {
	orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}}
	if testing.Short() {
		orders = orders[:2]
	}
	l := threeWith(t, store)
	for i, order := range orders {
		load := l.Write(6)
		l.Eventually(electLimit, "a few hundred writes", func() error { return atLeast(load.Acked(), 300) })
		for _, p := range l.Peers {
			p.signal(9)
		}
		for _, p := range l.Peers {
			p.Kill9()
		}
		load.Stop()
		for _, n := range order {
			l.Peers[n].Spawn()
		}
		leader := l.cold()
		load.Verify(leader)
		t.Logf("order %v: equal states at index %d, leader %s", order, l.WaitSame(), leader.Name)
		if i == 0 {
			l.WaitVoters(3)
		}
	}
}

// cold waits for peers that were only spawned.
func (l *Lab) cold() *Peer {
	l.t.Helper()
	for _, p := range l.Peers {
		l.Eventually(electLimit, p.Name+" answers", func() error { _, err := p.Status(); return err })
	}
	return l.WaitLeader()
}

// TestLeaderKilled kills the leader under load, again and again.
func TestLeaderKilled(t *testing.T) { eachLogStore(t, leadersKilled) }

func leadersKilled(t *testing.T, store string) {
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	l := threeWith(t, store)
	load := l.Write(6)
	for range rounds {
		leader := l.WaitLeader()
		before := load.Acked()
		leader.Kill9()
		l.Eventually(electLimit, "writes go on", func() error { return atLeast(load.Acked(), before+100) })
		leader.Start()
	}
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// TestLeaderStopped stops the leader's process with SIGSTOP under load; when it
// goes on it must be a follower that acknowledged nothing on its own.
func TestLeaderStopped(t *testing.T) {
	t.Parallel()
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	l := Three(t)
	load, longest := l.Write(6), make(worst)
	for round := range rounds {
		old := l.WaitLeader()
		pid := old.PID()
		before, _ := old.Status()
		load.worst.Store(0)
		acked := load.Acked()
		old.Pause()
		l.Eventually(electLimit, "writes go on", func() error { return atLeast(load.Acked(), acked+100) })
		now := l.WaitLeader()
		// Connections to a stopped leader stay open: what was forwarded to it
		// must be asked of the next as soon as there is one. After two rounds
		// every peer has a write behind it that took as long as the stop, and
		// stands aside until nobody has led for 3 s.
		name, goal := "labtest.leader_stopped_gap", 3*time.Second
		if round >= 2 {
			name, goal = "labtest.leader_stopped_again_gap", 7*time.Second
		}
		longest.took(t, name, load.WorstGap(), goal)
		old.Cont()
		l.Eventually(electLimit, "the old leader follows", func() error {
			old.startAgain()
			s, err := old.Status()
			if err == nil && s.Leader != now.Name {
				err = fmt.Errorf("it says that %q leads", s.Leader)
			}
			return err
		})
		after, err := now.Status()
		if err != nil || after.Token <= before.Token {
			t.Fatalf("token %v after %v (%v): it must rise", after.Token, before.Token, err)
		}
		if !old.wentOn(pid) {
			t.Fatal("the stopped leader did not go on as the same process")
		}
	}
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// TestPlannedStop stops the leader as systemd does: leadership is handed on and
// membership stays.
func TestPlannedStop(t *testing.T) {
	t.Parallel()
	l := Three(t)
	load := l.Write(4)
	leader := l.WaitLeader()
	before := load.Acked()
	l.Eventually(electLimit, "some writes", func() error { return atLeast(load.Acked(), before+50) })
	load.worst.Store(0)
	began := time.Now()
	leader.Stop()
	took := time.Since(began)
	before = load.Acked()
	l.Eventually(electLimit, "writes go on", func() error { return atLeast(load.Acked(), before+50) })
	t.Logf("stopped in %v, longest pause of writes %v", took.Round(time.Millisecond),
		load.WorstGap().Round(time.Millisecond))
	for _, p := range l.Running() {
		if s, err := p.Status(); err != nil || s.Quorum.Voters != 3 {
			t.Fatalf("%s sees %d voters (%v): a stop must not change membership", p.Name, s.Quorum.Voters, err)
		}
	}
	leader.Start()
	load.Verify(l.WaitLeader())
	l.WaitSame()
}

// eachLogStore runs a test once for each raft.log_store.
func eachLogStore(t *testing.T, test func(t *testing.T, store string)) {
	t.Parallel()
	for _, store := range []string{"bolt", "wal"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			test(t, store)
		})
	}
}

// threeWith is Three with a log store.
func threeWith(t *testing.T, store string) *Lab {
	l := New(t)
	l.keepLogs(store)
	l.Trio("a", "b", "c")
	return l
}

// keepLogs gives each new peer a log store.
func (l *Lab) keepLogs(store string) {
	l.furnish = func(p *Peer) { p.Env = append(p.Env, logStoreEnv+store) }
}

const logStoreEnv = "TRIVET_RAFT_LOG_STORE="

// TestLogStoreIsChanged starts one peer after the other with the other log store under
// load, and back: some are stopped before, some killed. Nothing is lost.
func TestLogStoreIsChanged(t *testing.T) {
	t.Parallel()
	l := threeWith(t, "bolt")
	for round, store := range []string{"wal", "bolt", "wal"} {
		load := l.Write(6)
		for n, p := range l.Peers {
			l.Eventually(electLimit, "writes go on", func() error { return atLeast(load.Acked(), int64(100*(n+1))) })
			if (round+n)%2 == 0 {
				p.Kill9()
			} else {
				p.Stop()
			}
			p.Env = append(p.Env, logStoreEnv+store)
			p.Start()
			l.WaitVoters(3)
		}
		load.Stop()
		load.Verify(l.WaitLeader())
		l.WaitSame()
	}
}
