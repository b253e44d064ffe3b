package inspector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/introspection"
)

// cabinet is a LogKeeper.
type cabinet struct {
	always bool
	err    error

	mu   sync.Mutex
	kept []RamdiskLogs
}

func (s *cabinet) Wants(failed bool) bool { return failed || s.always }

func (s *cabinet) Keep(logs RamdiskLogs) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, logs)
	return fmt.Sprintf("/logs/%d", len(s.kept)), s.err
}

// Logs are kept where the callback came in, of what failed and, if asked for, of
// what did not; every peer can say where.
func TestRamdiskLogs(t *testing.T) {
	const with = `,"boot_interface":"01-52-54-00-00-00-0A","logs":"eA=="`
	for _, c := range []struct {
		name    string
		cabinet *cabinet
		hook    error
		body    string
		want    []RamdiskLogs
		noted   string
		status  int
	}{
		{"failed", &cabinet{}, Failed("bad"), callback(macA, with), []RamdiskLogs{{Node: nodeA, MAC: macA, Base64: "eA=="}}, "h1:/logs/1", 400},
		{"well", &cabinet{}, nil, callback(macA, with), nil, "", 200},
		{"always", &cabinet{always: true}, nil, callback(macA, with), []RamdiskLogs{{Node: nodeA, MAC: macA, Base64: "eA=="}}, "h1:/logs/1", 200},
		{"none", &cabinet{}, Failed("bad"), callback(macA, ""), nil, "", 400},
		{"no text", &cabinet{}, Failed("bad"), callback(macA, `,"logs":[1]`), nil, "", 400},
		{"unknown node", &cabinet{}, nil, `{"inventory":{"bmc_address":"198.18.0.7"},"logs":"eA==","boot_interface":"../../etc/x"}`,
			[]RamdiskLogs{{BMC: "198.18.0.7", Base64: "eA=="}}, "", 400},
		{"disk full", &cabinet{err: errors.New("full")}, Failed("bad"), callback(macA, with), []RamdiskLogs{{Node: nodeA, MAC: macA, Base64: "eA=="}}, "", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(o *rig) {
				o.logs = c.cabinet
				o.hooks = []Hook{afterHook{"a", func(context.Context, *Task) error { return c.hook }}}
				s := o.service()
				o.boots(nodeA, macA)
				o.work(func(*WorkerPool) {
					_, err := s.Continue(o.ctx, []byte(c.body))
					var said *Refusal
					if (err == nil) != (c.status == 200) || err != nil && (!errors.As(err, &said) || said.Status != c.status) {
						t.Errorf("answered %v", err)
					}
				})
				if fmt.Sprint(c.cabinet.kept) != fmt.Sprint(c.want) {
					t.Errorf("kept %v, want %v", c.cabinet.kept, c.want)
				}
				rec, _ := o.raftLog.truth().Record(nodeA)
				if kept, ok := s.Logs(rec); ok != (c.noted != "") || ok && kept.String() != c.noted {
					t.Errorf("noted %v, want %q", kept, c.noted)
				}
				if data, ok := o.raftLog.truth().Blob(rec.Unprocessed); ok {
					if raw, err := o.packer.Unpack(data); err != nil || strings.Contains(string(raw), "logs") {
						t.Errorf("the logs are stored with the data: %s, %v", raw, err)
					}
				}
				if rec.Begun++; c.noted != "" {
					if _, ok := s.Logs(rec); ok {
						t.Error("logs of another introspection are named")
					}
				}
			})
		})
	}
}

// What notes of logs take is bounded, and the newest stay.
func TestNotesOfLogsAreBounded(t *testing.T) {
	inRig(t, func(o *rig) {
		s := o.service()
		path := "/var/log/" + strings.Repeat("x", 200)
		const nodes = 3000
		var last introspection.Record
		for i := range nodes {
			node := nodeN(i)
			if i%100 == 0 || i > nodes-3 {
				o.raftLog.must(introspection.Start{Node: node, Event: introspection.EventAdopt, Timeout: time.Hour})
			}
			if err := s.logs.note(o.ctx, node, path); err != nil {
				t.Fatal(err)
			}
			last, _ = o.raftLog.truth().Record(node)
		}
		if kept, ok := s.Logs(last); !ok || kept.Path != path {
			t.Errorf("the last: %v", kept)
		}
		if err := s.logs.note(o.ctx, last.Node, strings.Repeat("x", 5000)); err != nil {
			t.Error(err)
		}
	})
}
