package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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

func (i *Inspector) nodeResources() []resource {
	if i.Names == nil {
		return nil
	}
	return []resource{
		{path: pathNodes, reader: true, cost: admission.Request, get: i.nodes},
		{path: pathNode, reader: true, cost: admission.Request, get: onNode(i.node)},
	}
}

func (i *Inspector) nodes(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	switch only, err := onlyNodes(query(c)); {
	case err != nil:
		return err
	case only == "unexpected":
		return i.unexpected(ctx, c)
	case only == "stopped":
		return bootsAPI{i.Boots, i.MaxLimit, i.reading}.stopped(ctx, c)
	}
	all, err := i.Names.All(ctx)
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, nodeList{Nodes: append([]ironic.NodeName{}, all...)})
}

func (i *Inspector) node(ctx context.Context, c echo.Context, ref string) error {
	one, err := i.Names.Of(ctx, ref)
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, one)
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

type nodeCabling struct {
	Cables []hardware.Cable `json:"cables"`
}

// hardwareAPI answers the paths about the hardware of nodes, which are Trivet's own.
type hardwareAPI struct {
	hardware  Hardware
	documents bodies
	reading   func(echo.Context) inspector.Reading // how fresh an answer must be
}

func (a hardwareAPI) resources() []resource {
	if a.hardware == nil {
		return nil
	}
	return []resource{
		{path: pathNode + "/changes", reader: true, cost: admission.Dear, get: onNode(a.changes)},
		{path: pathNode + "/cabling", reader: true, cost: admission.Dear, get: onNode(a.cabling)},
		{path: pathNode + "/verdict", reader: true, cost: admission.Request, get: onNode(a.verdict)},
		{path: pathExpectations, reader: true, cost: admission.Dear, get: a.listExpectations},
		{path: pathExpectations + "/:expectation", reader: true, cost: admission.Request, get: a.showExpectation,
			put: a.putExpectation, remove: a.deleteExpectation},
	}
}

func (a hardwareAPI) changes(ctx context.Context, c echo.Context, ref string) error {
	found, err := a.hardware.Changes(ctx, ref, a.reading(c))
	if err != nil {
		return err
	}
	answer := nodeChanges{Compared: found.Compared, Changes: []nodeChange{}}
	for _, change := range found.Changes {
		answer.Changes = append(answer.Changes, nodeChange{change, change.String()})
	}
	return replyValue(c, http.StatusOK, answer)
}

func (a hardwareAPI) cabling(ctx context.Context, c echo.Context, ref string) error {
	cables, err := a.hardware.Cabling(ctx, ref, a.reading(c))
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, nodeCabling{append([]hardware.Cable{}, cables...)})
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

func (a hardwareAPI) verdict(ctx context.Context, c echo.Context, ref string) error {
	v, err := a.hardware.Verdict(ctx, ref, a.reading(c))
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, shownVerdict(v))
}

// unexpected lists the machines that are not as ordered. It needs no answer of Ironic.
func (i *Inspector) unexpected(ctx context.Context, c echo.Context) error {
	if i.Hardware == nil {
		return refuse(http.StatusNotFound, "this server judges no machines")
	}
	page, err := parsePage(query(c), i.MaxLimit)
	if err != nil {
		return err
	}
	all, err := i.Hardware.Unexpected(ctx, page, i.reading(c))
	if err != nil {
		return err
	}
	list := make([]nodeVerdict, 0, len(all))
	for _, v := range all {
		list = append(list, shownVerdict(v))
	}
	return replyValue(c, http.StatusOK, map[string]any{"nodes": list})
}

func (a hardwareAPI) listExpectations(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	all, err := a.hardware.Expectations(ctx, a.reading(c))
	if err != nil {
		return err
	}
	list := make([]json.RawMessage, 0, len(all))
	for _, e := range all {
		list = append(list, e.Body)
	}
	return replyValue(c, http.StatusOK, map[string]any{"expectations": list})
}

func (a hardwareAPI) showExpectation(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	all, err := a.hardware.Expectations(ctx, a.reading(c))
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Name == c.Param("expectation") {
			return replyValue(c, http.StatusOK, json.RawMessage(e.Body))
		}
	}
	return refuse(http.StatusNotFound, "Expectation %s was not found", c.Param("expectation"))
}

