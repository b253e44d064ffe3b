package ironic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// InbandCall is a callback in the form of ironic-inspector's successor, which
// is Ironic itself: POST /v1/continue_inspection.
type InbandCall struct {
	Body []byte
	// Node is the query's node_uuid, and Version the version of Ironic's API that
	// the header asks for; "" for none.
	Node, Version string
	// Source is the network that sent it, "" if that is not known. Each has a share
	// of the room for documents that wait for Ironic.
	Source string
}

// InbandAnswer is what a callback gets from Ironic, or from us in its place.
type InbandAnswer struct {
	Status int
	Body   []byte // JSON
	Reason string // Ironic's own sentence, of what is no success
	// Own says that the refusal is Ironic's, and not that of a proxy in front of it.
	Own bool
	// Absent says that no node waits for the document: it is Ironic's own 404, and not that its API
	// lacks the path in the version that was asked for, or that no conductor serves the node.
	Absent bool
	// Anonymous says that the call showed no credentials that another login could renew.
	Anonymous bool
}

// Later reports whether Ironic took nothing and may do so soon, as Unjudged does of a call. What of a
// node is locked, and who refuses, is for the caller to tell.
func (a InbandAnswer) Later() bool { return later(a.Status, a.Own, a.Reason) }

// ErrNotSent says that nothing of a call has left this host.
var ErrNotSent = errors.New("nothing was sent")

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

// Deployed reports whether the node carries a workload: it is never switched off, and its
// ports are never deleted.
func (n Node) Deployed() bool {
	return strings.EqualFold(n.Provision, "active") || strings.EqualFold(n.Provision, "rescue")
}

// Worked reports whether Ironic itself works with the machine, by a ramdisk or its firmware: states that end
// by themselves, or wait for who put a hold into the steps.
func (n Node) Worked() bool {
	switch strings.ToLower(n.Provision) {
	case "inspecting", "inspect wait", "cleaning", "clean wait", "clean hold", "servicing", "service wait",
		"service hold", "deploying", "wait call-back", "deploy hold", "deleting", "rescuing", "rescue wait", "unrescuing":
		return true
	}
	return false
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
	members := map[string]any{"op": p.Op, "path": p.Path, "value": p.Value}
	if p.Op == "remove" {
		delete(members, "value")
	}
	return json.Marshal(members)
}

// The boot device and power states that an inspector asks for.
const (
	BootPXE     = "pxe"
	PowerReboot = "rebooting"
	PowerOff    = "power off"
)

// What Ironic answers that callers tell apart.
var (
	ErrNoNode     = errors.New("no such node in Ironic")
	ErrPortExists = errors.New("a port with this address exists")
	ErrNodeExists = errors.New("a node with this UUID exists")
	// ErrStaysOn is the answer to a power-off of a node with disable_power_off, from API 1.95 on:
	// a chassis that takes its BMC down with it, for instance.
	ErrStaysOn = errors.New("the node is never switched off: its disable_power_off is true")
)

// Error is a call of Ironic that failed after all its tries.
type Error struct {
	Call    string // method and path, for the log
	Status  int    // HTTP status, 0 when no answer came
	Message string // Ironic's own sentence (faultstring), or what happened
	Own     bool   // the answer is Ironic's, by its fault, and not that of a proxy in front of it
	NoBMC   bool   // no BMC is behind the call: its 500 is a failure of Ironic's own, as of its database
	Err     error  // the cause, nil if Ironic said it all
}

