package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/firewall/recorder"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/boots"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/expectations"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/hardware"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/internal/httpserver/admission"
)

// Names reads the names of nodes from Ironic, within seconds.
type Names interface {
	All(ctx context.Context) ([]ironic.NodeName, error)
	// Of reads one node, by UUID or name.
	Of(ctx context.Context, ref string) (ironic.NodeName, error)
}

var _ Names = (*accept.Names)(nil)

// nodeList is the answer about all nodes.
type nodeList struct {
	Nodes []ironic.NodeName `json:"nodes"`
}

// The paths of names are Trivet's own: the contract of ironic-inspector has no
// names, and its answers stay as they are.
const (
	pathNodes = "/v1/nodes"
	pathNode  = pathNodes + "/:node"
)

// Nodes are what is known of nodes next to their introspections. Without one there are no such
// paths.
type Nodes struct {
	Names    Names
	Hardware Hardware
	Boots    Boots
	Waits    NodeWaits
}

func (h handlers) nodeResources() (all []resource) {
	if h.Names != nil {
		all = append(all,
			resource{path: pathNodes, reader: true, cost: admission.Request, get: answering(h.nodes)},
			resource{path: pathNode, reader: true, cost: admission.Request,
				get: ofNode(func(ctx context.Context, _ echo.Context, ref string) (any, error) { return h.Names.Of(ctx, ref) })})
	}
	if h.Hardware != nil {
		all = append(all,
			resource{path: pathNode + "/changes", reader: true, cost: admission.Dear, get: ofNode(h.changes)},
			resource{path: pathNode + "/cabling", reader: true, cost: admission.Dear, get: ofNode(h.cabling)},
			resource{path: pathNode + "/verdict", reader: true, cost: admission.Request, get: ofNode(h.verdict)},
			resource{path: pathExpectations, reader: true, cost: admission.Dear, get: answering(h.listExpectations)},
			resource{path: pathExpectations + "/:expectation", reader: true, cost: admission.Request,
				get: answering(h.showExpectation), put: withBody(h.documents, MaxExpectationBody, h.putExpectation),
				remove: done(func(ctx context.Context, c echo.Context) error {
					return h.Hardware.DeleteExpectation(ctx, c.Param("expectation"))
				})})
	}
	if h.Waits != nil {
		all = append(all, resource{path: pathNode + "/waits", reader: true, cost: admission.Request, get: ofNode(h.waits)})
	}
	if h.Boots != nil {
		all = append(all, resource{path: pathNode + "/boot", reader: true, cost: admission.Request, get: ofNode(h.boot)})
	}
	return all
}

func (h handlers) nodes(ctx context.Context, c echo.Context) (any, error) {
	q, only := query(c), "" // ?unexpected= or ?stopped=; "" is all
	for _, name := range []string{"unexpected", "stopped"} {
		switch value := q.Get(name); value {
		case "true":
			if only != "" {
				return nil, refuse(http.StatusBadRequest, "ask for unexpected or for stopped nodes, not for both at once")
			}
			only = name
		case "", "false":
		default:
			return nil, refuse(http.StatusBadRequest, "%s is true or false, not %q", name, value)
		}
	}
	switch only {
	case "unexpected":
		return h.unexpected(ctx, c)
	case "stopped":
		return h.stopped(ctx, c)
	}
	all, err := h.Names.All(ctx)
	return nodeList{Nodes: append([]ironic.NodeName{}, all...)}, err
}

// Hardware is all that is known of machines.
type Hardware interface {
	HardwareReader
	Verdicts
	ExpectationKeeper
}

// HardwareReader reads what a node's ramdisk sent as hardware. ref is a UUID or name.
type HardwareReader interface {
	Changes(ctx context.Context, ref string, r inspector.Reading) (accept.Comparison, error)
	Cabling(ctx context.Context, ref string, r inspector.Reading) ([]hardware.Cable, error)
}

var _ Hardware = accept.Hardware{}

// nodeChanges is the answer about what changed.
type nodeChanges struct {
	Compared bool         `json:"compared"` // false: one inspection alone is stored
	Changes  []nodeChange `json:"changes"`
}

type nodeChange struct {
	hardware.Change
	Text string `json:"text"` // the change in a sentence
}

func (h handlers) changes(ctx context.Context, c echo.Context, ref string) (any, error) {
	found, err := h.Hardware.Changes(ctx, ref, h.reading(c))
	if err != nil {
		return nil, err
	}
	answer := nodeChanges{Compared: found.Compared, Changes: []nodeChange{}}
	for _, change := range found.Changes {
		answer.Changes = append(answer.Changes, nodeChange{change, change.String()})
	}
	return answer, nil
}

