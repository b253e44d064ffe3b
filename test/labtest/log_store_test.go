//go:build e2e

package labtest

import "testing"

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
