package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/haconfig"
)

// What an attack calls, besides an option's name: its listener. "" is the API.
const (
	atPeers   = "the peers' port"
	atElector = "elector.listen"
	atWebhook = "haconfig.listen"
)

// Whose certificate an attack shows.
const (
	ofPeer     = "a peer's certificate"
	ofOperator = "an operator's certificate"
)

// crowdRoute is what an attack asks for.
type crowdRoute struct {
	Method, Path string // Method is HANDSHAKE where nothing is asked, CONNECT where no word is said
	Accept       string // a header
	Body         string
	Padding      int    // bytes that a body of JSON has besides
	Unread       bool   // answers are not taken
	Silent       bool   // the end of the body does not come
	At           string // the listener
	With         string // whose certificate, for HTTP/2
}

const (
	onlyHandshake = "HANDSHAKE"
	onlyConnect   = "CONNECT"
)

func (r crowdRoute) name() string {
	name := strings.TrimSpace(r.Method + " " + r.Path)
	if r.Padding > 0 {
		name += fmt.Sprintf(" (%d MiB)", r.Padding>>20)
	}
	if r.Unread {
		name += " (unread)"
	}
	if r.Silent {
		name += " (silent)"
	}
	if r.At != "" {
		name += " at " + r.At
	}
	if r.With != "" {
		name += " with " + r.With
	}
	return name
}

// routes are those of the description of the API, those of the page, of health, of the
// elector, the webhook and the peers' port, and what cost the most before work was bounded.
func (c *crowd) routes(ctx context.Context) ([]crowdRoute, error) {
	_, text, err := c.call(ctx, http.MethodGet, "http://"+c.cluster[0].api+"/v1/openapi.json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read the description of the API: %w", err)
	}
	fill := strings.NewReplacer("{node}", uuid.NewString(), "{rule}", uuid.NewString(), "{lease}", "crowd", "{key}",
		"crowd", "{component}", "crowd", "{member}", "crowd")
	var all []crowdRoute
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range []string{"get", "post", "put", "delete"} {
			if _, ok := document.Paths[path][method]; ok {
				all = append(all, crowdRoute{Method: strings.ToUpper(method), Path: fill.Replace(path), Body: "{}"})
			}
		}
	}
	known := "/v1/introspection/" + c.nodes[0]
	for _, path := range []string{
		"/metrics", "/readyz", "/livez", "/v1/events?limit=10000", "/v1/events?node=" + c.nodes[0],
		"/v1/events?wait=50s&" + strings.Repeat("a&", 60),
		"/v1/introspection?limit=1000", known, known + "/data", "/v1/nodes/" + c.nodes[0],
		"/ui/", "/ui/api/session", "/ui/api/machines", "/ui/api/machines?q=52:54", "/ui/api/findings", "/ui/api/v1/status",
		"/ui/api/v1/members", "/ui/api/v1/failover",
		"/ui/api/v1/failover/remediations", "/ui/api/v1/firewall/explain/52:54:c0:00:00:00",
	} {
		all = append(all, crowdRoute{Method: http.MethodGet, Path: path})
	}
	return append(slices.Concat(all, nextToTheAPI()),
		crowdRoute{Method: http.MethodGet, Path: "/v1/events?after=0", Accept: "text/event-stream", Unread: true},
		crowdRoute{Method: http.MethodGet, Path: "/v1/events?limit=1000", Unread: true},
		crowdRoute{Method: http.MethodGet, Path: known + "/data", Unread: true},
		crowdRoute{Method: http.MethodPost, Path: "/ui/api/session", Body: `{"user":"a","password":"b"}`},
		crowdRoute{Method: http.MethodPost, Path: "/ui/api/session", Body: `{"user":"a","password":"b"}`, Silent: true},
		crowdRoute{Method: http.MethodPost, Path: "/v1/continue", Padding: 4 << 20},
		crowdRoute{Method: onlyConnect},
	), nil
}

// nextToTheAPI are the attacks on the other listeners, among them those with stolen
// certificates.
func nextToTheAPI() []crowdRoute {
	review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"group":"apps","version":"v1","kind":"Deployment"},
