package ironic

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

func asIronic(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error is a %T, want *Error: %v", err, err)
	}
	return e
}

func TestSentence(t *testing.T) {
	for body, want := range map[string]string{
		fault(400, "Bad value").body:                                                                           "Bad value",
		`{"error_message": {"faultstring": "Plain object"}}`:                                                   "Plain object",
		`{"error_message": "words alone"}`:                                                                     "words alone",
		`{"error_message": "{\"faultstring\": \"ends too ea"}`:                                                 "",
		`{"error_message": "{\"faultcode\": \"Client\"}"}`:                                                     "",
		`{"error_message": "{\"code\": 400, \"title\": \"Bad Request\", \"description\": \"Expected UUID\"}"}`: "Expected UUID",
		`{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"\"}"}`:                "",
		`{"error_message": null}`:                                                                              "",
		`{"error_message": 7}`:                                                                                 "",
		`{"error": {"code": 401, "message": "Authenticate, please"}}`:                                          "Authenticate, please",
		`{"error": "words"}`:                                                                                   "",
		`<html><body>Bad gateway</body></html>`:                                                                "",
		`[]`:                                                                                                   "",
		`null`:                                                                                                 "",
		``:                                                                                                     "",
	} {
		if got := sentence([]byte(body)); got != want {
			t.Errorf("%s says %q, want %q", body, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	getNode := func(ctx context.Context, c *Client) error { _, err := c.Node(ctx, node1); return err }
	createPort := func(ctx context.Context, c *Client) error {
		_, err := c.CreatePort(ctx, Port{Node: node1, Address: mac1})
		return err
	}
	patchPort := func(ctx context.Context, c *Client) error {
		return c.PatchPort(ctx, port1, []Patch{{Op: "add", Path: "/physical_network", Value: "a"}})
	}
	for _, test := range []struct {
		name   string
		do     func(context.Context, *Client) error
		answer answer
		tries  int
		want   string // beginning of the text
		is     error
	}{
		{"no node", getNode, fault(404, "Node x could not be found."), 1, "Node x could not be found.", ErrNoNode},
		{"no name", getNode, fault(400, "Expected UUID or name for node: a b"), 1, "Expected UUID or name", ErrNoNode},
		{"power of no node", func(ctx context.Context, c *Client) error { return c.SetPower(ctx, node1, "power off") },
			fault(404, "Node x could not be found."), 1, "Node x", ErrNoNode},
		{"a wrong address", getNode, answer{404, "<html>Not Found</html>"}, 1,
			`Ironic answered 404 Not Found, and no reason that can be read: "<html>`, nil},
		{"a wrong path", getNode,
			answer{404, `{"error_message": "{\"code\": 404, \"title\": \"Not Found\", \"description\": \"\"}"}`}, 1,
			"Ironic answered 404 Not Found, and no reason that can be read: ", nil},
		{"port exists", createPort, fault(409, "A port with MAC address "+mac1+" already exists."), 1,
			"A port with MAC address", ErrPortExists},
		{"port of a locked node", createPort,
			fault(409, "Node x is locked by host y, please retry after the current operation is completed."), 3,
			"Node x is locked", nil},
		{"link of a locked node", patchPort,
			fault(409, "Node x is locked by host y, please retry after the current operation is completed."), 3,
			"Node x is locked", nil},
		{"link of a deployed node", patchPort,
			fault(409,
				"Port p can not have any connectivity attributes (pxe_enabled, portgroup_id, physical_network, local_link_connection) updated unless node n is in a enroll, inspecting, inspect wait, manageable state or in maintenance mode. The current state is active."),
			1, "Port p can not have any connectivity attributes", errDeployed},
		{"bad request", getNode, fault(400, "Nonsense"), 1, "Nonsense", nil},
		{"too old", getNode, fault(406, "The supported version range is: [1.1, 1.58]."), 1,
			"The supported version range is: [1.1, 1.58]. Trivet speaks 1.78.", nil},
		{"credentials", getNode, answer{401, `{"error": {"message": "Log in."}}`}, 1,
			`Ironic refused the credentials: check ironic.auth_type, ironic.username "" and ironic.password. Log in.`, nil},
		{"nothing said", getNode, answer{500, ""}, 3, "Ironic answered 500 Internal Server Error", nil},
		{"half JSON", getNode, answer{500, `{"error_message": "{`}, 3,
			`Ironic answered 500 Internal Server Error, and no reason that can be read: "{`, nil},
		{"yes, in HTML", getNode, answer{200, "<html>Welcome</html>"}, 1, "Ironic said yes, and its answer cannot be read: ",
			nil},
		{"yes, and half", getNode, answer{200, aNode[:50]}, 1, "Ironic said yes, and its answer cannot be read: ", nil},
		{"yes, of another shape", getNode, answer{200, `{"uuid": ["x"]}`}, 1,
			"Ironic said yes, and its answer cannot be read: ", nil},
		{"yes, and no node", getNode, answer{200, `{"nodes": []}`}, 1, "Ironic's answer about a node has no uuid", nil},
		{"yes, and no content", getNode, answer{204, ""}, 1, "Ironic said yes, and its answer cannot be read: ", nil},
		{"yes, and no port", createPort, answer{201, `{}`}, 1, "Ironic's answer about a port has no uuid", nil},
		{"no power", func(ctx context.Context, c *Client) error { _, _, err := c.PowerValid(ctx, node1); return err },
			answer{200, `{}`}, 1, "Ironic's validation says nothing about power", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := serve(t, test.answer)
			err := test.do(t.Context(), dial(t, conf(f.URL)))
			e := asIronic(t, err)
			if !strings.HasPrefix(e.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) ||
				test.is == nil && e.Err != nil {
				t.Errorf("%q (because of %v), want %q and %v", e.Error(), e.Err, test.want, test.is)
			}
			if e.Status != test.answer.status && test.answer.status/100 != 2 || e.Call == "" {
				t.Errorf("status %d of %q", e.Status, e.Call)
			}
			if got := len(f.seen()); got != test.tries {
				t.Errorf("%d tries, want %d", got, test.tries)
			}
		})
	}
}

func TestLongTextsAreCut(t *testing.T) {
	f := serve(t, fault(400, strings.Repeat("ö", 1<<14)), answer{400, strings.Repeat("x", 1<<20)})
	c := dial(t, conf(f.URL))
	for range 2 {
		_, err := c.Node(t.Context(), node1)
		if text := asIronic(t, err).Error(); len(text) > maxMessage+len("…") || !utf8.ValidString(text) {
			t.Errorf("%d bytes: %.60q", len(text), text)
		}
	}
}

func TestLargeAnswersAreRefused(t *testing.T) {
	blank := strings.Repeat(" ", maxNode)
	f := serve(t, answer{200, blank + aNode}, answer{200, strings.Repeat(blank, 16) + `{"nodes": []}`})
	c := dial(t, conf(f.URL))
	_, nodeErr := c.Node(t.Context(), node1)
	_, listErr := c.NodeIDs(t.Context())
	for _, err := range []error{nodeErr, listErr} {
		if e := asIronic(t, err); !strings.Contains(e.Error(), "larger than") {
			t.Errorf("%v", e)
		}
	}
	if n := len(f.seen()); n != 2 {
		t.Errorf("%d requests, want 2: the answer will not shrink", n)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := serve(t, answer{200, aNode})
	f := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusMovedPermanently))
	t.Cleanup(f.Close)
	err := dial(t, conf(f.URL)).SetPower(t.Context(), node1, PowerOff)
	if e := asIronic(t, err); !strings.Contains(e.Error(), "redirect to "+elsewhere.URL) ||
		e.Status != http.StatusMovedPermanently {
		t.Errorf("%d %v", e.Status, e)
	}
	if lines := elsewhere.lines(); len(lines) > 0 {
		t.Errorf("sent %q", lines)
	}
}

func TestNoServerThere(t *testing.T) {
	f := serve(t, answer{200, aNode})
	f.Close()
	c := dial(t, conf(f.URL))
	_, err := c.Node(t.Context(), node1)
	e := asIronic(t, err)
	if e.Status != 0 || !Unjudged(err) || !strings.HasPrefix(e.Error(), "no answer from Ironic: dial tcp ") ||
		!strings.HasSuffix(e.Error(), "(3 tries)") {
		t.Errorf("status %d: %v", e.Status, e)
	}
	if err := c.Ping(t.Context()); !Unjudged(err) {
		t.Errorf("ping: %v", err)
	}
}

func TestPing(t *testing.T) {
	for given, reachable := range map[answer]bool{{200, ""}: true, {204, ""}: true, {300, ""}: true, {400, ""}: true,
		fault(404, "Resource could not be found."): true, {429, ""}: true,
		{401, ""}: false, {403, ""}: false, {404, "default backend - 404"}: false, {404, ""}: false,
		{500, ""}: false, {502, ""}: false, {503, ""}: false} {
		f := serve(t, given)
		c := dial(t, conf(f.URL))
		ctx := WithGuard(t.Context(), func() error { return ErrNotAllowed })
		if err := c.Ping(ctx); (err == nil) != reachable {
			t.Errorf("ping: %v: %v", given, err)
		}
		if n := len(f.seen()); n != 1 {
			t.Errorf("ping: %v: %d requests, want 1", given, n)
		}
	}
}
