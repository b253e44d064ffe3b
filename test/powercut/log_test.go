//go:build e2e

package powercut

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/internal/pace"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// writers propose at once, so that entries share batches.
const writers = 8

// ofTheLog cuts the power while raft writes entries, terms, votes and snapshots, deletes the
// log that these cover, stops, and starts with the other log store.
func ofTheLog(t *testing.T, sum *tally) {
	for _, life := range [][]string{{"bolt", "wal"}, {"wal", "bolt"}, {"wal", "wal"}} {
		t.Run(strings.Join(life, " then "), func(t *testing.T) {
			dir, traces := filepath.Join(t.TempDir(), "raft"), t.TempDir()
			makeLog(t, dir)
			r, err := Start(strings.Join(life, " then "), dir)
			if err != nil {
				t.Fatal(err)
			}
			for run, store := range life {
				recordLog(t, traces, dir, store, run*entriesEach, entriesEach)
			}
			if err := r.Read(traces); err != nil {
				t.Fatal(err)
			}
			sum.cutAll(t, r, sum.wanted, JudgeLog)
			sum.cutAgain(t, r, life[0])
		})
	}
}

// cutAgain cuts the power twice: while a process starts on what the first power cut has left, and writes.
func (sum *tally) cutAgain(t *testing.T, r *Recording, store string) {
	t.Helper()
	const each, of = 30, 3 * 30
	n := 0
	_, err := r.Cuts(of, sum.seed+1, t.TempDir(), func(c Cut, dir string, claims Claims) {
		if n++; n%each != each/2 {
			return
		}
		traces := t.TempDir()
		again, err := Start(c.String()+", and again", dir)
		if err != nil {
			t.Fatal(err)
		}
		var said []Said
		for name, value := range claims { // order-free: all at once
			said = append(said, Said{Name: name, Value: value})
		}
		recordLog(t, traces, dir, store, 10*entriesEach, 40)
		if err := again.Read(traces, said...); err != nil {
			t.Fatal(err)
		}
		sum.cutAll(t, again, sum.wanted/3, JudgeLog)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// recordLog records a process that writes so many numbers to the log.
func recordLog(t *testing.T, traces, dir, store string, from, count int) {
	t.Helper()
	c := exec.Command(script(t, traces, "store", "write"), "write", store, fmt.Sprint(from), fmt.Sprint(count),
		"--data-dir", dir)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	ended(t, traces)
}

// makeLog makes the log of a cluster of one, which is on the disk.
func makeLog(t *testing.T, dir string) {
	t.Helper()
	state, err := fsm.Founded(fsm.Found{
		ClusterID: "11111111-2222-4333-8444-555555555555", CACert: []byte("-----BEGIN X"), CAKey: []byte("-----BEGIN X"),
		GossipKey: make([]byte, membership.GossipKeySize),
		Member:    membership.Member{ID: alone, Name: "h1", Address: "192.0.2.1:7350", Version: fsm.Version},
	}, time.UnixMilli(1))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	st, err := host.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := raftstore.Server{ID: alone, Address: alone + "@192.0.2.1:7350", Voter: true}
	if err := errors.Join(host.Seed(st, state, server), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// alone is the only voter's server ID.
const alone = "a"

// nobody is a network without other peers.
type nobody struct {
	closed context.Context
	close  context.CancelFunc
}

func (n nobody) AcceptPeer() (net.Conn, string, error) {
	<-n.closed.Done()
	return nil, "", net.ErrClosed
}

func (n nobody) DialPeer(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("there is no other peer")
}
func (n nobody) Authorize(string) error { return nil }
func (n nobody) Close() error           { n.close(); return nil }

// entriesEach are those of one process: more than raft keeps behind a snapshot, and more than the
// files of the write-ahead log hold.
const entriesEach = 1600

// writeLog is a peer's raft: it leads, writes entries and snapshots, and stops. Its arguments are the verb,
// the store, the number before the first that is written, how many are, and --data-dir with the folder.
func writeLog(args []string) error {
	store, dir := args[1], args[5]
	var from, count int
	if _, err := fmt.Sscan(args[2]+" "+args[3], &from, &count); err != nil {
		return err
	}
	open := host.Open
	if store == "wal" {
		open = func(dir string) (raftstore.Storage, error) { return host.OpenWAL(dir, rand.Reader) }
	}
	st, err := open(dir)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	var n nobody
	n.closed, n.close = context.WithCancel(context.Background())
	s, err := raftstore.Open(raftstore.Options{
		ID: alone, Storage: st, Transport: host.NewTransport(n, alone+"@192.0.2.1:7350", quiet), Timing: raftstore.Fast(),
		Logger: quiet, Wall: time.Now, Monotonic: host.Monotonic, Fatal: func(err error) { panic(err) },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = lead(ctx, s)
	for at := from; err == nil && at < from+count; at += count / 4 {
		if err = propose(ctx, s, at, at+count/4); err == nil && at != from {
			err = s.Snapshot(ctx)
		}
	}
	return errors.Join(err, s.Close(ctx))
}

// lead waits until the peer leads, and tells its term.
func lead(ctx context.Context, s *raftstore.Store) error {
	for {
		_, err := s.Lead(ctx, fsm.Lead{Peer: alone, Boot: fmt.Sprint(os.Getpid()), Version: fsm.Version})
		if err == nil {
			fmt.Println(Claim("term", s.Stats().Term))
			return nil
		}
		if !pace.Wait(ctx, 10*time.Millisecond) {
			return err
		}
	}
}

// propose has writers write numbers at once, and tells what was acknowledged.
func propose(ctx context.Context, s *raftstore.Store, from, to int) error {
	errs := make([]error, writers)
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			key := fmt.Sprintf("w%d", w)
			for n := from + 1; n <= to && errs[w] == nil; n++ {
				if n%writers != w {
					continue
				}
				text := fmt.Sprintf("%d %s", n, strings.Repeat("x", n*37%2800))
				res, err := s.Propose(ctx, fsm.Header{}, settings.PutSetting{Key: key, Value: text})
				if errs[w] = errors.Join(err, res.Err()); errs[w] == nil {
					fmt.Println(Claim("value/"+key, uint64(n)))
				}
			}
		})
	}
	done.Wait()
	return errors.Join(errs...)
}
