package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Severity is how bad a finding is.
type Severity string

// The severities. Errors and warnings want a person; what is told for
// information is right as it is, or could not be looked at.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// rank orders severities, the worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Info}, s) }

// Finding is one thing that is not as it should be.
type Finding struct {
	Severity Severity `json:"severity"`
	Check    string   `json:"check"`
	Peer     string   `json:"peer"` // on whose host; of several the first
	// Peers are all hosts on which the same was found, if they are several.
	Peers []string `json:"peers,omitempty"`
	Text  string   `json:"text"`
	// Remedy are lines to paste, on each of these hosts unless they say
	// otherwise; those that begin with # are for people.
	Remedy []string `json:"remedy,omitempty"`

	// fault names what is wrong on the host, where two checks may find it: the
	// first that looks reports it. "" is a fault of one check alone.
	fault string
}

// Hosts are the names of the hosts that it was found on.
func (f Finding) Hosts() []string {
	if len(f.Peers) > 0 {
		return f.Peers
	}
	return []string{f.Peer}
}

// Advice is the remedy in one line, for people.
func (f Finding) Advice() string {
	var lines []string
	for _, line := range f.Remedy {
		lines = append(lines, strings.TrimPrefix(line, "# "))
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

// reported says whether another check found the same fault before.
func (f Finding) reported(before Finding) bool {
	return f.fault != "" && f.fault == before.fault && f.Peer == before.Peer
}

// withFault names the fault of a finding; see [Finding].
func (f Finding) withFault(format string, args ...any) Finding {
	f.fault = fmt.Sprintf(format, args...)
	return f
}

// newFinding makes a finding on a host.
func newFinding(s Severity, f Facts, remedy []string, format string, args ...any) Finding {
	return Finding{Severity: s, Peer: f.Peer, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}