func (h handlers) cabling(ctx context.Context, c echo.Context, ref string) (any, error) {
	cables, err := h.Hardware.Cabling(ctx, ref, h.reading(c))
	return map[string]any{"cables": append([]hardware.Cable{}, cables...)}, err
}

// Verdicts tells how machines were judged. ref is a UUID or name.
type Verdicts interface {
	Verdict(ctx context.Context, ref string, r inspector.Reading) (expectations.Verdict, error)
	// Unexpected lists machines that are not as ordered, in the order of their nodes.
	Unexpected(ctx context.Context, p accept.Page, r inspector.Reading) ([]expectations.Verdict, error)
}

// ExpectationKeeper keeps what machines were ordered with.
type ExpectationKeeper interface {
	Expectations(ctx context.Context, r inspector.Reading) ([]expectations.Expectation, error)
	// PutExpectation takes one that package hardware has checked.
	PutExpectation(ctx context.Context, e hardware.Expectation) error
	DeleteExpectation(ctx context.Context, name string) error
}

const pathExpectations = "/v1/expectations"

// MaxExpectationBody is the greatest length of an expectation as it is sent, in bytes.
// What is stored of it must be shorter still.
const MaxExpectationBody = 4 * expectations.MaxExpectation

// nodeVerdict is how a machine was judged.
type nodeVerdict struct {
	UUID string `json:"uuid"`
	// Judged is false before the first document was judged.
	Judged       bool     `json:"judged"`
	Expectations []string `json:"expectations"`
	Differences  []string `json:"differences"` // none: it is as ordered, or nothing is expected of it
}

func shownVerdict(v expectations.Verdict) nodeVerdict {
	return nodeVerdict{UUID: v.Node, Judged: !v.Document.IsZero(), Expectations: append([]string{}, v.By...),
		Differences: append([]string{}, v.Differences...)}
}

func (h handlers) verdict(ctx context.Context, c echo.Context, ref string) (any, error) {
	v, err := h.Hardware.Verdict(ctx, ref, h.reading(c))
	return shownVerdict(v), err
}

// unexpected lists the machines that are not as ordered. It needs no answer of Ironic.
func (h handlers) unexpected(ctx context.Context, c echo.Context) (any, error) {
	if h.Hardware == nil {
		return nil, refuse(http.StatusNotFound, "this server judges no machines")
	}
	page, err := parsePage(query(c), h.MaxLimit)
	if err != nil {
		return nil, err
	}
	all, err := h.Hardware.Unexpected(ctx, page, h.reading(c))
	list := make([]nodeVerdict, 0, len(all))
	for _, v := range all {
		list = append(list, shownVerdict(v))
	}
	return map[string]any{"nodes": list}, err
}

func (h handlers) listExpectations(ctx context.Context, c echo.Context) (any, error) {
	all, err := h.Hardware.Expectations(ctx, h.reading(c))
	list := make([]json.RawMessage, 0, len(all))
	for _, e := range all {
		list = append(list, e.Body)
	}
	return map[string]any{"expectations": list}, err
}

func (h handlers) showExpectation(ctx context.Context, c echo.Context) (any, error) {
	all, err := h.Hardware.Expectations(ctx, h.reading(c))
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Name == c.Param("expectation") {
			return json.RawMessage(e.Body), nil
		}
	}
	return nil, refuse(http.StatusNotFound, "Expectation %s was not found", c.Param("expectation"))
}

// putExpectation takes JSON or YAML, as files have an expectation.
func (h handlers) putExpectation(ctx context.Context, c echo.Context, body []byte) error {
	e, err := hardware.ReadExpectation(body)
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "%v", err)
	case e.Name != c.Param("expectation"):
		return refuse(http.StatusBadRequest, "the expectation is called %q in its body and %q in its path", e.Name,
			c.Param("expectation"))
	}
	if err := h.Hardware.PutExpectation(ctx, e); err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, e)
}

// TimedOut is how the error of an introspection begins whose machine did not call in time.
const TimedOut = "Introspection timeout"

// Remedy says what to do about the error that the introspection of a node, by UUID or name, ended in.
func Remedy(node, reason string) string {
	switch {
	case strings.HasPrefix(reason, TimedOut):
		return "the machine did not call in time: 'trivet firewall explain " + node +
			"' says whether it may boot; look at its console; then 'trivet introspection start " + node + "'"
	case strings.HasPrefix(reason, "Canceled by operator"):
		return "an operator aborted it; 'trivet introspection start " + node + "' begins again"
	case strings.Contains(reason, "was given up") || strings.Contains(reason, "déjà vu"):
		return "workers ended while they processed it: 'journalctl -u trivet' on the peers that are named; keep the data with 'trivet introspection data save --unprocessed " +
			node + "'"
	}
	return "'trivet introspection show " + node +
		"' names the ramdisk's logs; mend what the reason says, then 'trivet introspection start " + node + "'"
}

