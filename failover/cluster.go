package failover

import (
	"context"
	"errors"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
)

// Errors of a Cluster, wrapped with what was asked. Any other error means that the
// outcome is unknown.
var (
	// ErrGone says that the object does not exist, or is another of the same name.
	ErrGone = errors.New("gone")
	// ErrConflict says that the object is not as it was read; nothing was changed.
	ErrConflict = errors.New("changed meanwhile")
	// ErrForbidden says that the API server does not let us; it names the verb and
	// the resource.
	ErrForbidden = errors.New("forbidden")
	// ErrBusy says that the API server answered, and could not do it now: 429 and 5xx.
	ErrBusy = errors.New("not now")
)

// Marks on a Node. They are ours, and the only ones we take away.
const (
	// TaintCordon keeps new pods away while a remediation is open: NoSchedule, with
	// the token of the remediation's intent for a value.
	TaintCordon = "trivet.dev/remediation"
	// TaintOutOfService is Kubernetes' own (KEP-2268): NoExecute. Ours has the value
	// OutOfServiceValue.
	TaintOutOfService = "node.kubernetes.io/out-of-service"
	OutOfServiceValue = "trivet"
	// AnnotationOptOut on a Node, with the value "true", keeps us away from it.
	AnnotationOptOut = "trivet.dev/failover-disabled"
)

// Taint is one of a Node.
type Taint struct{ Key, Value, Effect string }

// Node is what failover needs of a Kubernetes Node, as it was read.
type Node struct {
	Name, UID       string
	BootID          string
	ResourceVersion string
	Ready           kubestate.Ready // of the condition Ready; one that is missing is Unknown
	ControlPlane    bool
	Lifecycle
	Kubelet     string // host:port, "" if the Node does not say
	SystemUUID  string // of the machine, as the kubelet read it
	MachineID   string // of its installed system
	Addresses   []string
	Labels      map[string]string
	Annotations map[string]string // ours, under trivet.dev, and those that HeedsAnnotation names
	Taints      []Taint
	Created     time.Time
}

// Change is one conditional write to a Node. It holds only for the UID and
// ResourceVersion of the Node it was made from.
type Change struct {
	Add    []Taint
	Remove []Taint
	Token  uint64 // for kubeclient.AnnotationToken; refused, ErrConflict, if a greater one is there
}

// Pod is what failover needs of a pod.
type Pod struct {
	Namespace, Name, UID string
	ResourceVersion      string
	Node                 string
	Labels               map[string]string
	DaemonSet            bool
	Mirror               bool // a static pod's shadow
	Deleting             bool
	// Finalizing says that it was deleted with grace period 0, and only its finalizers
	// keep it: another deletion changes nothing.
	Finalizing            bool
	Done                  bool // Succeeded or Failed
	ToleratesOutOfService bool
}

// Seen is told what happens in a cluster, one thing after the other. Its methods return at
// once.
type Seen interface {
	// Node receives every Node that is new or changed; the first time of all of
	// them, and again after each new list.
	Node(n Node)
	// NodeGone is told the name and UID of a Node that was deleted.
	NodeGone(name, uid string)
	// Renewed is told whenever the Lease of a Node is not as it was seen last.
	Renewed(node string, r Renewal)
}

// Renewal is what a Lease says of its newest renewal.
type Renewal struct {
	At string // by the clock of its kubelet; an opaque text
	// Version orders the writes of the Lease; 0: unknown. The storage has a lower one than
	// was seen only if its history went back, as when etcd was restored from a backup.
	Version uint64
	Stored  bool // read from the storage; what a watch tells may be older than that
}

// Watcher follows a cluster.
type Watcher interface {
	// Watch tells seen until ctx ends, through cut connections and expired resource
	// versions. It returns an error only if it can never work. synced is called
	// once when everything that existed was told.
	Watch(ctx context.Context, seen Seen, synced func()) error
	// Answers asks the API server for a sign of life that it can give only while it
	// reaches its storage (/readyz). Bounded by ctx and by the request's timeout.
	Answers(ctx context.Context) error
}

// Writer reads and changes a cluster. Every call is one request, or the pages of
// one list; it is bounded by ctx and the client's own timeout and tried once.
// All methods may be called concurrently.
type Writer interface {
	NodeReader
	NodeWriter
	PodStore
}

// NodeReader reads what there is of a Node, from the storage and no cache.
type NodeReader interface {
	// Node reads a Node by name. ErrGone.
	Node(ctx context.Context, name string) (Node, error)
	// Renewal reads the Lease of a Node and returns its renewal as Seen receives it.
	// ErrGone if there is none.
	Renewal(ctx context.Context, node string) (Renewal, error)
	// Attachments names the VolumeAttachments of a Node that are left.
	Attachments(ctx context.Context, node string) ([]string, error)
}

// NodeWriter writes Nodes and what is shown next to them.
type NodeWriter interface {
	// Mark changes a Node if it is still as it was read.
	Mark(ctx context.Context, as Node, c Change) (Node, error)
	// Tell writes an Event on the Node. typ is Normal or Warning.
	Tell(ctx context.Context, n Node, typ, reason, message string) error
}

// PodStore reads and deletes pods.
type PodStore interface {
	// Pods lists the pods bound to a Node, from the storage and no cache.
	Pods(ctx context.Context, node string) ([]Pod, error)
	// DeletePod removes a pod with grace period 0 if it still has that UID and, unless
	// it is "", that ResourceVersion. ErrGone if it is another or none.
	DeletePod(ctx context.Context, p Pod) error
	// Disrupted names the PodDisruptionBudgets that allow no further disruption and select one
	// of the pods, which are of one Node: with lacking only those that need pods which are
	// missing on other Nodes. The rest allow nothing because of that Node's own, or never do.
	Disrupted(ctx context.Context, pods []Pod, lacking bool) ([]string, error)
}

// Cluster is one Kubernetes cluster that is watched.
type Cluster interface {
	Watcher
	Writer
	// Name is what the configuration calls it.
	Name() string
}
