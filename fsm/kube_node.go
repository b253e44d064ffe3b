package fsm

import (
	"errors"
	"unicode/utf8"
)

var kubeNodeDomain = domain{
	verbs: []row{
		verb(100, "put kube nodes", applyPutKubeNodes).byLeader().from(2),
	},
	sections: []section{
		many('K', "kube nodes", func(d *data) table[KubeNode] { return d.failover.nodes },
			func(d *data, n KubeNode) { d.failover.nodes.put(kubeKey(n.Cluster, n.UID), n) }),
	},
	check: checkKubeNodes,
}

// Bounds of kube nodes.
const (
	// MaxKubeNodes is the greatest number of kube nodes of all clusters together.
	MaxKubeNodes = 5_000
	// MaxKubeNodeChanges is the most that one PutKubeNodes puts and removes.
	MaxKubeNodeChanges = 200

	maxKubeUID  = 128
	maxKubeName = 253
	maxKubeBoot = 128
	// maxSystemUUID is longer than a UUID: firmware writes what it likes.
	maxSystemUUID = 128
)

// KubeNode is a Kubernetes Node as a leader saw it last. The next leader compares
// its own list with it, and every peer probes what it names.
type KubeNode struct {
	Cluster string    `cbor:"1,keyasint"` // what the configuration calls it
	UID     string    `cbor:"2,keyasint"` // of the object: a node of the same name may be another
	Name    string    `cbor:"3,keyasint"`
	BootID  string    `cbor:"4,keyasint,omitempty"` // "" if not known
	Ready   KubeReady `cbor:"5,keyasint"`
	// Probe is its kubelet, host:port; "" if not known: no peer probes it then.
	Probe        string `cbor:"6,keyasint,omitempty"`
	ControlPlane bool   `cbor:"7,keyasint,omitempty"`
	// Changed is when Ready or BootID were last seen to differ, in cluster time, and
	// ChangedMillis the wall clock then, Unix ms, for display. Apply sets both.
	Changed       Time  `cbor:"8,keyasint,omitempty"`
	ChangedMillis int64 `cbor:"9,keyasint,omitempty"`
}

// Validate says why a kube node cannot go into the log. A kubelet writes some of
// it: the code that reads it from Kubernetes leaves out what is refused here, so
// that one node cannot keep all others out.
func (n KubeNode) Validate() error {
	if n.Ready < KubeTrue || n.Ready > KubeUnknown {
		return invalid("kube node %q: readiness %d is none", n.Name, n.Ready)
	}
	if err := validUID(n.UID); err != nil {
		return err
	}
	return errors.Join(validText("name of a kube node", n.Name, 1, maxKubeName), validText("boot ID", n.BootID, 0, maxKubeBoot), validAddress(n.Probe))
}

// SystemUUID makes the UUID of a machine fit for the log; one that is no text of at most
// maxSystemUUID bytes is left out, and then nothing is compared with it.
func SystemUUID(text string) string {
	if validText("UUID of a machine", text, 0, maxSystemUUID) != nil {
		return ""
	}
	return text
}

func validUID(uid string) error {
	if err := within("UID", uid, 1, maxKubeUID); err != nil {
		return err
	}
	return only("UID", uid, func(b byte) bool { return '!' <= b && b <= '~' })
}

func validKubeCluster(name string) error { return validID("name of a Kubernetes cluster", name) }

// validText checks a foreign text. CBOR holds UTF-8 alone, and a NUL would end a
// part of a key.
func validText(what, text string, least, most int) error {
	if !utf8.ValidString(text) {
		return invalid("%s is not UTF-8", what)
	}
	for i := range len(text) {
		if text[i] == 0 {
			return invalid("%s has a NUL", what)
		}
	}
	return within(what, text, least, most)
}

// PutKubeNodes records what has changed of the kube nodes of a cluster. A duty's
// command. What Nodes say of Changed counts for nothing.
type PutKubeNodes struct {
	Cluster string     `cbor:"1,keyasint"`
	Nodes   []KubeNode `cbor:"2,keyasint,omitempty"`
	Remove  []string   `cbor:"3,keyasint,omitempty"` // UIDs; one that is not known counts as removed
	Millis  int64      `cbor:"4,keyasint,omitempty"` // wall clock, Unix ms
}

// Validate implements Command.
func (c PutKubeNodes) Validate() error {
	n := len(c.Nodes) + len(c.Remove)
	if n == 0 || n > MaxKubeNodeChanges {
		return invalid("%d kube nodes are put and removed, allowed are 1 to %d", n, MaxKubeNodeChanges)
	}
	if err := errors.Join(validKubeCluster(c.Cluster), validMillis(c.Millis)); err != nil {
		return err
	}
	seen := make(map[string]bool, n)
	for _, node := range c.Nodes {
		if node.Cluster != "" && node.Cluster != c.Cluster {
			return invalid("kube node %q is of cluster %q, not of %q", node.Name, node.Cluster, c.Cluster)
		}
		if err := node.Validate(); err != nil {
			return err
		}
		seen[node.UID] = true
	}
	for _, uid := range c.Remove {
		if err := validUID(uid); err != nil {
			return err
		}
		seen[uid] = true
	}
	if len(seen) < n {
		return errors.New("a kube node is named twice")
	}
	return nil
}

func validMillis(millis int64) error {
	if millis < 0 {
		return errors.New("a wall clock before 1970")
	}
	return nil
}

func applyPutKubeNodes(t *txn, c PutKubeNodes) Result {
	for _, uid := range c.Remove {
		t.dropKubeNode(c.Cluster, uid)
	}
	for _, n := range c.Nodes {
		n.Cluster = c.Cluster
		t.putKubeNode(n, c.Millis)
	}
	if t.failover.nodes.size() > MaxKubeNodes {
		return refuse(TableFull, "the clusters have more than %d kube nodes together, which is the most", MaxKubeNodes)
	}
	return done()
}

func (t *txn) putKubeNode(n KubeNode, millis int64) {
	key := kubeKey(n.Cluster, n.UID)
	old, known := t.failover.nodes.get(key)
	if known && old.Ready == n.Ready && old.BootID == n.BootID {
		n.Changed, n.ChangedMillis = old.Changed, old.ChangedMillis
	} else {
		n.Changed, n.ChangedMillis = t.now(), millis
	}
	t.failover.nodes.put(key, n)
}

// dropKubeNode forgets a kube node and what peers said of it. A remediation of it
// goes on.
func (t *txn) dropKubeNode(cluster, uid string) {
	for _, b := range t.failover.votes.under(ballotPrefix(cluster, uid)) {
		t.failover.dropBallot(b)
	}
	t.failover.nodes.drop(kubeKey(cluster, uid))
}