// Boots reads how machines boot. ref is a node's UUID or name.
type Boots interface {
	// Locate returns the UUID of a node, and the state to answer from.
	Locate(ctx context.Context, ref string, r inspector.Reading) (node string, v fsm.View, err error)
	// State returns the state to answer from.
	State(ctx context.Context, r inspector.Reading) (fsm.View, error)
}

var _ Boots = (*accept.Service)(nil)

// BootOf is what was heard of a node's newest boot, and why its machine does not call; nil where
// nothing was heard and none is awaited. Every peer says the same.
func BootOf(v fsm.View, node string) *Boot {
	account, ok := recorder.AccountOf(v, node)
	if !ok {
		return nil
	}
	out := emptyBoot(v, node)
	out.Awaited, out.Dropped, out.Findings = account.Awaited, account.Track.Dropped, bootFindings(account.Findings)
	for _, s := range account.Track.Steps {
		name := s.Peer
		if m, ok := v.Member(s.Peer); ok {
			name = m.Name
		}
		out.Steps = append(out.Steps, BootStep{Time: MillisText(s.FirstMillis), Until: MillisText(s.LastMillis),
			Count: s.Count, Peer: name, Kind: s.Kind.String(), MAC: s.MAC, Text: recorder.Sentence(s)})
	}
	return out
}

func emptyBoot(v fsm.View, node string) *Boot {
	out := &Boot{Node: node, Steps: []BootStep{}, Findings: []BootFinding{}}
	if rec, ok := v.Record(node); ok {
		out.State = rec.State.String()
	}
	return out
}

func bootFindings(all []entry.Finding) []BootFinding {
	out := make([]BootFinding, 0, len(all))
	for _, f := range all {
		out = append(out, BootFinding{f.Code, f.Text, boots.Remedy(f.Code)})
	}
	return out
}

// MillisText is a wall clock in ms as RFC 3339 with three digits of a second: steps of a boot are close
// together.
func MillisText(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (h handlers) boot(ctx context.Context, c echo.Context, ref string) (any, error) {
	node, v, err := h.Boots.Locate(ctx, ref, h.reading(c))
	if err != nil {
		return nil, err
	}
	if boot := BootOf(v, node); boot != nil {
		return boot, nil
	}
	if _, known := v.Record(node); !known {
		return nil, refuse(http.StatusNotFound, "Nothing was heard of node %s, and it is not under introspection", ref)
	}
	return emptyBoot(v, node), nil
}

// stoppedNode is a machine that does not come up, or did not in time.
type stoppedNode struct {
	UUID     string        `json:"uuid"`
	Findings []BootFinding `json:"findings"`
}

// stopped lists the machines of which it was found why they do not come up, in the order of their
// nodes. It needs no answer of Ironic.
func (h handlers) stopped(ctx context.Context, c echo.Context) (any, error) {
	if h.Boots == nil {
		return nil, refuse(http.StatusNotFound, "this server does not know how machines boot")
	}
	page, err := parsePage(query(c), h.MaxLimit)
	if err != nil {
		return nil, err
	}
	v, err := h.Boots.State(ctx, h.reading(c))
	if err != nil {
		return nil, err
	}
	list := make([]stoppedNode, 0)
	for _, node := range recorder.MaybeStopped(v) {
		if len(list) == page.Limit {
			break
		}
		if node <= page.Marker {
			continue
		}
		if account, _ := recorder.AccountOf(v, node); len(account.Findings) > 0 {
			list = append(list, stoppedNode{node, bootFindings(account.Findings)})
		}
	}
	return map[string]any{"nodes": list}, nil
}

// NodeWaits tells what a node waits for. ref is a UUID or name.
type NodeWaits interface {
	WaitsOf(ctx context.Context, ref string) ([]Wait, error)
}

func (h handlers) waits(ctx context.Context, c echo.Context, ref string) (any, error) {
	if h.reading(c) == inspector.Linearizable {
		if err := h.Service.Current(ctx); err != nil {
			return nil, err
		}
	}
	all, err := h.Waits.WaitsOf(ctx, ref)
	return map[string]any{"waits": append([]Wait{}, all...)}, err
}
