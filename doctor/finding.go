package doctor

import (
	"cmp"
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

// Check looks for one kind of fault.
type Check struct {
	Name string
	Help string // what it finds, in a sentence

	judge func(hosts []Facts) []Finding // of hosts that said something
}

// Checks returns all checks, in the order in which people should mend things.
func Checks() []Check {
	return []Check{
		peersCheck(), configCheck(), filterCheck(), dhcpCheck(), poolsCheck(), rawCheck(), inputCheck(), addressCheck(), bootCheck(),
		portsCheck(), diskCheck(), clockCheck(), limitsCheck(), servicesCheck(), rightsCheck(), certificatesCheck(), buildsCheck(),
	}
}

// Judge lets the checks with the given names, or all, look at the facts of all
// hosts. The worst findings come first. An unknown name is an error.
func Judge(hosts []Facts, names []string) ([]Finding, error) {
	checks := Checks()
	for _, name := range names {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("there is no check %q; it is one of %s", name, strings.Join(checkNames(checks), ", "))
		}
	}
	known := slices.DeleteFunc(slices.Clone(hosts), func(f Facts) bool { return f.Error != "" })
	var out []Finding
	for _, c := range checks {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		look := known
		if c.Name == checkPeers {
			look = hosts // those that say nothing are what it looks for
		}
		found := append(c.judge(look), gaps(known, c.Name)...)
		for i := range found {
			found[i].Check = c.Name
		}
		for _, f := range found {
			if !slices.ContainsFunc(out, f.reported) {
				out = append(out, f)
			}
		}
	}
	out = merged(out)
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return out, nil
}

// reported says whether another check found the same fault before.
func (f Finding) reported(before Finding) bool {
	return f.fault != "" && f.fault == before.fault && f.Peer == before.Peer
}

// merged makes one finding of those that say the same of several hosts.
func merged(all []Finding) []Finding {
	var out []Finding
	for _, f := range all {
		i := slices.IndexFunc(out, func(o Finding) bool {
			return o.Check == f.Check && o.Severity == f.Severity && o.Text == f.Text && slices.Equal(o.Remedy, f.Remedy)
		})
		if i < 0 {
			out = append(out, f)
			continue
		}
		if hosts := out[i].Hosts(); !slices.Contains(hosts, f.Peer) {
			out[i].Peers = append(slices.Clone(hosts), f.Peer)
		}
	}
	return out
}

func checkNames(checks []Check) []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.Name
	}
	return names
}

// gaps tells what could not be looked at.
func gaps(hosts []Facts, check string) []Finding {
	var out []Finding
	for _, f := range hosts {
		for _, g := range f.Gaps {
			if g.Check == check {
				out = append(out, Finding{Severity: Info, Peer: f.Peer, Text: "not looked at: " + g.What})
			}
		}
	}
	return out
}

// as names the fault of a finding; see [Finding].
func (f Finding) as(format string, args ...any) Finding {
	f.fault = fmt.Sprintf(format, args...)
	return f
}

// found makes a finding on a host.
func found(s Severity, f Facts, remedy []string, format string, args ...any) Finding {
	return Finding{Severity: s, Peer: f.Peer, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}
