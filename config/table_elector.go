package config

import (
	"fmt"
	"strings"
)

// Elector is the section of the leader endpoint. Nothing listens while Listen is
// empty.
type Elector struct {
	Listen     []string `key:"listen"`     // raft or lease:NAME, and =ADDRESS:PORT unless that is defaultElection
	Identities []string `key:"identities"` // NAME=IDENTITY each
}

// defaultElection is where an election is answered about that names no address: the
// port of leader-elector's own example.
const defaultElection = "127.0.0.1:4040"

// Election is one that this peer answers about.
type Election struct {
	Name   string // as it is written: raft, or lease:NAME
	Lease  string // "": who leads Trivet
	Listen string
}

// Elections lists them in the order of the configuration.
func (e Elector) Elections() []Election {
	var out []Election
	for _, item := range e.Listen {
		if election, ok := parseElection(item); ok {
			out = append(out, election)
		}
	}
	return out
}

// Called is the map of Identities.
func (e Elector) Called() map[string]string {
	out := make(map[string]string)
	for _, item := range e.Identities {
		name, identity, _ := strings.Cut(item, "=")
		out[name] = identity
	}
	return out
}

var electorOptions = []Option{
	{Key: "elector.listen", Change: AtRestart, Extent: MostHosts,
		rule: pairs(electionForm, func(item string) bool { _, ok := parseElection(item); return ok }),
		Help: "Elections that this peer answers about over HTTP, as leader-elector did: raft names the peer that leads, lease:NAME the holder of a lease. Each has an address of its own, as in raft=127.0.0.1:16401; without one it is 127.0.0.1:4040. Empty: off."},
	{Key: "elector.identities", Change: AtRestart, Extent: AllHosts,
		rule: pairs("NAME=IDENTITY",
			named(ValidHostName, func(identity string) bool { return identity != "" && len(identity) <= 253 })),
		Help: "What raft calls peers whose name is not what a program on their host compares with, as in h1=node-1.example.org. Others are called by their names."},
}

const electionForm = "raft, raft=ADDRESS:PORT, lease:NAME or lease:NAME=ADDRESS:PORT"

func parseElection(item string) (e Election, ok bool) {
	e.Name, e.Listen, ok = strings.Cut(item, "=")
	if !ok {
		e.Listen = defaultElection
	}
	if listenAddress().checkValue(e.Listen) != nil {
		return e, false
	}
	if e.Name == "raft" {
		return e, true
	}
	e.Lease, ok = strings.CutPrefix(e.Name, "lease:")
	return e, ok && isName(e.Lease, kubeLetters+".", "-.", 253) // as the log takes it
}

// checkElector finds elections that cannot be answered about.
func (r *review) checkElector() {
	for _, e := range r.Elector.Elections() {
		r.when(e.Lease != "" && !r.Lease.Enabled, "elector.listen",
			fmt.Sprintf("no candidate can hold %s: the API lends no leases", e.Name), "write lease.enabled: true")
	}
	seen := make(map[string]bool)
	for _, item := range r.Elector.Identities {
		name, _, _ := strings.Cut(item, "=")
		r.when(seen[name], "elector.identities", name+" is called twice", "remove one")
		seen[name] = true
	}
}

// Lease is the section of what other programs borrow.
type Lease struct {
	Enabled bool `key:"enabled"`
}

var leaseOptions = []Option{
	{Key: "lease.enabled", Change: AtRestart, Extent: AllHosts, Default: "false",
		Help: "Whether the API lends leases, values and places in groups to other programs: /v1/leases, /v1/kv, /v1/groups."},
}
