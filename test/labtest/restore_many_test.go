//go:build e2e

package labtest

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/test/testenv"
	"github.com/trivet-ha/trivet/test/testwait"
)

// Of TestRestoreOfManyMachines, and of its long form.
const (
	restoredMachines, restoredMachinesLong = 500, 10_000
	restoreKills, restoreKillsLong         = 5, 50
)

// inventoryBytes is the size of one machine's document.
const inventoryBytes = 30_000

// grown reads a snapshot and writes it again with so many introspected machines more,
// each with a document of its own.
func grown(t *testing.T, file string, machines int) {
	t.Helper()
	f, err := os.Open(file)
	testenv.Must(t, err)
	defer f.Close()
	state, err := fsm.Read(f)
	testenv.Must(t, err)
	packer, err := blobs.NewPacker(1, nil)
	testenv.Must(t, err)
	index := state.View().Index()
	apply := func(h fsm.Header, c fsm.Command) fsm.Result {
		data, err := fsm.Encode(h, c)
		testenv.Must(t, err)
		index++
		res := state.Apply(fsm.Entry{Index: index, Term: 1, Data: data})
		testenv.Must(t, res.Err())
		return res
	}
	session := apply(fsm.Header{},
		membership.OpenSession{Peer: state.View().Members()[0].ID, Boot: "snapshot", Version: fsm.Version}).Token
	for n := range machines {
		node, mac := fmt.Sprintf("00000000-0000-4000-9000-%012x", n),
			fmt.Sprintf("52:54:01:%02x:%02x:%02x", n>>16, n>>8&255, n&255)
		doc, err := packer.Pack(inventoryOf(n))
		testenv.Must(t, err)
		apply(fsm.Header{}, introspection.Start{Node: node, Event: introspection.EventAdopt, Timeout: time.Hour,
			Attributes: introspection.Attributes{MACs: []string{mac}}})
		apply(fsm.Header{}, introspection.Enqueue{Node: node, Event: introspection.EventProcess, Document: doc})
		var claimed introspection.Claimed
		for q := range state.View().Ready() {
			testenv.Must(t, apply(fsm.Header{Session: session},
				introspection.ClaimRequests{Requests: []fencing.Token{q.Sequence}}).Decode(&claimed))
		}
		for _, step := range []introspection.Advance{{Event: introspection.EventProcess, Unprocessed: doc.Hash},
			{Event: introspection.EventFinish, Consume: true}} {
			step.Claim = claimed.Claims[0].Claim.Hold()
			apply(fsm.Header{Session: session}, step)
		}
	}
	out, err := os.Create(file)
	testenv.Must(t, err)
	size, err := state.View().WriteTo(out)
	testenv.Must(t, err)
	testenv.Must(t, out.Close())
	t.Logf("%d machines: %d MiB", machines, size>>20)
}

// inventoryOf is a document that compresses as a ramdisk's does: its keys repeat, its
// values do not.
func inventoryOf(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"inventory": {"interfaces": [`)
	for i := 0; b.Len() < inventoryBytes; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d-%d", n, i))
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b,
			`{"name": "eth%d", "mac_address": "%x", "has_carrier": true, "lldp": [[1, "%x"]], "vendor": "0x8086", "client_id": null}`,
			i, sum[:6], sum[6:])
	}
	b.WriteString(`]}}`)
	return []byte(b.String())
}

// TestRestoreOfManyMachines kills the process that restores a large backup at random
// moments. Each time the host has a whole state, and in the end the restore succeeds,
// the others join again, and every machine of the backup is there on all three.
func TestRestoreOfManyMachines(t *testing.T) {
	t.Parallel()
	machines, kills := longer(restoredMachines, restoredMachinesLong), longer(restoreKills, restoreKillsLong)
	l := Three(t)
	leader := l.WaitLeader()
	file := filepath.Join(l.dir, "large.snap")
	leader.Must("snapshot", "save", file, leader.On())
	before := l.token(leader)
	grown(t, file, machines)
	founder := l.Peers[0]
	for _, p := range l.Peers {
		p.Stop()
	}
	began := time.Now()
	founder.Must("snapshot", "restore", file, founder.Flags())
	whole := time.Since(began)
	rng := rand.New(rand.NewPCG(1, uint64(machines)))
	finished := 0
	for range kills {
		cmd := founder.command(append([]string{"snapshot", "restore", file}, founder.Flags()...)...)
		testenv.Must(t, cmd.Start())
		testwait.Elapse(t, time.Duration(rng.Int64N(int64(whole))), "the restore goes on for a while")
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil { // it has ended
			finished++
		}
		_ = cmd.Wait() // killed, or done
		// Each state that there is, is whole: it can be read, and founded from again.
		founder.Must("recover", "--dry-run", founder.Flags())
	}
	began = time.Now()
	founder.Must("snapshot", "restore", file, founder.Flags())
	founder.Start()
	l.WaitLeader()
	for _, p := range l.Peers[1:] {
		p.joinAnew(founder)
	}
	l.WaitVoters(3)
	for _, p := range l.Peers {
		await(l.t, time.Minute, p.Name+" has the state", p.Status, func(s api.Status) bool {
			return s.Introspections["finished"] == machines
		})
	}
	t.Logf(
		"restored in %v; killed %d times at random in that time, %d of them after its end; from stopped to three voters with the state: %v",
		whole.Round(time.Millisecond), kills, finished, time.Since(began).Round(time.Millisecond))
	if now := l.token(l.WaitLeader()); now <= before {
		t.Errorf("token %d after the restores, %d before: it must rise", now, before)
	}
	if old, err := filepath.Glob(filepath.Join(founder.Dir, "before-restore-*")); err != nil || len(old) == 0 {
		t.Errorf("no old state is left: %v", err)
	}
	founder.Must("datadir", "clean", founder.Flags())
}
