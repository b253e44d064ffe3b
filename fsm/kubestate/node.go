package kubestate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/trivet-ha/trivet/fsm/codec"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/valid"
)

// Bounds of kube nodes.
const (
	// MaxNodes is the greatest number of kube nodes of all clusters together.
	MaxNodes = 5_000
	// MaxNodeChanges is the most that one PutNodes puts and removes.
	MaxNodeChanges = 200

	maxKubeUID  = 128
	maxKubeName = 253
	maxKubeBoot = 128
	// maxSystemUUID is longer than a UUID: firmware writes what it likes.
	maxSystemUUID = 128
)

// Node is a Kubernetes Node as a leader saw it last. The next leader compares
// its own list with it, and every peer probes what it names.
type Node struct {
	Cluster string `cbor:"1,keyasint"` // what the configuration calls it
	UID     string `cbor:"2,keyasint"` // of the object: a node of the same name may be another
	Name    string `cbor:"3,keyasint"`
	BootID  string `cbor:"4,keyasint,omitempty"` // "" if not known
	Ready   Ready  `cbor:"5,keyasint"`
	// Probe is its kubelet, host:port; "" if not known: no peer probes it then.
	Probe        string `cbor:"6,keyasint,omitempty"`
	ControlPlane bool   `cbor:"7,keyasint,omitempty"`
	// Changed is when Ready or BootID were last seen to differ, in cluster time, and
	// ChangedMillis the wall clock then, Unix ms, for display. Apply sets both.
	Changed       entry.Time `cbor:"8,keyasint,omitempty"`
	ChangedMillis int64      `cbor:"9,keyasint,omitempty"`
}

// Validate says why a kube node cannot go into the log. A kubelet writes some of
// it: the code that reads it from Kubernetes leaves out what is refused here, so
// that one node cannot keep all others out.
func (n Node) Validate() error {
	if n.Ready < ReadyTrue || n.Ready > ReadyUnknown {
		return fmt.Errorf("kube node %q: readiness %d is none", n.Name, n.Ready)
	}
	return cmp.Or(validUID(n.UID), errors.Join(valid.Text("name of a kube node", n.Name, 1, maxKubeName),
		valid.Text("boot ID", n.BootID, 0, maxKubeBoot), valid.Address(n.Probe)))
}

// SystemUUID makes the UUID of a machine fit for the log; one that is no text of at most
// maxSystemUUID bytes is left out, and then nothing is compared with it.
func SystemUUID(text string) string {
	if valid.Text("UUID of a machine", text, 0, maxSystemUUID) != nil {
		return ""
	}
	return text
}

func validUID(uid string) error {
	return valid.Word("UID", uid, 1, maxKubeUID, func(b byte) bool { return '!' <= b && b <= '~' })
}

func validKubeCluster(name string) error { return valid.ID("name of a Kubernetes cluster", name) }

// PutNodes records what has changed of the kube nodes of a cluster. A duty's
// command. What Nodes say of Changed counts for nothing.
type PutNodes struct {
	Cluster string   `cbor:"1,keyasint"`
	Nodes   []Node   `cbor:"2,keyasint,omitempty"`
	Remove  []string `cbor:"3,keyasint,omitempty"` // UIDs; one that is not known counts as removed
	Millis  int64    `cbor:"4,keyasint,omitempty"` // wall clock, Unix ms
}

// Validate implements Command.
func (c PutNodes) Validate() error {
	if err := cmp.Or(valid.Count(len(c.Nodes)+len(c.Remove), MaxNodeChanges, "kube nodes are put and removed"),
		errors.Join(validKubeCluster(c.Cluster), valid.Millis(c.Millis))); err != nil {
		return err
	}
	uids := slices.Clone(c.Remove)
	for _, node := range c.Nodes {
		if node.Cluster != "" && node.Cluster != c.Cluster {
			return fmt.Errorf("kube node %q is of cluster %q, not of %q", node.Name, node.Cluster, c.Cluster)
		}
		if err := node.Validate(); err != nil {
			return err
		}
		uids = append(uids, node.UID)
	}
	return cmp.Or(valid.Each(c.Remove, validUID), valid.Once("a kube node", uids))
}

// Apply implements entry.Change.
func (c PutNodes) Apply(t Txn) entry.Result {
	for _, uid := range c.Remove { // what peers said of it goes too, a remediation of it goes on
		for _, b := range t.votes.Under(ballotPrefix(c.Cluster, uid)) {
			t.dropBallot(b)
		}
		t.nodes.Drop(kubeKey(c.Cluster, uid))
	}
	for _, n := range c.Nodes {
		n.Cluster = c.Cluster
		key := kubeKey(n.Cluster, n.UID)
		old, known := t.nodes.Get(key)
		if known && old.Ready == n.Ready && old.BootID == n.BootID {
			n.Changed, n.ChangedMillis = old.Changed, old.ChangedMillis
		} else {
			n.Changed, n.ChangedMillis = t.Now(), c.Millis
		}
		t.nodes.Put(key, n)
	}
	if t.nodes.Size() > MaxNodes {
		return entry.Refuse(entry.TableFull, "the clusters have more than %d kube nodes together, which is the most",
			MaxNodes)
	}
	return entry.Done()
}

// Ready is what a kube node's condition Ready says. The numbers are part of
// the log.
type Ready uint8

// The values of the condition; one that is missing is ReadyUnknown.
const (
	ReadyTrue    Ready = 1
	ReadyFalse   Ready = 2
	ReadyUnknown Ready = 3
)

var kubeReadies = [...]string{"", "True", "False", "Unknown"}

// String returns the value as Kubernetes writes it.
func (r Ready) String() string { return codec.NameOf(kubeReadies[:], "readiness", uint8(r)) }

// MarshalText implements encoding.TextMarshaler.
func (r Ready) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
