package fsm

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/membership"
)

var clusterDomain = domain{
	Verbs: []entry.Verb[*txn]{
		entry.NewVerb[*txn, Found](3, "found"),
	},
	Sections: []entry.Section[*txn]{
		entry.Single('C', "cluster", func(t *txn) *entry.Cluster { return &t.Cluster }).Shown(shownCluster),
	},
}

// Secrets are what only peers of the cluster may hold. Never log, dump or
// bundle one.
type Secrets struct {
	CACert    []byte // PEM
	CAKey     []byte // PEM
	GossipKey []byte
}

// String hides the keys from every print verb.
func (Secrets) String() string { return "(redacted)" }

// GoString hides the keys from %#v.
func (Secrets) GoString() string { return "fsm.Secrets{redacted}" }

// maxPEM bounds a certificate or key.
const maxPEM = 16 << 10

// Found gives a new cluster its identity, its first member and its first join
// token. It is the first entry of a history or, by Founded, the first snapshot.
type Found struct {
	ClusterID string                  `cbor:"1,keyasint"` // UUID
	CACert    []byte                  `cbor:"2,keyasint"` // PEM
	CAKey     []byte                  `cbor:"3,keyasint"` // PEM
	GossipKey []byte                  `cbor:"4,keyasint"` // 16, 24 or 32 bytes
	Member    membership.Member       `cbor:"5,keyasint"`
	Join      membership.AddJoinToken `cbor:"6,keyasint"` // zero: no join token yet
}

// Validate implements Command.
func (c Found) Validate() error {
	if id, err := uuid.Parse(c.ClusterID); err != nil || id.String() != c.ClusterID {
		return fmt.Errorf("cluster ID %q is not a UUID in lower case", c.ClusterID)
	}
	for _, pem := range [][]byte{c.CACert, c.CAKey} {
		if !bytes.HasPrefix(pem, []byte("-----BEGIN ")) || len(pem) > maxPEM {
			return fmt.Errorf("CA certificate or key is not PEM of at most %d bytes", maxPEM)
		}
	}
	if n := len(c.GossipKey); n != 16 && n != 24 && n != 32 {
		return fmt.Errorf("gossip key has %d bytes, not 16, 24 or 32", n)
	}
	if c.Join != (membership.AddJoinToken{}) {
		if err := c.Join.Validate(); err != nil {
			return err
		}
	}
	return c.Member.Validate()
}

// Apply implements entry.Change.
func (c Found) Apply(t *txn) Result {
	if t.Cluster.ID != "" {
		return entry.Refuse(Conflict, "the cluster was founded already, as %s", t.Cluster.ID)
	}
	t.Cluster.ID, t.Cluster.Incarnation = c.ClusterID, 1
	t.Cluster.CACert, t.Cluster.CAKey, t.Cluster.GossipKey = c.CACert, c.CAKey, c.GossipKey
	if res := membersOf(t).Admit(c.Member); res.Code != OK {
		return res
	}
	if c.Join != (membership.AddJoinToken{}) {
		return c.Join.Apply(membersOf(t))
	}
	return entry.Done()
}

// redacted stands where a secret is.
const redacted = "(redacted)"

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
