package fsm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
)

// redacted stands where a secret is.
const redacted = "(redacted)"

// Dump writes the state as indented JSON for a person to read: its hash, then each
// table under its name. Secrets are left out: keys are redacted, of join tokens only the
// ID is shown, and of results and documents only what they name. The form may change
// between versions.
func (v View) Dump(w io.Writer) error {
	hash := v.Hash()
	var all bytes.Buffer
	fmt.Fprintf(&all, `{"hash":%q`, hex.EncodeToString(hash[:]))
	for _, s := range sections {
		text, err := json.Marshal(s.show(v))
		if err != nil {
			return fmt.Errorf("dump state: table %s: %w", s.name, err)
		}
		fmt.Fprintf(&all, ",%q:%s", strings.ReplaceAll(s.name, " ", "_"), text)
	}
	all.WriteString("}\n")
	var indented bytes.Buffer
	if err := json.Indent(&indented, all.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("dump state: %w", err)
	}
	if _, err := indented.WriteTo(w); err != nil {
		return fmt.Errorf("dump state: %w", err)
	}
	return nil
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

func shownCluster(v View) any {
	return dumpedCluster{
		ID: v.ClusterID(), CACert: string(v.CACert()), CAKey: redacted, GossipKey: redacted,
		Incarnation: v.Incarnation(), Base: v.Base(), Version: v.ClusterVersion(),
	}
}

type dumpedPosition struct {
	Index uint64        `json:"applied_index"`
	Term  uint64        `json:"term"`
	Now   string        `json:"cluster_time"`
	Floor fencing.Token `json:"token_floor"`
}

func shownPosition(v View) any {
	return dumpedPosition{Index: v.Index(), Term: v.Term(), Now: v.Now().String(), Floor: v.Floor()}
}

type dumpedJoin struct {
	ID      string `json:"id"`
	Expires string `json:"expires"`
}

func shownJoinTokens(v View) any {
	return dumpEach(v.d.joins, func(j JoinToken) dumpedJoin { return dumpedJoin{ID: j.ID, Expires: j.Expires.String()} })
}

type dumpedRequest struct {
	ID      RequestID     `json:"id"`
	Session fencing.Token `json:"session"`
	Kind    Kind          `json:"kind"`
	Code    string        `json:"code"`
	Token   fencing.Token `json:"token"`
}

func shownRequests(v View) any {
	return dumpEach(v.d.requests.byID, func(o outcome) dumpedRequest {
		return dumpedRequest{ID: o.ID, Session: o.Session, Kind: o.Kind, Code: o.Result.Code.String(), Token: o.Result.Token}
	})
}

type dumpedBlob struct {
	Hash  Hash `json:"hash"`
	Bytes int  `json:"compressed_bytes"`
	Refs  int  `json:"references"`
}

func shownDocuments(v View) any {
	return dumpEach(v.d.blobs, func(b Blob) dumpedBlob { return dumpedBlob{Hash: b.Hash, Bytes: len(b.Data), Refs: b.Refs} })
}

// dumpedValue leaves out what others keep here: it is theirs to show.
type dumpedValue struct {
	Key     string        `json:"key"`
	Version fencing.Token `json:"version"`
	Lease   string        `json:"lease,omitempty"`
	Bytes   int           `json:"bytes"`
}

func shownValues(v View) any {
	return dumpEach(v.d.values.byKey, func(value Value) dumpedValue {
		return dumpedValue{Key: value.Key, Version: value.Version, Lease: value.Lease, Bytes: len(value.Data)}
	})
}

// dumpedRule leaves the body out: a rule may set a password.
type dumpedRule struct {
	UUID    string        `json:"uuid"`
	Created fencing.Token `json:"created"`
	Bytes   int           `json:"bytes"`
}

func shownRules(v View) any {
	return dumpEach(v.d.rules.inOrder, func(r Rule) dumpedRule {
		return dumpedRule{UUID: r.UUID, Created: r.Created, Bytes: len(r.Body)}
	})
}

func shownThrottle(v View) any { return map[string]string{"next_turn": v.d.throttle.Next.String()} }

func shownDoors(v View) any {
	return map[string]Door{"pass_rule": v.PassDoor(), "floating_ip": v.AddressDoor()}
}

func shownGossip(v View) any { return v.GossipRotation() }

// dumpedEvents shows of the ring how much it holds, and its newest events.
type dumpedEvents struct {
	Count     int            `json:"count"`
	Bytes     int            `json:"bytes"`
	Forgotten string         `json:"newest_dropped,omitempty"`
	Newest    []ClusterEvent `json:"newest"` // newest first, at most dumpedNewest
}

const dumpedNewest = 100

func shownEvents(v View) any {
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

// dumpEach makes of each record of a table what is shown of it.
func dumpEach[T, S any](records table[T], show func(T) S) []S {
	out := make([]S, 0, records.size())
	for _, r := range records.all() {
		out = append(out, show(r))
	}
	return out
}