"namespace":"ns-1","name":"demo","operation":"CREATE","object":%s}}`, reviewed())
	all := []crowdRoute{
		{Method: http.MethodGet, Path: "/", At: atElector},
		{Method: onlyConnect, At: atElector},
		{Method: http.MethodGet, Path: haconfig.PathHealthz, At: atWebhook},
		{Method: http.MethodPost, Path: haconfig.PathMutate, Body: review, At: atWebhook},
		{Method: onlyHandshake, At: atWebhook},
		{Method: onlyHandshake, At: atPeers},
		{Method: onlyHandshake, At: atPeers, With: ofPeer},
		{Method: http.MethodPost, Path: "/peer/v1/join", Body: "{}", At: atPeers},
		{Method: http.MethodPost, Path: "/peer/v1/proposals", Body: "{}", At: atPeers, With: ofPeer},
		{Method: http.MethodPost, Path: "/peer/v1/leases/end", Body: "{}", At: atPeers, With: ofPeer},
	}
	for _, path := range []string{"contact", "read-index", "doctor", "bundle"} {
		all = append(all, crowdRoute{Method: http.MethodGet, Path: "/peer/v1/" + path, At: atPeers, With: ofPeer})
	}
	return append(all, crowdRoute{Method: http.MethodGet, Path: "/v1/status", At: atPeers, With: ofOperator})
}

// attackOrder is what the process of an attack is told.
type attackOrder struct {
	Route       crowdRoute
	Address     string
	Sources     int
	Credentials []byte // of Route.With
}

// attack is a process with connections that ask for one route: what it computes is not
// done by this process, whose honest callers and machines would wait for it. It has the
// priority of the peers, and so as much of the processors as they, which a real attacker
// does not take from them: what a row says of both tells how much that is.
type attack struct {
	process *exec.Cmd
	quiet   io.Closer    // ends it
	said    bytes.Buffer // what it was answered
}

// begin starts an attack on a peer.
func (c *crowd) begin(ctx context.Context, leader *process, r crowdRoute, sources int) (*attack, error) {
	order := attackOrder{Route: r, Address: leader.api, Sources: sources}
	switch r.At {
	case "":
	case atPeers:
		order.Address = leader.address
	default:
		order.Address = leader.more[r.At]
	}
	var err error
	if order.Credentials, err = c.stolen(ctx, r.With, leader); err != nil {
		return nil, err
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encode an attack: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	a := &attack{process: exec.Command(self, "-attack")}
	a.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	a.process.Stdout, a.process.Stderr = &a.said, os.Stderr
	in, err := a.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("speak to an attack: %w", err)
	}
	a.quiet = in
	if err := a.process.Start(); err != nil {
		return nil, fmt.Errorf("start an attack: %w", err)
	}
	_, err = fmt.Fprintf(in, "%s\n", text)
	return a, err
}

// stolen returns the credentials of another peer than the leader, or an operator's.
func (c *crowd) stolen(ctx context.Context, whose string, leader *process) ([]byte, error) {
	switch whose {
	case ofOperator:
		text, err := leader.command(ctx, "cert", "issue-operator", "crowd")
		return []byte(text + "\n"), err
	case ofPeer:
		other := c.cluster[slices.IndexFunc(c.cluster, func(p *process) bool { return p != leader })]
		_, cred, err := datadir.Peek(other.dir)
		if err != nil {
			return nil, err
		}
		return cred.Encode()
	}
	return nil, nil
}

// attackLimit bounds how long an attack takes to end.
const attackLimit = 20 * time.Second

// end ends the attack, and returns what became of it and its processor time.
func (a *attack) end() (text string, used time.Duration, err error) {
	err = a.quiet.Close()
	late := time.AfterFunc(attackLimit, func() { _ = a.process.Process.Kill() })
	defer late.Stop()
	err = errors.Join(err, a.process.Wait())
	if state := a.process.ProcessState; state != nil {
		used = state.UserTime() + state.SystemTime()
	}
	return strings.TrimSpace(a.said.String()), used, err
}
