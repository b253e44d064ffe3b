package inspector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
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
				if rec.Logs.IsZero() != (c.noted == "") || c.noted != "" && rec.Logs.String() != c.noted {
					t.Errorf("noted %v, want %q", rec.Logs, c.noted)
				}
				if data, ok := o.raftLog.truth().Blob(rec.Unprocessed); ok {
					if raw, err := o.packer.Unpack(data); err != nil || strings.Contains(string(raw), "logs") {
						t.Errorf("the logs are stored with the data: %s, %v", raw, err)
					}
				}
			})
		})
	}
}
