package ironic

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

// losing is an Ironic whose first answers to patches get lost after it did what they asked for.
type losing struct {
	*simironic.Server
	answers []int // that come in their place; 0: the connection ends
	patches int
}

func (l *losing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPatch {
		l.Server.ServeHTTP(w, r)
		return
	}
	if l.patches++; l.patches > len(l.answers) {
		l.Server.ServeHTTP(w, r)
		return
	}
	l.Server.ServeHTTP(httptest.NewRecorder(), r)
	if status := l.answers[l.patches-1]; status != 0 {
		w.WriteHeader(status)
		return
	}
	panic(http.ErrAbortHandler)
}

// loses returns a client of an Ironic with one node, whose extra is given, and answers that get lost.
func loses(t *testing.T, extra string, answers ...int) (*Client, *losing) {
	t.Helper()
	l := &losing{Server: simironic.New(simironic.Options{})}
	t.Cleanup(l.Close)
	if err := l.Enroll(simironic.Enrolment{UUID: node1}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	c := dial(t, conf(s.URL))
	var value any
	if err := json.Unmarshal([]byte(extra), &value); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PatchNode(t.Context(), node1, []Patch{{Op: "add", Path: "/extra", Value: value}}); err != nil {
		t.Fatal(err)
	}
	l.answers, l.patches = answers, 0
	return c, l
}

// volume is what the hook raid_device sends when it has found the volume.
var volume = []Patch{{Op: "remove", Path: "/extra/block_devices"},
	{Op: "add", Path: "/properties/root_device", Value: map[string]any{"serial": "s"}}}

// A patch that Ironic carried out succeeds, also if the answer got lost and the repeat finds it done.
func TestPatchWhoseAnswerIsLost(t *testing.T) {
	for name, patch := range map[string][]Patch{
		"remove": volume,
		"add":    {{Op: "add", Path: "/extra/a~1b", Value: []int{1}}, {Op: "replace", Path: "/extra/a~1b", Value: 2.5}},
	} {
		for _, answers := range [][]int{{0}, {502}, {504, 504}} {
			c, l := loses(t, `{"block_devices": {"serials": ["a"]}, "kept": 1}`, answers...)
			n, err := c.PatchNode(t.Context(), node1, patch)
			if err != nil || n.UUID != node1 || l.patches != len(answers)+1 {
				t.Errorf("patch-lost: %s, after %v and %d patches: %v", name, answers, l.patches, err)
			}
			_, devices := n.Extra["block_devices"]
			if n.Extra["kept"] == nil || devices != (name == "add") || (n.Properties["root_device"] == nil) != devices {
				t.Errorf("patch-lost: %s, after %v: the node is told as %+v", name, answers, n)
			}
		}
	}
}

// A patch that appends to a list is not sent again when its answer may be lost, and no other peer
// is to try it; it is sent again where it is known to have done nothing.
func TestPatchThatAppendsOnce(t *testing.T) {
	for _, path := range []string{"/extra/list/-", "/extra/list/0"} {
		for _, status := range []int{0, 502, 504} {
			c, l := loses(t, `{"list": ["a"]}`, status)
			_, err := c.PatchNode(t.Context(), node1, []Patch{{Op: "add", Path: path, Value: "b"}})
			if !errors.Is(err, ErrOutcomeUnknown) || Unjudged(err) || !strings.Contains(err.Error(), "may have carried") {
				t.Errorf("append-once: %s after %d: %v", path, status, err)
			}
			n, err := c.Node(t.Context(), node1)
			if list, _ := n.Extra["list"].([]any); err != nil || len(list) != 2 || l.patches != 1 {
				t.Errorf("append-once: %s after %d: the list is %v after %d patches (%v)", path, status, list, l.patches, err)
			}
		}
		for _, status := range []int{409, 429, 503} {
			f := serve(t, fault(status, "busy"), answer{200, aNode})
			_, err := dial(t, conf(f.URL)).PatchNode(t.Context(), node1, []Patch{{Op: "add", Path: path, Value: "b"}})
			if err != nil || len(f.lines()) != 2 {
				t.Errorf("append-once: %s after %d: %d patches, %v", path, status, len(f.lines()), err)
			}
		}
	}
	asked := 0
	c := over(t, func(*http.Request) (*http.Response, error) {
		if asked++; asked == 1 {
			return nil, unsent{io.ErrUnexpectedEOF}
		}
		return says(answer{200, aNode}), nil
	})
	_, err := c.PatchNode(t.Context(), node1, []Patch{{Op: "add", Path: "/extra/list/-", Value: "b"}})
	if err != nil || asked != 2 {
		t.Errorf("append-once: after a patch that was not sent: %d patches, %v", asked, err)
	}
}

// A login that fails comes before the call, which is not sent: it goes out once the login succeeds.
func TestFailedLoginLeavesNoOutcomeUnknown(t *testing.T) {
	err := fromKeystone("ironic.username", &keystone.Error{Call: "POST http://k/v3/auth/tokens", Err: io.ErrUnexpectedEOF})
	if Unknown(err) || !Unjudged(err) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("login-unknown: after a login without an answer: unknown %t, %v", Unknown(err), err)
	}
	for _, status := range []int{401, 403, 404, 500, 502} {
		refused := gophercloud.ErrUnexpectedResponseCode{Actual: status}
		err = fromKeystone("ironic.username", &keystone.Error{Call: "POST http://k/v3/auth/tokens", Err: refused})
		if Unknown(err) || !Unjudged(err) || Busy(err) || asIronic(t, err).Status != status {
			t.Errorf("login-unknown: after a login that met %d: unknown %t, %v", status, Unknown(err), err)
		}
	}
}

// What the repeat is refused for is told where the node is not as the patch leaves it.
func TestPatchThatIsNotDone(t *testing.T) {
	for name, patch := range map[string][]Patch{
		"another serial":       {{Op: "remove", Path: "/extra/gone"}, {Op: "add", Path: "/extra/kept", Value: 2}},
		"nothing to be set":    {{Op: "remove", Path: "/extra/gone"}, {Op: "add", Path: "/properties/x", Value: nil}},
		"no object":            {{Op: "remove", Path: "/extra/kept/gone"}},
		"there, and no object": {{Op: "remove", Path: "/extra/kept"}, {Op: "add", Path: "/extra/kept/x", Value: 1}},
	} {
		c, l := loses(t, `{"kept": 1}`)
		if _, err := c.PatchNode(t.Context(), node1, patch); asIronic(t, err).Status != 400 || l.patches != 1 {
			t.Errorf("patch-refused: %s: %d patches, %v", name, l.patches, err)
		}
	}
}
