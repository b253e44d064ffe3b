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
	"github.com/trivet-ha/trivet/fsm/leases"
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

// formerWarnings name the members before a founding that have not joined again. The
// doors wait for those that the present leader has not heard.
func formerWarnings(v fsm.View) []api.Warning {
	var out warningList
	for _, f := range v.FormerMembers() {
		remedy := fmt.Sprintf(
			"'trivet token create' here, then on %s, with its peer stopped, 'trivet join HOST --replace'; if the host is lost for ever, here: 'trivet remove %s'",
			f.Name, f.Name)
		switch {
		case !f.Heard:
			out.add("former_silent", remedy,
				"the present leader has not heard %s as stopped since the cluster was founded again: a closed PXE service and a released floating IP stay so until it has",
				f)
		case f.Became == "":
			out.add("former_member", remedy,
				"%s has not joined again since the cluster was founded again: the next leader has to hear it before PXE opens", f)
		}
	}
	return out
}

// memberFlagWarnings tell of what operators decided and might have forgotten.
func memberFlagWarnings(h ContactView) []api.Warning {
	var resting, may []string
	v := h.view
	for _, m := range v.Voters() {
		switch {
		case v.MemberFlags(m.ID).Maintenance:
			resting = append(resting, m.Name)
		case h.live(m.ID):
			may = append(may, m.Name)
		}
	}
	if len(resting) == 0 {
		return nil
	}
	list := strings.Join(resting, ", ")
	var out warningList
	out.add("maintenance", "when it is over: 'trivet maintenance off "+resting[0]+"'",
		"in maintenance, and so never leading nor working: %s", list)
	switch len(may) {
	case 0:
		out.add("no_peer_may_lead", "'trivet maintenance off' on one of them; there it needs no leader",
			"every voter that lives is in maintenance: none of them will lead")
	case 1:
		out.add("single_peer_may_lead", "'trivet maintenance off', on one of "+list,
			"only %s may lead: should it die, no peer leads until maintenance ends", may[0])
	}
	return out
}

// tableUsage is one table that other programs fill: leases, values, group members. Entries stay,
// free leases above all, and the table fills unnoticed.
type tableUsage struct {
	name, what string
	used, most int
	remedy     string
}

func tableUsages(v fsm.View) []tableUsage {
	return []tableUsage{
		{"leases", "leases, free ones with them", v.LeaseCount(), leases.MaxLeases,
			"have free ones forgotten: 'trivet lease list', 'trivet lease forget NAME'"},
		{"values", "values", v.ValueCount(), leases.MaxValues,
			"find who writes them and have some deleted: GET and DELETE /v1/kv"},
		{"group_members", "members of groups", v.GroupMemberCount(), leases.MaxGroupMembers,
			"find who joins so often: GET /v1/groups/COMPONENT"},
		{"value_bytes", "bytes of values", v.ValueBytes(), leases.MaxValueBytes,
			"find who writes them and have some deleted: GET and DELETE /v1/kv"},
	}
}

func leaseTableWarnings(tables []tableUsage) []api.Warning {
	var out warningList
	for _, l := range tables {
		if 5*l.used > 4*l.most { // more than four fifths are in use
			out.add("lease_table_near_full", l.remedy,
				"there are %d %s, of %d that may be: at the last one programs are refused", l.used, l.what, l.most)
		}
	}
	return out
}
