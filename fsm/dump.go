package fsm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/table"
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
	t := v.data.txn()
	for _, s := range sections {
		text, err := json.Marshal(s.Show(t))
		if err != nil {
			return fmt.Errorf("dump state: table %s: %w", s.Name, err)
		}
		fmt.Fprintf(&all, ",%q:%s", strings.ReplaceAll(s.Name, " ", "_"), text)
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

func shownCluster(t *txn) any {
	c := t.Cluster
	return dumpedCluster{
		ID: c.ID, CACert: string(c.CACert), CAKey: redacted, GossipKey: redacted,
		Incarnation: c.Incarnation, Base: c.Base, Version: max(t.Version, 1),
	}
}

type dumpedPosition struct {
	Index uint64        `json:"applied_index"`
	Term  uint64        `json:"term"`
	Now   string        `json:"cluster_time"`
	Floor fencing.Token `json:"token_floor"`
}

func shownPosition(t *txn) any {
	p := t.Position
	return dumpedPosition{Index: p.Index, Term: p.Term, Now: p.Now.String(), Floor: p.Floor}
}

type dumpedRequest struct {
	ID      RequestID     `json:"id"`
	Session fencing.Token `json:"session"`
	Kind    Kind          `json:"kind"`
	Code    string        `json:"code"`
	Token   fencing.Token `json:"token"`
}

func shownRequests(t *txn) any {
	return table.Map(t.requests.byID, func(o outcome) dumpedRequest {
		return dumpedRequest{ID: o.ID, Session: o.Session, Kind: o.Kind, Code: o.Result.Code.String(), Token: o.Result.Token}
	})
}
