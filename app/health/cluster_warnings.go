package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/doctor"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/raftstore"
)

// recoverAfter is for how long a majority must have been silent before status
// mentions 'trivet recover', which may lose what only the silent peers know.
const recoverAfter = time.Minute

// clusterWarnings are what is wrong with the cluster as a whole, as this peer
// knows it. former is where the others still look for this peer, if it has
// another address now.
func clusterWarnings(s api.Status, former string) []api.Warning {
	var out warningList
	for _, p := range s.Peers {
		if p.Live || p.Self && s.Leader == "" {
			continue
		}
		out = append(out, api.Warning{
			Code: "peer_silent", Hosts: []string{p.Name}, Text: fmt.Sprintf("%s %s", p.Name, silence(p.Contact)),
			Remedy: fmt.Sprintf("on %s: 'systemctl status trivet'; does the network between the hosts work? %s", p.Name,
				doctor.AskPeers),
		})
	}
	switch {
	case s.Leader == "":
		text, remedy := withoutLeader(s, former)
		out.add("no_leader", remedy, "no leader: %s", text)
	case s.Quorum.Voters == 2:
		out.add("two_voters", "join a third peer: 'trivet token create'",
			"two voters are worse than one: the cluster stops when either dies")
	case s.Quorum.Voters < wantedVoters:
		out.add("few_voters", "join more peers: 'trivet token create'", "%d voter: nothing may die", s.Quorum.Voters)
	case s.Quorum.CanLose == 0:
		var silent []string
		for _, p := range s.Peers {
			if p.Voter && !p.Live {
				silent = append(silent, p.Name)
			}
		}
		missing := joinNames(silent)
		out.add("no_margin", fmt.Sprintf("bring %s back, or replace it: 'trivet remove', then join", missing),
			"no further voter may be lost: %s does not answer", missing)
	}
	return out
}

// silence says for how long a peer was not heard.
func silence(c api.Contact) string {
	age := time.Duration(c.ContactMS) * time.Millisecond
	if c.NeverHeard {
		return fmt.Sprintf("not heard since this peer started %v ago", age.Round(time.Second))
	}
	if age < 10*time.Second {
		return fmt.Sprintf("silent for %.1f s", age.Seconds())
	}
	return fmt.Sprintf("silent for %v", age.Round(time.Second))
}

// withoutLeader says why there is no leader, as far as this peer can know, and
// what to do.
func withoutLeader(s api.Status, former string) (text, remedy string) {
	var silent, long []string
	others := 0
	for _, p := range s.Peers {
		if !p.Voter || p.Self {
			continue
		}
		others++
		if p.Live {
			continue
		}
		silent = append(silent, p.Name)
		if p.ContactMS >= recoverAfter.Milliseconds() {
			long = append(long, p.Name)
		}
	}
	votes := fmt.Sprintf("%d of %d voters answer, %d are needed", s.Quorum.Live, s.Quorum.Voters, s.Quorum.Need)
	switch {
	case s.Quorum.Live >= s.Quorum.Need:
		return "an election is under way; " + votes,
			"wait some seconds; if it lasts, 'trivet doctor' and the log of each peer: 'journalctl -u trivet'"
	case former != "":
		return fmt.Sprintf("the address of this host has changed, and the other peers still look for it at %s; %s", former,
				votes),
			"if the others' addresses have changed, too: give one host its old address back until the others have told it theirs ('A host with another address' in docs/peers.md); " +
				doctor.AskPeers
	case s.Quorum.Voters-len(long) < s.Quorum.Need:
		return votes + "; " + joinNames(long) + " silent for more than a minute",
			"bring " + joinNames(long) + " back; for a majority lost for ever see 'trivet recover --help'"
	case len(silent) == others:
		return "no other voter answers this host; " + votes,
			doctor.AskPeers + "; do the peers on " + joinNames(silent) + " run?"
	default:
		return votes, "bring " + joinNames(silent) + " back; " + doctor.AskPeers
	}
}

// formerAddress returns where the others still look for a peer, by the raft
// configuration that it knows, "" if that is where it is.
func formerAddress(servers []raftstore.Server, id datadir.Identity) string {
	for _, srv := range servers {
		if _, address, ok := strings.Cut(srv.Address, "@"); ok && srv.ID == id.ID && address != id.Address {
			return address
		}
	}
	return ""
}

// joinNames joins names as a sentence does.
func joinNames(names []string) string {
	switch n := len(names); n {
	case 0:
		return "the missing peers"
	case 1:
		return names[0]
	default:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

func byName(members []membership.Member) []membership.Member {
	slices.SortStableFunc(members, func(a, b membership.Member) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return members
}

// suspicionWarnings tell of an implausible list of Ironic's nodes, or of its ports.
func suspicionWarnings(v fsm.View) []api.Warning {
	var out warningList
	const remedy = "if that is right: 'trivet node sync --confirm'"
	if suspicion, ok := v.SyncSuspicion(); ok {
		out.add("sync_suspicion", remedy, "no node is deleted: %s", suspicion.Reason)
	}
	if suspicion, ok := v.PortSuspicion(); ok {
		out.add("sync_suspicion", remedy, "no MAC leaves the blacklist of the PXE filter: %s", suspicion.Reason)
	}
	return out
}