// putExpectation takes JSON or YAML, as files have an expectation.
func (a hardwareAPI) putExpectation(c echo.Context) error {
	body, release, err := a.documents.readBody(c, MaxExpectationBody)
	defer release()
	if err != nil {
		return err
	}
	e, err := hardware.ReadExpectation(body)
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "%v", err)
	case e.Name != c.Param("expectation"):
		return refuse(http.StatusBadRequest, "the expectation is called %q in its body and %q in its path", e.Name,
			c.Param("expectation"))
	}
	ctx, cancel := limited(c)
	defer cancel()
	if err := a.hardware.PutExpectation(ctx, e); err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, e)
}

func (a hardwareAPI) deleteExpectation(c echo.Context) error {
	ctx, cancel := limited(c)
	defer cancel()
	if err := a.hardware.DeleteExpectation(ctx, c.Param("expectation")); err != nil {
		return err
	}
	return reply(c, http.StatusNoContent, plainType, nil)
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

// bootsAPI answers the paths about boots, which are Trivet's own.
type bootsAPI struct {
	boots    Boots
	maxLimit int                                  // the longest page
	reading  func(echo.Context) inspector.Reading // how fresh an answer must be
}

func (a bootsAPI) resources() []resource {
	if a.boots == nil {
		return nil
	}
	return []resource{{path: pathNode + "/boot", reader: true, cost: admission.Request, get: onNode(a.boot)}}
}

func (a bootsAPI) boot(ctx context.Context, c echo.Context, ref string) error {
	node, v, err := a.boots.Locate(ctx, ref, a.reading(c))
	if err != nil {
		return err
	}
	if boot := BootOf(v, node); boot != nil {
		return replyValue(c, http.StatusOK, boot)
	}
	if _, known := v.Record(node); !known {
		return refuse(http.StatusNotFound, "Nothing was heard of node %s, and it is not under introspection", ref)
	}
	return replyValue(c, http.StatusOK, emptyBoot(v, node))
}

// stoppedNode is a machine that does not come up, or did not in time.
type stoppedNode struct {
	UUID     string        `json:"uuid"`
	Findings []BootFinding `json:"findings"`
}

// stopped lists the machines of which it was found why they do not come up, in the order of their
// nodes. It needs no answer of Ironic.
func (a bootsAPI) stopped(ctx context.Context, c echo.Context) error {
	if a.boots == nil {
		return refuse(http.StatusNotFound, "this server does not know how machines boot")
	}
	page, err := parsePage(query(c), a.maxLimit)
	if err != nil {
		return err
	}
	v, err := a.boots.State(ctx, a.reading(c))
	if err != nil {
		return err
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
	return replyValue(c, http.StatusOK, map[string]any{"nodes": list})
}

// onlyNodes reads which nodes are asked for: ?unexpected= or ?stopped=; "" is all.
func onlyNodes(q url.Values) (only string, err error) {
	for _, name := range []string{"unexpected", "stopped"} {
		switch value := q.Get(name); value {
		case "true":
			if only != "" {
				return "", refuse(http.StatusBadRequest, "ask for unexpected or for stopped nodes, not for both at once")
			}
			only = name
		case "", "false":
		default:
			return "", refuse(http.StatusBadRequest, "%s is true or false, not %q", name, value)
		}
	}
	return only, nil
}

// NodeWaits tells what a node waits for. ref is a UUID or name.
type NodeWaits interface {
	WaitsOf(ctx context.Context, ref string) ([]Wait, error)
}

// nodeWaits is the answer about one node.
type nodeWaits struct {
	Waits []Wait `json:"waits"`
}

// waitsAPI answers the path of what a node waits for, which is Trivet's own.
type waitsAPI struct {
	waits   NodeWaits
	log     Log
	reading func(echo.Context) inspector.Reading // how fresh an answer must be
}

func (a waitsAPI) resources() []resource {
	if a.waits == nil {
		return nil
	}
	return []resource{{path: pathNode + "/waits", reader: true, cost: admission.Request, get: onNode(a.list)}}
}

func (a waitsAPI) list(ctx context.Context, c echo.Context, ref string) error {
	if a.reading(c) == inspector.Linearizable {
		if err := a.log.Current(ctx); err != nil {
			return err
		}
	}
	all, err := a.waits.WaitsOf(ctx, ref)
	if err != nil {
		return err
	}
	return replyValue(c, http.StatusOK, nodeWaits{append([]Wait{}, all...)})
}
