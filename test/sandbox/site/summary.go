package site

import (
	"errors"
	"fmt"
	"strings"

	"github.com/trivet-ha/trivet/client"
)

// maxNamed is how many nodes a complaint names one by one.
const maxNamed = 5

// Summary is what became of the nodes. The names are part of the interface.
type Summary struct {
	Accepted          int   `json:"accepted"` // distinct nodes whose start was
	Finished          int   `json:"finished"`
	Error             int   `json:"error"`
	Stuck             int   `json:"stuck"`               // neither, long after their time
	Failovers         int   `json:"failovers"`           // leaders killed and replaced
	SlowestFailoverMS int64 `json:"slowest_failover_ms"` // from the death to the first write
	Restarted         int   `json:"restarted"`           // starts of nodes that a dead peer had taken along
	PXEOpenOnTwo      int   `json:"pxe_open_on_two"`     // how often two hosts' PXE services were open
	SlowestPXEGapMS   int64 `json:"slowest_pxe_gap_ms"`  // from the closing of a PXE service to the next opening
}

func (s *Sandbox) summary() Summary {
	p := s.Progress()
	gap, double := s.peers.service()
	return Summary{
		Accepted: p.Accepted, Finished: p.States[client.StateFinished], Error: p.States[client.StateError], Stuck: p.Stuck,
		Failovers: p.Failovers, SlowestFailoverMS: s.peers.slowest().Milliseconds(), Restarted: p.Restarted,
		PXEOpenOnTwo: double, SlowestPXEGapMS: gap.Milliseconds(),
	}
}

// promise says whether promise 2 was broken.
func (s Summary) promise() error {
	if s.PXEOpenOnTwo > 0 {
		return fmt.Errorf("the PXE services of two hosts were open at once, %d times", s.PXEOpenOnTwo)
	}
	return nil
}

// verdict says what did not go as it should: a node that is stuck, was not
// taken, or ended as it should not. Of a run that somebody ended, nodes on
// their way are none of that.
func (l *load) verdict(interrupted bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var wrong []string
	for _, w := range l.wards {
		if why := w.wrong(interrupted); why != "" {
			wrong = append(wrong, w.uuid+" "+why)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	text := strings.Join(wrong[:min(len(wrong), maxNamed)], "\n")
	if more := len(wrong) - maxNamed; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return errors.New(text)
}

// wrong says what is the matter with a node, "" if nothing is.
func (w *ward) wrong(interrupted bool) string {
	switch state := w.seen.State; {
	case w.stuck:
		return fmt.Sprintf("is stuck in %s", state)
	case interrupted && !w.seen.Ended():
		return ""
	case w.refused != nil:
		return fmt.Sprintf("was not taken: %v", w.refused)
	case w.silent && state == client.StateError && strings.Contains(w.seen.Why(), timedOut),
		!w.silent && state == client.StateFinished:
		return ""
	default:
		return fmt.Sprintf("ended in %s: %s", state, w.seen.Why())
	}
}
