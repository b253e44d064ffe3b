package inspector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Node is a bare-metal machine as Ironic describes it. Maps are shared and must
// not be changed.
type Node struct {
	UUID       string         `json:"uuid"`
	Name       string         `json:"name"`
	Provision  string         `json:"provision_state"`
	Power      string         `json:"power_state"`
	DriverInfo map[string]any `json:"driver_info"`
	Properties map[string]any `json:"properties"`
	Extra      map[string]any `json:"extra"`
}

// Port is a network interface of a node, as Ironic knows it.
type Port struct {
	UUID       string         `json:"uuid,omitempty"`
	Node       string         `json:"node_uuid"`
	Address    string         `json:"address"` // MAC, lower case
	PXEEnabled bool           `json:"pxe_enabled"`
	Extra      map[string]any `json:"extra"`
	// LocalLink says where the other end of the cable is.
	LocalLink       map[string]any `json:"local_link_connection,omitempty"`
	PhysicalNetwork string         `json:"physical_network,omitempty"`
}

// NewNode is a node that Ironic does not have yet.
type NewNode struct {
	// UUID is chosen by the caller, so that a repeat makes no second node.
	UUID       string
	Driver     string
	DriverInfo map[string]any
	Fields     map[string]string // further top-level attributes, as Ironic names them
}

// Patch is one operation of a JSON patch (RFC 6902). No patch is conditional:
// Ironic's API refuses RFC 6902's "test" (seen with 21.4: "'test' is not one of
// ['add', 'replace', 'remove']").
type Patch struct {
	Op    string // add, replace or remove
	Path  string
	Value any // null is a value; ignored by remove
}

// MarshalJSON implements json.Marshaler.
func (p Patch) MarshalJSON() ([]byte, error) {
	if p.Op == "remove" {
		return json.Marshal(struct {
			Op   string `json:"op"`
			Path string `json:"path"`
		}{p.Op, p.Path})
	}
	return json.Marshal(struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{p.Op, p.Path, p.Value})
}

// The boot device and power states that an inspector asks for.
const (
	BootPXE      = "pxe"
	PowerReboot  = "rebooting"
	PowerOff     = "power off"
	stateActive  = "active"
	stateRescue  = "rescue"
	errorMaximum = 4 << 10 // bytes of a foreign error text that are kept
)

// NodeClient reads and writes nodes in Ironic. ref is a UUID or a name. A node
// that does not exist is ErrNoNode; other failures are *IronicError.
type NodeClient interface {
	Node(ctx context.Context, ref string) (Node, error)
	PatchNode(ctx context.Context, node string, patch []Patch) (Node, error)
	// NodeIDs lists the UUIDs of all nodes: all pages, or an error.
	NodeIDs(ctx context.Context) ([]string, error)
}

// PowerClient controls a node's power.
type PowerClient interface {
	// PowerValid says whether Ironic could switch the node, and why not.
	PowerValid(ctx context.Context, node string) (ok bool, reason string, err error)
	SetBootDevice(ctx context.Context, node, device string, persistent bool) error
	SetPower(ctx context.Context, node, target string) error
}

// PortClient reads and writes the ports of nodes.
type PortClient interface {
	Ports(ctx context.Context, node string) ([]Port, error)
	// CreatePort fails with ErrPortExists when any node has the address.
	CreatePort(ctx context.Context, p Port) (Port, error)
	PatchPort(ctx context.Context, port string, patch []Patch) error
	DeletePort(ctx context.Context, port string) error
}

// RuleClient is what rules need besides (docs/contract.md#rules).
type RuleClient interface {
	// NodeWhole returns everything that Ironic tells of a node, under Ironic's
	// names. Numbers are json.Number.
	NodeWhole(ctx context.Context, node string) (map[string]any, error)
	// PatchDriver is PatchNode for a patch that changes the driver: interfaces
	// that the new one does not have are reset to its defaults.
	PatchDriver(ctx context.Context, node string, patch []Patch) (Node, error)
}

// TraitClient writes the traits of nodes.
type TraitClient interface {
	AddTrait(ctx context.Context, node, trait string) error
	// RemoveTrait succeeds when the node has no such trait.
	RemoveTrait(ctx context.Context, node, trait string) error
}

// Discoverer finds out whether a machine is known, and makes a node of one that
// is not.
type Discoverer interface {
	// CreateNode fails with ErrNodeExists when there is a node with this UUID.
	CreateNode(ctx context.Context, n NewNode) (Node, error)
	// AllPorts lists all ports with UUID, node and address, in lower case: all pages,
	// or an error.
	AllPorts(ctx context.Context) ([]Port, error)
	// NodesWithBMC lists all nodes with UUID, provision state and driver_info
	// alone: all pages, or an error.
	NodesWithBMC(ctx context.Context) ([]Node, error)
}

// Ironic is the bare-metal service. Every call is tried again as configured and
// asks Allowed(ctx) right before each time that it sends something. All methods
// may be called concurrently.
type Ironic interface {
	NodeClient
	PowerClient
	PortClient
	RuleClient
	TraitClient
	Discoverer
	// Ping reports whether Ironic answers at all: one try.
	Ping(ctx context.Context) error
}

// What Ironic answers that callers tell apart.
var (
	ErrNoNode     = errors.New("no such node in Ironic")
	ErrPortExists = errors.New("a port with this address exists")
	ErrNodeExists = errors.New("a node with this UUID exists")
)

// IronicError is a call of Ironic that failed after all its tries.
type IronicError struct {
	Call    string // method and path, for the log
	Status  int    // HTTP status, 0 when no answer came
	Message string // Ironic's own sentence (faultstring), or what happened
	Err     error  // the cause, nil if Ironic said it all
}

// Error implements error: the sentence alone, because the contract's texts
// embed it.
func (e *IronicError) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("Ironic answered %d %s", e.Status, http.StatusText(e.Status))
}

// Unwrap returns the cause.
func (e *IronicError) Unwrap() error { return e.Err }

// Unreachable reports whether a call failed because Ironic could not be spoken
// to from here, rather than because of what was asked or because the caller gave
// up.
func Unreachable(err error) bool {
	var e *IronicError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Status {
	case 0:
		return !errors.Is(err, ErrNotAllowed) && !errors.Is(err, context.Canceled)
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}
