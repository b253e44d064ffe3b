package accept_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/document"
	"github.com/trivet-ha/trivet/inspector/work"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// cabinet is a LogKeeper.
type cabinet struct {
	always bool
	err    error

	mu   sync.Mutex
	kept []inspector.RamdiskLogs
}

func (s *cabinet) Wants(failed bool) bool { return failed || s.always }

func (s *cabinet) Keep(_ context.Context, logs inspector.RamdiskLogs) (string, error) {
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
		want    []inspector.RamdiskLogs
		noted   string
		status  int
	}{
		{"failed", &cabinet{}, document.Failed("bad"), inspecttest.Callback(inspecttest.MacA, with),
			[]inspector.RamdiskLogs{{Node: inspecttest.NodeA, MAC: inspecttest.MacA, Base64: "eA=="}}, "h1:/logs/1", 400},
		{"well", &cabinet{}, nil, inspecttest.Callback(inspecttest.MacA, with), nil, "", 200},
		{"always", &cabinet{always: true}, nil, inspecttest.Callback(inspecttest.MacA, with),
			[]inspector.RamdiskLogs{{Node: inspecttest.NodeA, MAC: inspecttest.MacA, Base64: "eA=="}}, "h1:/logs/1", 200},
		{"none", &cabinet{}, document.Failed("bad"), inspecttest.Callback(inspecttest.MacA, ""), nil, "", 400},
		{"no text", &cabinet{}, document.Failed("bad"), inspecttest.Callback(inspecttest.MacA, `,"logs":[1]`), nil, "", 400},
		{"unknown node", &cabinet{}, nil,
			`{"inventory":{"bmc_address":"198.18.0.7"},"logs":"eA==","boot_interface":"../../etc/x"}`,
			[]inspector.RamdiskLogs{{BMC: "198.18.0.7", Base64: "eA=="}}, "", 400},
		{"disk full", &cabinet{err: errors.New("full")}, document.Failed("bad"), inspecttest.Callback(inspecttest.MacA, with),
			[]inspector.RamdiskLogs{{Node: inspecttest.NodeA, MAC: inspecttest.MacA, Base64: "eA=="}}, "", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			inspecttest.InRig(t, func(o *inspecttest.Rig) {
				o.Logs = c.cabinet
				o.Hooks = []inspector.Hook{inspecttest.After("a", func(context.Context, *inspector.Task) error { return c.hook })}
				s := o.Service()
				o.Boots(inspecttest.NodeA, inspecttest.MacA)
				o.Work(func(*work.Pool) {
					_, err := s.Continue(o.Ctx, []byte(c.body))
					var said *inspector.Refusal
					if (err == nil) != (c.status == 200) || err != nil && (!errors.As(err, &said) || said.Status != c.status) {
						t.Errorf("answered %v", err)
					}
				})
				if fmt.Sprint(c.cabinet.kept) != fmt.Sprint(c.want) {
					t.Errorf("kept %v, want %v", c.cabinet.kept, c.want)
				}
				rec, _ := o.RaftLog.Truth().Record(inspecttest.NodeA)
				if rec.Logs.IsZero() != (c.noted == "") || c.noted != "" && rec.Logs.String() != c.noted {
					t.Errorf("noted %v, want %q", rec.Logs, c.noted)
				}
				if data, ok := o.RaftLog.Truth().Blob(rec.Unprocessed); ok {
					if raw, err := o.Packer.Unpack(data); err != nil || strings.Contains(string(raw), "logs") {
						t.Errorf("the logs are stored with the data: %s, %v", raw, err)
					}
				}
			})
		})
	}
}
