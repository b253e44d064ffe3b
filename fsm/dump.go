package fsm

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// redacted stands where a secret is.
const redacted = "(redacted)"

// Dump writes the state as indented JSON for a person to read. Secrets are
// left out: keys are redacted, of join tokens only the ID is shown, and of
// results and documents only what they name. The form may change between versions.
func (v View) Dump(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v.dump()); err != nil {
		return fmt.Errorf("dump state: %w", err)
	}
	return nil
}

// dumped is what Dump writes.
type dumped struct {
	Cluster     dumpedCluster   `json:"cluster"`
	Index       uint64          `json:"applied_index"`
	Term        uint64          `json:"term"`
	Now         string          `json:"cluster_time"`
	Floor       fencing.Token   `json:"token_floor"`
	Hash        string          `json:"hash"`
	Leadership  Leadership      `json:"leadership"`
	Members     []Member        `json:"members"`
	MemberFlags []MemberFlags   `json:"standings"`
	Marks       []ConfigMarks   `json:"configuration_marks"`
	Removed     []RemovedPeer   `json:"removed_peers"`
	Former      []FormerMember  `json:"former_members"`
	Sessions    []Session       `json:"sessions"`
	JoinTokens  []dumpedJoin    `json:"join_tokens"`
	Settings    []Setting       `json:"settings"`
	Requests    []dumpedRequest `json:"requests"`
	Leases      []Lease         `json:"leases"`
	Values      []dumpedValue   `json:"values"`
	Groups      []GroupMember   `json:"groups"`
	Nodes       []Record        `json:"nodes"`
	Queue       []QueuedRequest `json:"queue"`
	Claims      []Claim         `json:"claims"`
	Documents   []dumpedBlob    `json:"documents"`
	NextTurn    string          `json:"next_turn"`
	Pass        Door            `json:"pass_rule"`
	Address     Door            `json:"floating_ip"`
	Pull        Pull            `json:"pull"`
	Ports       []Port          `json:"ports"`
	Inspected   []Inspected     `json:"inspected"`
	Rules       []dumpedRule    `json:"rules"`
	Relays      []Relay         `json:"relays"`
	Failover    dumpedFailover  `json:"failover"`
	Gossip      GossipRotation  `json:"gossip"`
	Operators   []Operator      `json:"operators"`
	Zones       []ZoneChoice    `json:"zones"`
	Events      dumpedEvents    `json:"events"`
}

type dumpedCluster struct {
	ID          string `json:"id"`
	CACert      string `json:"ca_cert"`
	CAKey       string `json:"ca_key"`
	GossipKey   string `json:"gossip_key"`
	Incarnation uint64 `json:"incarnation"`
	Base        uint64 `json:"base"`
	Version     int    `json:"version"`
}

type dumpedJoin struct {
	ID      string `json:"id"`
	Expires string `json:"expires"`
}

type dumpedRequest struct {
	ID      RequestID     `json:"id"`
	Session fencing.Token `json:"session"`
	Kind    string        `json:"kind"`
	Code    string        `json:"code"`
	Token   fencing.Token `json:"token"`
}

type dumpedBlob struct {
	Hash  Hash `json:"hash"`
	Bytes int  `json:"compressed_bytes"`
	Refs  int  `json:"references"`
}

// dumpedValue leaves out what others keep here: it is theirs to show.
type dumpedValue struct {
	Key     string        `json:"key"`
	Version fencing.Token `json:"version"`
	Lease   string        `json:"lease,omitempty"`
	Bytes   int           `json:"bytes"`
}

// dumpedRule leaves the body out: a rule may set a password.
type dumpedRule struct {
	UUID    string        `json:"uuid"`
	Created fencing.Token `json:"created"`
	Bytes   int           `json:"bytes"`
}

// dumpedEvents shows of the ring how much it holds, and its newest events.
type dumpedEvents struct {
	Count     int            `json:"count"`
	Bytes     int            `json:"bytes"`
	Forgotten string         `json:"newest_dropped,omitempty"`
	Newest    []ClusterEvent `json:"newest"` // newest first, at most dumpedNewest
}

const dumpedNewest = 100

func (v View) dumpEvents() dumpedEvents {
	var out dumpedEvents
	out.Count, out.Bytes = v.EventCount()
	if id := v.ForgottenEvent(); !id.IsZero() {
		out.Forgotten = id.String()
	}
	for e := range v.NewestEvents() {
		if len(out.Newest) == dumpedNewest {
			break
		}
		out.Newest = append(out.Newest, e.Decode())
	}
	return out
}

type dumpedFailover struct {
	Nodes        []KubeNode      `json:"kube_nodes"`
	Votes        []KubeBallot    `json:"votes"`
	Remediations []Remediation   `json:"remediations"`
	Pauses       []FailoverPause `json:"pauses"`
	Holds        []FailoverHold  `json:"holds"`
}

func (v View) dumpFailover() dumpedFailover {
	f := v.d.failover
	return dumpedFailover{
		Nodes: values(f.nodes.all()), Votes: values(f.votes.all()), Remediations: v.RemediationHistory(0), Pauses: v.FailoverPauses(), Holds: values(f.holds.all()),
	}
}

func (v View) dump() dumped {
	hash := v.Hash()
	out := dumped{
		Cluster: dumpedCluster{
			ID: v.ClusterID(), CACert: string(v.CACert()), CAKey: redacted, GossipKey: redacted,
			Incarnation: v.Incarnation(), Base: v.Base(), Version: v.ClusterVersion(),
		},
		Index: v.Index(), Term: v.Term(), Now: v.Now().String(), Floor: v.Floor(), Hash: hex.EncodeToString(hash[:]),
		Leadership: v.Leadership(), Members: v.Members(), MemberFlags: v.AllMemberFlags(), Marks: v.AllConfigMarks(), Removed: v.RemovedPeers(), Former: v.FormerMembers(), Sessions: v.Sessions(), Settings: v.Settings(),
		Leases: v.Leases(), Nodes: slices.Collect(v.Records()), Queue: slices.Collect(v.Queue()), Claims: v.Claims(), NextTurn: v.d.throttle.Next.String(),
		Pass: v.PassDoor(), Address: v.AddressDoor(), Pull: v.d.ports.pull, Ports: slices.Collect(v.Ports()),
		Inspected: v.InspectedNodes(),
	}
	for _, j := range v.JoinTokens() {
		out.JoinTokens = append(out.JoinTokens, dumpedJoin{ID: j.ID, Expires: j.Expires.String()})
	}
	for _, o := range v.d.requests.byID.all() {
		out.Requests = append(out.Requests, dumpedRequest{
			ID: o.ID, Session: o.Session, Kind: o.Kind.String(), Code: o.Result.Code.String(), Token: o.Result.Token,
		})
	}
	for _, b := range v.d.blobs.all() {
		out.Documents = append(out.Documents, dumpedBlob{Hash: b.Hash, Bytes: len(b.Data), Refs: b.Refs})
	}
	for value := range v.Values("") {
		out.Values = append(out.Values, dumpedValue{Key: value.Key, Version: value.Version, Lease: value.Lease, Bytes: len(value.Data)})
	}
	out.Groups = values(v.d.groups.members.all())
	out.Relays, out.Failover = slices.Collect(v.Relays()), v.dumpFailover()
	out.Gossip, out.Operators, out.Zones = v.GossipRotation(), v.Operators(), v.ZoneChoices()
	out.Events = v.dumpEvents()
	for r := range v.Rules() {
		out.Rules = append(out.Rules, dumpedRule{UUID: r.UUID, Created: r.Created, Bytes: len(r.Body)})
	}
	return out
}