// Error implements error: the sentence alone, because the contract's texts
// embed it.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("Ironic answered %d %s", e.Status, http.StatusText(e.Status))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unjudged reports whether a call failed and Ironic has not judged what was asked: it could not be
// spoken to from here, as where a proxy has no route to it, it or Keystone refuses our login, or it
// is Busy. The same call may succeed later, or from another peer. It is false where the caller gave up.
func Unjudged(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, ErrOutcomeUnknown) { // who can speak to Ironic does not know it either
		return false
	}
	if e.Status == 0 || errors.Is(err, ErrNotSent) { // by a login that failed
		return !errors.Is(err, ErrNotAllowed) && !errors.Is(err, context.Canceled)
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	case http.StatusForbidden:
		return !e.Own // Ironic's policy judges the call
	case http.StatusInternalServerError:
		return e.NoBMC || Busy(err) || strings.Contains(e.Message, "Timed out waiting for a reply") // of a conductor
	default:
		return later(e.Status, e.Own, e.Message)
	}
}

// Busy reports whether an Ironic that is there has not judged a call, and will later: it lacks a
// conductor that serves the node, or free workers of one, its database or what its API reaches a
// conductor by fails, or it takes no more calls for now. That it answers other questions meanwhile
// says nothing of the call. A gateway's 503 is none of Ironic's.
func Busy(err error) bool {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok, errors.Is(err, ErrNotSent): // Keystone said it
		return false
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable && e.Own:
		return true
	case e.Status == http.StatusInternalServerError:
		// Of its database, or of the way from its API to a conductor: no BMC's failure has these words.
		inner := []string{
			"OperationalError", "database is locked", "QueuePool limit", // of a database that fails over, or is locked
			"Unable to establish connection to http", // of json-rpc: a conductor has died, or is just restarted
			"Unable to connect to AMQP server",
		}
		return slices.ContainsFunc(inner, func(said string) bool { return strings.Contains(e.Message, said) })
	}
	return noConductor(e.Status, e.Message)
}

// failedInside reports whether Ironic, and not Keystone at our login, failed at a call: a BMC or its
// database did.
func failedInside(e *Error) bool {
	return e.Status == http.StatusInternalServerError && !errors.Is(e, ErrNotSent)
}

// later reports whether an answer says that nothing was done, and that it may be soon: there is too
// much to do, no conductor lives that serves the node, or a proxy has no route to Ironic.
func later(status int, own bool, said string) bool {
	soon := []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusServiceUnavailable}
	return slices.Contains(soon, status) || status == http.StatusNotFound && !own || noConductor(status, said)
}

// noConductor reports whether Ironic says that none of the conductors that live serves a node's driver
// and group: with 404, or 400 where a node is changed, though the next minute may bring one. Without
// any conductor it answers 503.
func noConductor(status int, said string) bool {
	return (status == http.StatusBadRequest || status == http.StatusNotFound) &&
		strings.Contains(said, "No valid host was found")
}

// Unknown reports whether a call may have been carried out although it failed: its answer was
// lost, or Ironic's API had none from the conductor that it asked.
func Unknown(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, ErrNotSent) {
		return false
	}
	if e.Status == 0 {
		return !errors.Is(err, ErrNotAllowed) && !errors.Is(err, context.Canceled)
	}
	lost := []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout}
	return slices.Contains(lost, e.Status)
}

// NodeName is a node and its name in Ironic, "" if it has none.
type NodeName struct {
	UUID string `json:"uuid"` // lower case
	Name string `json:"name"`
}

// String returns the name with the UUID, or the UUID alone.
func (n NodeName) String() string {
	if n.Name == "" {
		return n.UUID
	}
	return fmt.Sprintf("%s (%s)", n.Name, n.UUID)
}

// canonical returns the UUID of a node as records have it, so that a node has one: Ironic
// keeps the spelling with which it was enrolled, and takes all that Python does. Lists,
// which are compared with records, have it so; a single node has the spelling of Ironic,
// in which it is asked for further.
func canonical(id string) string {
	if parsed, err := uuid.Parse(id); err == nil {
		return parsed.String()
	}
	return strings.ToLower(id)
}

// IsUUID reports whether a reference has the form of a UUID as Ironic writes it.
// The original looks such a reference up by nothing else.
func IsUUID(ref string) bool {
	_, err := uuid.Parse(ref)
	return err == nil && len(ref) == len(uuid.UUID{}.String())
}
