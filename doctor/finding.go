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
	Peer     string   `json:"peer"` // on whose host
	Text     string   `json:"text"`
	// Remedy are lines to paste, on that host unless they say otherwise; those
	// that begin with # are for people.
	Remedy []string `json:"remedy,omitempty"`
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
		peersCheck(), configCheck(), filterCheck(), poolsCheck(), rawCheck(), inputCheck(), addressCheck(), bootCheck(),
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
		out = append(out, found...)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	return out, nil
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

// found makes a finding on a host.
func found(s Severity, f Facts, remedy []string, format string, args ...any) Finding {
	return Finding{Severity: s, Peer: f.Peer, Text: fmt.Sprintf(format, args...), Remedy: remedy}
}
