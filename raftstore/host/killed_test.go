//go:build e2e

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// kills is how many processes are killed, unless TRIVET_E2E_KILLS says otherwise.
const kills = 100

// TestMain has this binary be the process that is killed as well.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "write" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestNothingIsLostWhenKilled kills a process again and again while it opens the log, writes entries,
// terms and snapshots, deletes what these cover, stops, and opens the log the other way. What it had
// reported is there each time.
func TestNothingIsLostWhenKilled(t *testing.T) {
	count := kills
	if text := os.Getenv("TRIVET_E2E_KILLS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	st, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Seed(st, foundedState(t), self), st.Close()); err != nil {
		t.Fatal(err)
	}
	r := mathrand.New(mathrand.NewPCG(1, 1))
	var reported, term uint64
	writes := 0
	for n := range count {
		names := [...]string{"bolt", "wal"}
		last, lastTerm := killedWriter(t, dir, names[r.IntN(2)], r)
		if last > reported {
			writes++
		}
		reported, term = max(reported, last), max(term, lastTerm)
		st, err := ways[names[r.IntN(2)]](dir)
		if err != nil {
			t.Fatalf("acknowledged-entry-lost: kill %d: %v", n, err)
		}
		h, err := Replay(st)
		if err != nil {
			t.Fatalf("acknowledged-entry-lost: kill %d: %v", n, err)
		}
		isTerm, err := st.Stable.GetUint64([]byte("CurrentTerm"))
		if err != nil && err.Error() != "not found" || h.Last < reported || isTerm < term {
			t.Fatalf("acknowledged-entry-lost: kill %d: entry %d of %d, term %d of %d: %v", n, h.Last, reported, isTerm, term,
				err)
		}
		if s, ok := h.State.View().Setting("last"); reported > 0 && (!ok || s.Value != fmt.Sprint(h.Last)) {
			t.Fatalf("acknowledged-entry-lost: kill %d: the state is that of entry %v of %d", n, s.Value, h.Last)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if writes < count/4 {
		t.Errorf("of %d processes, %d wrote something", count, writes)
	}
}

// killedWriter runs a process that writes, kills it while it opens the log or moments after one of its
// reports, and returns what it had reported.
func killedWriter(t *testing.T, dir, way string, r *mathrand.Rand) (last, term uint64) {
	t.Helper()
	c := exec.Command(os.Args[0], "write", dir, way)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// it may have ended by itself, which is noticed below
	kill := time.AfterFunc(time.Hour, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	reports := r.IntN(300) // the log is opened again after 200
	if r.IntN(3) == 0 {
		kill.Reset(time.Duration(r.IntN(40)) * time.Millisecond)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); reports-- {
		if reports == 0 {
			kill.Reset(time.Duration(r.IntN(3000)) * time.Microsecond)
		}
		if _, err := fmt.Sscan(lines.Text(), &last, &term); err != nil && err != io.EOF {
			break // a line that was cut short
		}
	}
	err = c.Wait()
	if c.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process that writes ended by itself: %v", err)
	}
	return last, term
}

// writeUntilKilled writes to the log in dir, and reports the newest entry and term after each write.
func writeUntilKilled(dir, way string) error {
	for {
		st, err := ways[way](dir)
		if err != nil {
			return err
		}
		if err := errors.Join(writeSome(st), st.Close()); err != nil {
			return err
		}
	}
}

// writeSome does what a peer does in its life.
func writeSome(st raftstore.Storage) error {
	h, err := Replay(st)
	if err != nil {
		return err
	}
	term, err := st.Stable.GetUint64([]byte("CurrentTerm"))
	if err != nil && err.Error() != "not found" {
		return err
	}
	log := raftguard.NewLog(st.Log)
	begin := h.Last
	for index := begin + 1; index < begin+200; index++ {
		data, err := fsm.Encode(fsm.Header{}, settings.PutSetting{Key: "last", Value: fmt.Sprint(index)})
		if err != nil {
			return err
		}
		err = log.StoreLog(&raft.Log{Index: index, Term: 2, Type: raft.LogCommand, Data: data})
		if err == nil && index%40 == 0 {
			term++
			err = st.Stable.SetUint64([]byte("CurrentTerm"), term)
		}
		if err == nil && index%70 == 0 {
			if err = snapshotAt(st, index); err == nil {
				err = log.DeleteRange(1, index-10)
			}
		}
		if err != nil {
			return err
		}
		fmt.Println(index, term)
	}
	return nil
}
