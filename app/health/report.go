package health

import (
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/firewall/host"
	"github.com/trivet-ha/trivet/fsm"
)

// hostReport is what a peer tells others about its own host with every probe.
type hostReport struct {
	Guarded  bool           `json:"guarded"`            // it filters PXE
	WriteMS  float64        `json:"write_ms,omitempty"` // a write to its log takes so long mostly
	Knows    int            `json:"knows,omitempty"`    // newest log version of its binary; 0: of v0.2.0 or earlier
	Door     api.Door       `json:"door"`
	Address  api.FloatingIP `json:"floating_ip"`
	Warnings []api.Warning  `json:"warnings,omitempty"`
}

// reportBytes bounds the warnings in a report: a report that is larger goes
// without them.
const reportBytes = 64 << 10

// report is what this peer reports about its host, JSON, for as long as several probes
// of one interval may share it.
type report struct {
	mu   sync.Mutex
	made time.Time
	text json.RawMessage
}

// Report returns what this peer tells others about its host, JSON.
func (s *Self) Report() json.RawMessage {
	s.report.mu.Lock()
	defer s.report.mu.Unlock()
	if now := time.Now(); now.Sub(s.report.made) > cluster.ContactEvery/2 {
		s.report.made, s.report.text = now, encodeReport(s.hostReport(s.Members.Log.View()))
	}
	return s.report.text
}

func encodeReport(r hostReport) json.RawMessage {
	text, err := json.Marshal(r)
	if err == nil && len(text) > reportBytes {
		r.Warnings = nil
		text, err = json.Marshal(r)
	}
	if err != nil {
		return nil // no value of these types is known that JSON cannot have
	}
	return text
}

func (s *Self) hostReport(v fsm.View) hostReport {
	return hostReport{Guarded: s.Door.Driver != host.Noop, Knows: fsm.Version,
		WriteMS: millis(s.Members.Log.Stats().WriteTook),
		Door:    s.Door.pass(v), Address: s.Door.floating(v),
		Warnings: s.hostWarnings(v)}
}

// millis is a duration in milliseconds, to the hundredth.
func millis(d time.Duration) float64 { return math.Round(float64(d)/1e4) / 100 }

// hostWarnings are what is wrong on this host, as far as this peer knows.
func (s *Self) hostWarnings(v fsm.View) []api.Warning {
	all := slices.Concat(s.peerWarnings(v), s.More.Keys(v), s.More.Backups(), s.Door.warnings(v),
		s.Address.warnings(s.Door.Address),
		s.Kube.warnings(v), s.More.Components(), s.More.Receivers(), s.More.Configuration(), s.More.Ramdisks(),
		logWarnings(s.More.Stream), diskWarnings(s.Ballast.State(), s.Facts.Directory))
	for i := range all {
		all[i].Hosts = []string{s.Members.Self.Name}
	}
	return all
}

// reports returns the host reports of all members that answer, this peer's among
// them, by server ID.
func (s *Self) reports(v fsm.View) map[string]hostReport {
	out := map[string]hostReport{s.Members.Self.ID: s.hostReport(v)}
	for _, m := range v.Members() {
		text, ok := s.Members.Contacts.Answers(m.ID)
		var r hostReport
		if ok && len(text) > 0 && json.Unmarshal(text, &r) == nil {
			out[m.ID] = r
		}
	}
	return out
}

// clusterWide says which warnings every peer gives from the same entries of the
// log, in words that may differ by a second: the peer that is asked gives them.
func clusterWide(code string) bool {
	switch code {
	case "ca_ends", "gossip_rotation", "no_port_list", "old_port_list", "failover_unfenced", "failover_stuck",
		"failover_left_open", "failover_paused":
		return true
	}
	return false
}

// merged puts the warnings of all hosts together: this peer's first, then those of
// the others by name. What several hosts say in the same words is one warning.
func merged(v fsm.View, self string, reports map[string]hostReport) []api.Warning {
	out := slices.Clone(reports[self].Warnings)
	for i := range out {
		if clusterWide(out[i].Code) {
			out[i].Hosts = nil
		}
	}
	for _, m := range byName(v.Members()) {
		if m.ID == self {
			continue
		}
		for _, w := range reports[m.ID].Warnings {
			w.Hosts = []string{m.Name} // not what the other one calls itself
			same := slices.IndexFunc(out, func(o api.Warning) bool {
				return o.Code == w.Code && (clusterWide(w.Code) || o.Text == w.Text && o.Remedy == w.Remedy)
			})
			switch {
			case same < 0:
				out = append(out, w)
			case out[same].Hosts != nil:
				out[same].Hosts = append(out[same].Hosts, m.Name)
			}
		}
	}
	return out
}
