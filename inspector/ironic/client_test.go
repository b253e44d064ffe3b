package ironic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/config"
)

const (
	node1 = "00000000-0000-4000-8000-000000000001"
	port1 = "00000000-0000-4000-8000-0000000000a1"
	mac1  = "52:54:00:00:00:01"
)

// answer is what a fake service says to one request.
type answer struct {
	status int
	body   string
}

// fault is an error in Ironic's own form.
func fault(status int, text string) answer {
	inner, err := json.Marshal(map[string]any{"faultstring": text, "faultcode": "Client", "debuginfo": nil})
	if err != nil {
		panic(err) // strings are JSON
	}
	outer, err := json.Marshal(map[string]string{"error_message": string(inner)})
	if err != nil {
		panic(err)
	}
	return answer{status, string(outer)}
}

// request is what a fake service was sent.
type request struct {
	line   string // method, path and query
	header http.Header
	body   string
}

// fake is a service that gives its answers one by one, the last one for ever.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request // guarded by mu
	answers  []answer  // guarded by mu
}

func serve(t *testing.T, answers ...answer) *fake {
	t.Helper()
	f := &fake{answers: answers}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Server.Close)
	return f
}

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client broke off, on purpose perhaps
	}
	f.mu.Lock()
	f.requests = append(f.requests, request{r.Method + " " + r.URL.RequestURI(), r.Header, string(body)})
	a := f.answers[min(len(f.requests), len(f.answers))-1]
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body) // the client may have gone
}

func (f *fake) seen() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fake) lines() []string {
	var lines []string
	for _, r := range f.seen() {
		lines = append(lines, r.line)
	}
	return lines
}

// conf reaches the service without credentials, with two further tries at once.
func conf(endpoint string) config.Ironic {
	return config.Ironic{Endpoint: endpoint, AuthType: "none", Retries: 2, Timeout: 10 * time.Second}
}

func dial(t *testing.T, c config.Ironic) *Client {
	t.Helper()
	client, err := New(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

const aNode = `{"uuid": "` + node1 + `", "name": "n1", "provision_state": "manageable", "power_state": null,
	"driver_info": {"ipmi_address": "198.18.0.1"}, "properties": {"cpus": "4"}, "extra": {}, "links": [], "instance_info": {"x": [1]}}`

var wantNode = Node{UUID: node1, Name: "n1", Provision: "manageable",
	DriverInfo: map[string]any{"ipmi_address": "198.18.0.1"}, Properties: map[string]any{"cpus": "4"},
	Extra: map[string]any{}}

const aPort = `{"uuid": "` + port1 + `", "node_uuid": "` + node1 +
	`", "address": "52:54:00:00:00:0A", "pxe_enabled": true, "extra": {"client-id": "x"}, "physical_network": null}`

var wantPort = Port{UUID: port1, Node: node1, Address: "52:54:00:00:00:0a", PXEEnabled: true,
	Extra: map[string]any{"client-id": "x"}}

// result puts what a call returned into one value.
func result(values ...any) []any { return values }

var calls = []struct {
	name   string
	do     func(context.Context, *Client) []any
	answer answer
	line   string
	body   string
	want   []any
}{
	{"node", func(ctx context.Context, c *Client) []any { return result(c.Node(ctx, node1)) },
		answer{200, aNode}, "GET /v1/nodes/" + node1 + nodeFields, "", []any{wantNode, nil}},
	{"node by name", func(ctx context.Context, c *Client) []any { return result(c.Node(ctx, "rack-1.n_1~a")) },
		answer{200, aNode}, "GET /v1/nodes/rack-1.n_1~a" + nodeFields, "", []any{wantNode, nil}},
	{"patch node", func(ctx context.Context, c *Client) []any {
		return result(c.PatchNode(ctx, node1,
			[]Patch{{Op: "add", Path: "/properties/cpus", Value: "<4>"}, {Op: "remove", Path: "/extra/u"}}))
	}, answer{200, aNode}, "PATCH /v1/nodes/" + node1,
		`[{"op":"add","path":"/properties/cpus","value":"<4>"},{"op":"remove","path":"/extra/u"}]`, []any{wantNode, nil}},
	{"node IDs", func(ctx context.Context, c *Client) []any { return result(c.NodeIDs(ctx)) },
		answer{200, `{"nodes": [{"uuid": "a", "links": []}, {"uuid": "b"}]}`}, "GET /v1/nodes?fields=uuid", "",
		[]any{[]string{"a", "b"}, nil}},
	{"no nodes", func(ctx context.Context, c *Client) []any { return result(c.NodeIDs(ctx)) },
		answer{200, `{"nodes": [], "next": null}`}, "GET /v1/nodes?fields=uuid", "", []any{[]string(nil), nil}},
	{"power valid", func(ctx context.Context, c *Client) []any { return result(c.PowerValid(ctx, node1)) },
		answer{200, `{"power": {"result": true}, "boot": {"result": false, "reason": "no image"}}`},
		"GET /v1/nodes/" + node1 + "/validate", "", []any{true, "", nil}},
	{"power not valid", func(ctx context.Context, c *Client) []any { return result(c.PowerValid(ctx, node1)) },
		answer{200, `{"power": {"result": false, "reason": "no BMC"}}`}, "GET /v1/nodes/" + node1 + "/validate", "",
		[]any{false, "no BMC", nil}},
	{"power of no driver", func(ctx context.Context, c *Client) []any { return result(c.PowerValid(ctx, node1)) },
		answer{200, `{"power": {"result": null, "reason": null}}`}, "GET /v1/nodes/" + node1 + "/validate", "",
		[]any{false, "None", nil}},
	{"power without a word", func(ctx context.Context, c *Client) []any { return result(c.PowerValid(ctx, node1)) },
		answer{200, `{"power": {"result": false}}`}, "GET /v1/nodes/" + node1 + "/validate", "",
		[]any{false, "no reason", nil}},
	{"boot device", func(ctx context.Context, c *Client) []any {
		return result(c.SetBootDevice(ctx, node1, BootPXE, false))
	},
		answer{204, ""}, "PUT /v1/nodes/" + node1 + "/management/boot_device", `{"boot_device":"pxe","persistent":false}`,
		[]any{nil}},
	{"power", func(ctx context.Context, c *Client) []any {
		return result(c.SetPower(ctx, node1, PowerReboot))
	},
		answer{202, ""}, "PUT /v1/nodes/" + node1 + "/states/power", `{"target":"rebooting"}`, []any{nil}},
	{"ports", func(ctx context.Context, c *Client) []any { return result(c.Ports(ctx, node1)) },
		answer{200, `{"ports": [` + aPort + `]}`}, "GET /v1/ports/detail?node=" + node1, "", []any{[]Port{wantPort}, nil}},
	{"create port", func(ctx context.Context, c *Client) []any {
		return result(c.CreatePort(ctx, Port{Node: node1, Address: "52:54:00:00:00:0A", PXEEnabled: true}))
	}, answer{201, aPort}, "POST /v1/ports",
		`{"node_uuid":"` + node1 + `","address":"52:54:00:00:00:0a","pxe_enabled":true,"extra":{}}`, []any{wantPort, nil}},
	{"patch port", func(ctx context.Context, c *Client) []any {
		return result(c.PatchPort(ctx, port1, []Patch{{Op: "replace", Path: "/pxe_enabled", Value: false}}))
	}, answer{200, aPort}, "PATCH /v1/ports/" + port1, `[{"op":"replace","path":"/pxe_enabled","value":false}]`,
		[]any{nil}},
	{"delete port", func(ctx context.Context, c *Client) []any { return result(c.DeletePort(ctx, port1)) },
		answer{204, ""}, "DELETE /v1/ports/" + port1, "", []any{nil}},
	{"delete no port", func(ctx context.Context, c *Client) []any { return result(c.DeletePort(ctx, port1)) },
		fault(404, "Port "+port1+" could not be found."), "DELETE /v1/ports/" + port1, "", []any{nil}},
	{"patch driver", func(ctx context.Context, c *Client) []any {
		return result(c.PatchDriver(ctx, node1,
			[]Patch{{Op: "add", Path: "/driver", Value: "ipmi"}, {Op: "add", Path: "/extra/u", Value: nil}}))
	}, answer{200, aNode}, "PATCH /v1/nodes/" + node1 + "?reset_interfaces=True",
		`[{"op":"add","path":"/driver","value":"ipmi"},{"op":"add","path":"/extra/u","value":null}]`, []any{wantNode, nil}},
	{"the whole node", func(ctx context.Context, c *Client) []any { return result(c.NodeWhole(ctx, node1)) },
		answer{200, `{"uuid": "a", "instance_info": {"x": [1.50]}}`}, "GET /v1/nodes/" + node1, "",
		[]any{map[string]any{"uuid": "a", "instance_info": map[string]any{"x": []any{json.Number("1.50")}}}, nil}},
	{"create node", func(ctx context.Context, c *Client) []any {
		return result(c.CreateNode(ctx,
			NewNode{UUID: node1, Driver: "ipmi", DriverInfo: map[string]any{"ipmi_address": "198.18.0.1"},
				Fields: map[string]string{"management_interface": "noop"}}))
	}, answer{201, aNode}, "POST /v1/nodes",
		`{"driver":"ipmi","driver_info":{"ipmi_address":"198.18.0.1"},"management_interface":"noop","uuid":"` + node1 + `"}`,
		[]any{wantNode, nil}},
	{"ports at", func(ctx context.Context, c *Client) []any { return result(c.PortsAt(ctx, "52:54:00:00:00:0A")) },
		answer{200, `{"ports": [` + aPort + `]}`},
		"GET /v1/ports?address=52%3A54%3A00%3A00%3A00%3A0a&fields=uuid,address,node_uuid", "", []any{[]Port{wantPort}, nil}},
	{"nodes with BMC", func(ctx context.Context, c *Client) []any { return result(c.NodesWithBMC(ctx)) },
		answer{200, `{"nodes": [` + aNode + `]}`}, "GET /v1/nodes?fields=uuid,provision_state,driver_info", "",
		[]any{[]Node{wantNode}, nil}},
	{"add trait", func(ctx context.Context, c *Client) []any { return result(c.AddTrait(ctx, node1, "CUSTOM/A")) },
		answer{204, ""}, "PUT /v1/nodes/" + node1 + "/traits/CUSTOM%2FA", "", []any{nil}},
	{"remove trait", func(ctx context.Context, c *Client) []any { return result(c.RemoveTrait(ctx, node1, "CUSTOM_A")) },
		answer{204, ""}, "DELETE /v1/nodes/" + node1 + "/traits/CUSTOM_A", "", []any{nil}},
	{"remove no trait", func(ctx context.Context, c *Client) []any {
		return result(c.RemoveTrait(ctx, node1, "CUSTOM_A"))
	},
		fault(404, "Node "+node1+" doesn't have a trait 'CUSTOM_A'"), "DELETE /v1/nodes/" + node1 + "/traits/CUSTOM_A", "",
		[]any{nil}},
	{"ping", func(ctx context.Context, c *Client) []any { return result(c.Ping(ctx)) },
		answer{200, `{"id": "v1"}`}, "GET /v1/", "", []any{nil}},
}

func TestCalls(t *testing.T) {
	for _, test := range calls {
		t.Run(test.name, func(t *testing.T) {
			f := serve(t, test.answer)
			got := test.do(t.Context(), dial(t, conf(f.URL)))
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("returned %+v, want %+v", got, test.want)
			}
			seen := f.seen()
			if len(seen) != 1 || seen[0].line != test.line {
				t.Fatalf("sent %q, want %q", f.lines(), test.line)
			}
			if sent := unescape(seen[0].body); sent != test.body {
				t.Errorf("body %s, want %s", sent, test.body)
			}
			checkHeader(t, seen[0])
		})
	}
}

// unescape undoes what encoding/json does for HTML's sake.
func unescape(body string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(body)
}

func checkHeader(t *testing.T, r request) {
	t.Helper()
	want := map[string]string{
		"X-Openstack-Ironic-Api-Version": "1.78",
		"Openstack-Api-Version":          "baremetal 1.78",
		"Accept":                         "application/json",
		"Authorization":                  "",
		"X-Auth-Token":                   "",
		"Content-Type":                   "",
	}
	if r.body != "" {
		want["Content-Type"] = "application/json"
	}
	for name, value := range want {
		if got := r.header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if agent := r.header.Get("User-Agent"); !strings.HasPrefix(agent, "trivet ") {
		t.Errorf("User-Agent is %q", agent)
	}
}

func TestEndpoints(t *testing.T) {
	f := serve(t, answer{200, aNode})
	for _, suffix := range []string{"", "/", "/v1", "/v1/"} {
		if _, err := dial(t, conf(f.URL+suffix)).Node(t.Context(), node1); err != nil {
			t.Errorf("%q: %v", suffix, err)
		}
	}
	for _, suffix := range []string{"/baremetal", "/baremetal/", "/baremetal/v1"} {
		if _, err := dial(t, conf(f.URL+suffix)).Node(t.Context(), node1); err != nil {
			t.Errorf("%q: %v", suffix, err)
		}
	}
	want := "GET /v1/nodes/" + node1 + nodeFields
	for i, line := range f.lines() {
		if i == 4 {
			want = "GET /baremetal/v1/nodes/" + node1 + nodeFields
		}
		if line != want {
			t.Errorf("request %d is %s, want %s", i, line, want)
		}
	}
}

func TestNewSendsNothing(t *testing.T) {
	f := serve(t, answer{200, "{}"})
	for _, auth := range []string{"none", "http_basic", "keystone"} {
		c := conf(f.URL)
		c.AuthType, c.Username, c.Password, c.Keystone.AuthURL = auth, "u", "p", f.URL
		dial(t, c)
	}
	if lines := f.lines(); len(lines) > 0 {
		t.Errorf("sent %q", lines)
	}
	if _, err := New(config.Ironic{AuthType: "kerberos"}, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "ironic.auth_type") {
		t.Errorf("an unknown kind of login: %v", err)
	}
}

// TestNamesOfNoNode asks for what Ironic would take for a list, for another
// place, or for no name.
func TestNamesOfNoNode(t *testing.T) {
	f := serve(t, answer{200, `{"nodes": []}`})
	c := dial(t, conf(f.URL))
	for _, ref := range []string{"", ".", "..", "detail", "states", "a/b", "a/states/power", "../ports", "a?b", "a b", "ä",
		"a%2fb", strings.Repeat("a", maxName+1)} {
		_, nodeErr := c.Node(t.Context(), ref)
		_, patchErr := c.PatchNode(t.Context(), ref, nil)
		_, _, validErr := c.PowerValid(t.Context(), ref)
		for _, err := range []error{nodeErr, patchErr, validErr, c.SetPower(t.Context(), ref, PowerOff),
			c.SetBootDevice(t.Context(), ref, BootPXE, false)} {
			if !errors.Is(err, ErrNoNode) || asIronic(t, err).Status != http.StatusNotFound {
				t.Errorf("%q: %v", ref, err)
			}
		}
	}
	if lines := f.lines(); len(lines) > 0 {
		t.Errorf("sent %q", lines)
	}
}

// TestConnectionsAreUsedAgain makes many calls, some of them failing, one after
// the other.
func TestConnectionsAreUsedAgain(t *testing.T) {
	connections := make(map[string]bool)
	f := &fake{answers: []answer{{200, aNode}, fault(404, "Node x could not be found."), {200, "[]"},
		{202, "something nobody reads"}}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true // one request at a time
		f.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Server.Close)
	c := dial(t, conf(f.URL))
	for i := range 20 {
		if i%2 == 0 {
			_, err := c.Node(t.Context(), node1)
			_ = err // some answers are errors
			continue
		}
		if err := c.SetPower(t.Context(), node1, PowerOff); err != nil && i > 1 {
			t.Fatal(err)
		}
	}
	if len(connections) != 1 {
		t.Errorf("20 calls took %d connections", len(connections))
	}
}

// TestManyAtOnce bounds the connections and loses no call.
func TestManyAtOnce(t *testing.T) {
	f := serve(t, answer{200, aNode})
	c := dial(t, conf(f.URL))
	var group sync.WaitGroup
	failures := make(chan error, 300)
	for range cap(failures) {
		group.Go(func() {
			if n, err := c.Node(t.Context(), node1); err != nil || n.UUID != node1 {
				failures <- fmt.Errorf("%+v, %w", n, err)
			}
		})
	}
	group.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
}

// Ironic refuses to switch a node off whose disable_power_off is true; to repeat that is of no use.
func TestNodeStaysOn(t *testing.T) {
	f := serve(t, fault(http.StatusConflict, "Failed to set node power state to power off."))
	err := dial(t, conf(f.URL)).SetPower(t.Context(), node1, PowerOff)
	if n := len(f.lines()); !errors.Is(err, ErrStaysOn) || n != 1 {
		t.Errorf("disable-power-off: %v after %d tries", err, n)
	}
}
