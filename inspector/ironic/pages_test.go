package ironic

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/test/sandbox/simironic"
)

func page(ids, next string) answer {
	var nodes []string
	for id := range strings.FieldsSeq(ids) {
		nodes = append(nodes, fmt.Sprintf(`{"uuid": %q}`, id))
	}
	return answer{200, fmt.Sprintf(`{"nodes": [%s], "next": %q}`, strings.Join(nodes, ","), next)}
}

func TestPages(t *testing.T) {
	// The links name hosts where nobody is, and a path that a proxy rewrote.
	f := serve(t, page("a b", "http://ironic.invalid:6385/v1/nodes?fields=uuid&limit=2&marker=b"),
		page("c d", "https://192.0.2.1/elsewhere/v1/nodes?fields=uuid&limit=2&marker=d"), page("e", ""))
	ids, err := dial(t, conf(f.URL+"/baremetal")).NodeIDs(t.Context())
	if err != nil || !reflect.DeepEqual(ids, []string{"a", "b", "c", "d", "e"}) {
		t.Errorf("%q, %v", ids, err)
	}
	want := []string{"GET /baremetal/v1/nodes?fields=uuid", "GET /baremetal/v1/nodes?fields=uuid&limit=2&marker=b",
		"GET /baremetal/v1/nodes?fields=uuid&limit=2&marker=d"}
	if lines := f.lines(); !reflect.DeepEqual(lines, want) {
		t.Errorf("sent %q", lines)
	}
}

func TestPagesOfPorts(t *testing.T) {
	f := serve(t, answer{200, `{"ports": [` + aPort + `], "next": "http://h/v1/ports/detail?node=n&limit=1&marker=m"}`},
		answer{200, `{"ports": [` + aPort + `]}`})
	ports, err := dial(t, conf(f.URL)).Ports(t.Context(), node1)
	if err != nil || len(ports) != 2 {
		t.Errorf("%+v, %v", ports, err)
	}
	if lines := f.lines(); len(lines) != 2 || lines[0] != "GET /v1/ports/detail?node="+node1 ||
		lines[1] != "GET /v1/ports/detail?limit=1&marker=m&node="+node1 {
		t.Errorf("sent %q", lines)
	}
}

// Ironic's links lack the filters by which the first page was asked for.
func TestLinksLeadToTheSameList(t *testing.T) {
	s := simironic.New(simironic.Options{})
	t.Cleanup(s.Close)
	enrol := func(i int, state string, ports int) {
		e := simironic.Enrolment{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), State: state}
		for port := range ports {
			e.MACs = append(e.MACs, fmt.Sprintf("52:54:00:%02x:%02x:%02x", i%256, port/256, port%256))
		}
		if err := s.Enroll(e); err != nil {
			t.Fatal(err)
		}
	}
	const page, inspected = 1000, 1001
	for i := range inspected {
		enrol(i, InspectWait, 0)
	}
	enrol(2000, "active", page+1)
	enrol(2001, "active", 2)
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); !q.Has("provision_state") && !q.Has("node") {
			t.Errorf("page-link: asked without the filter: %s", r.URL)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	c := dial(t, conf(f.URL))
	nodes, err := c.Inspected(t.Context(), []string{"no-inspect"})
	if err != nil || len(nodes) != inspected {
		t.Errorf("page-link: %d nodes are inspected, not %d (%v)", len(nodes), inspected, err)
	}
	for name, list := range map[string]func() (int, error){
		"ports": func() (int, error) {
			ports, err := c.Ports(t.Context(), "00000000-0000-4000-8000-000000002000")
			return len(ports), err
		},
		"addresses": func() (int, error) {
			addresses, err := c.Addresses(t.Context(), "00000000-0000-4000-8000-000000002000")
			return len(addresses), err
		},
	} {
		if n, err := list(); err != nil || n != page+1 {
			t.Errorf("page-link: %d %s of the node, not %d (%v)", n, name, page+1, err)
		}
	}
}

// What an Ironic lists although it was not asked for is in no list.
func TestListsAreOfWhatWasAsked(t *testing.T) {
	const production = "00000000-0000-4000-8000-000000000002"
	f := serve(t, answer{200, `{"nodes":[{"uuid":"` + production + `","inspect_interface":"agent","provision_state":"active"}],
		"ports":[` + aPort + `,{"uuid":"p2","node_uuid":"` + production + `","address":"52:54:00:00:00:02"}]}`})
	c := dial(t, conf(f.URL))
	if got, err := c.Inspected(t.Context(), []string{"agent"}); err != nil || len(got) > 0 {
		t.Errorf("wrong-state: a node in production is inspected: %v (%v)", got, err)
	}
	ports, err := c.Ports(t.Context(), strings.ToUpper(node1))
	if err != nil || !reflect.DeepEqual(ports, []Port{wantPort}) {
		t.Errorf("wrong-node: ports of %s are %+v (%v)", node1, ports, err)
	}
	if got, err := c.Addresses(t.Context(), node1); err != nil || len(got) != 1 {
		t.Errorf("wrong-node: addresses of %s are %v (%v)", node1, got, err)
	}
}

// Where a page is one entry, each answer has a link to a next one; that of an address leads
// to it again.
func TestPageOfAnAddressIsTheLast(t *testing.T) {
	f := serve(t, answer{200, `{"ports": [` + aPort + `], "next": "http://h/v1/ports?limit=1&marker=` + port1 + `"}`})
	ports, err := dial(t, conf(f.URL)).PortsAt(t.Context(), "52:54:00:00:00:0a")
	if err != nil || !reflect.DeepEqual(ports, []Port{wantPort}) || len(f.lines()) != 1 {
		t.Errorf("page-link: of an address: %+v (%v), sent %q", ports, err, f.lines())
	}
}

func TestPagesOfAllPorts(t *testing.T) {
	f := serve(t, answer{200,
		`{"ports": [` + aPort + `], "next": "http://h/v1/ports?fields=uuid,address,node_uuid&marker=m"}`},
		answer{200, `{"ports": [` + aPort + `]}`})
	ports, err := dial(t, conf(f.URL)).AllPorts(t.Context())
	if err != nil || len(ports) != 2 {
		t.Errorf("%+v, %v", ports, err)
	}
	if lines := f.lines(); len(lines) != 2 || lines[0] != "GET /v1/ports?fields=uuid,address,node_uuid" ||
		!strings.HasSuffix(lines[1], "marker=m") {
		t.Errorf("sent %q", lines)
	}
	f = serve(t, answer{200, `{"ports": [` + aPort + `], "next": "http://h/v1/ports?marker=m"}`}, answer{500, ""})
	if ports, err := dial(t, conf(f.URL)).AllPorts(t.Context()); err == nil {
		t.Errorf("half a list was taken for one: %+v", ports)
	}
}

// TestHalfAListIsNone breaks the second page in every way.
func TestHalfAListIsNone(t *testing.T) {
	first := page("a b", "http://h/v1/nodes?fields=uuid&marker=b")
	for _, test := range []struct {
		name    string
		answers []answer
		want    string
	}{
		{"first fails", []answer{{500, ""}}, "Ironic answered 500"},
		{"second fails", []answer{first, {500, ""}}, "Ironic answered 500"},
		{"second stays busy", []answer{first, fault(503, "busy")}, "busy"},
		{"second is garbage", []answer{first, {200, "<html>"}}, "Ironic said yes, and its answer cannot be read"},
		{"second is half", []answer{first, {200, `{"nodes": [{"uuid": "c"}`}},
			"Ironic said yes, and its answer cannot be read"},
		{"no list", []answer{{200, `{}`}}, "Ironic's answer has no list of nodes"},
		{"null for a list", []answer{first, {200, `{"nodes": null}`}}, "Ironic's answer has no list of nodes"},
		{"a node without uuid", []answer{{200, `{"nodes": [{"uuid": "a"}, {}]}`}}, "Ironic's list has a node without a uuid"},
		{"link to itself", []answer{first, page("c", "http://h/v1/nodes?fields=uuid&marker=b")},
			"Ironic's links to the next page lead in a circle"},
		{"link to the beginning", []answer{page("a", "http://h/v1/nodes?fields=uuid")},
			"Ironic's links to the next page lead in a circle"},
		{"link to nowhere", []answer{page("a", "http://h/v1/nodes")}, "Ironic's link to the next page cannot be followed"},
		{"no link", []answer{page("a", "%zz")}, "Ironic's link to the next page cannot be followed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ids, err := dial(t, conf(serve(t, test.answers...).URL)).NodeIDs(t.Context())
			if e := asIronic(t, err); ids != nil || !strings.HasPrefix(e.Error(), test.want) {
				t.Errorf("%q, %v", ids, e)
			}
		})
	}
}

// TestListThatChanges has the last item of a page deleted before the next one is asked for: Ironic knows its
// link's marker no more. The list begins again, and is no verdict in the end; a node that is gone is.
func TestListThatChanges(t *testing.T) {
	first := answer{200, `{"ports": [` + aPort + `], "next": "http://h/v1/ports?fields=uuid,address,node_uuid&marker=m"}`}
	gone, last := fault(404, "Port m could not be found."), answer{200, `{"ports": [` + aPort + `]}`}
	for _, test := range []struct {
		name    string
		answers []answer
		ports   int // 0 if it fails
		busy    bool
	}{
		{"once", []answer{first, gone, first, last}, 2, false},
		{"twice", []answer{first, gone, first, gone, last}, 1, false},
		{"each time", []answer{first, gone, first, gone, first, gone}, 0, true},
		{"no list at all", []answer{gone}, 0, false},
	} {
		f := serve(t, test.answers...)
		ports, err := dial(t, conf(f.URL)).AllPorts(t.Context())
		if len(ports) != test.ports || (err == nil) != (test.ports > 0) || Busy(err) != test.busy ||
			Unjudged(err) != test.busy {
			t.Errorf("page-gone: %s: %d ports, want %d (%v)", test.name, len(ports), test.ports, err)
		}
		if lines := f.lines(); len(lines) != len(test.answers) {
			t.Errorf("page-gone: %s: sent %q", test.name, lines)
		}
	}
	f := serve(t, page("a b", "http://h/v1/nodes?fields=uuid&marker=b"), fault(404, "Node b could not be found."),
		page("a", ""))
	if ids, err := dial(t, conf(f.URL)).NodeIDs(t.Context()); err != nil || !reflect.DeepEqual(ids, []string{"a"}) {
		t.Errorf("page-gone: nodes: %q, %v", ids, err)
	}
	f = serve(t, answer{200, `{"ports": [` + aPort + `], "next": "http://h/v1/ports/detail?marker=m"}`},
		fault(404, "Node "+node1+" could not be found."))
	if ports, err := dial(t, conf(f.URL)).Ports(t.Context(), node1); !errors.Is(err, ErrNoNode) {
		t.Errorf("page-gone: ports of a node that is gone: %+v, %v", ports, err)
	}
}

func TestBadPorts(t *testing.T) {
	for _, body := range []string{`{}`, `{"ports": [{"address": "x"}]}`, `[]`} {
		ports, err := dial(t, conf(serve(t, answer{200, body}).URL)).Ports(t.Context(), node1)
		if asIronic(t, err); ports != nil {
			t.Errorf("%s: %+v", body, ports)
		}
	}
}

func TestPagesAreBounded(t *testing.T) {
	requests := 0
	c := over(t, func(*http.Request) (*http.Response, error) {
		requests++
		return says(page("a", fmt.Sprintf("http://h/v1/nodes?marker=%d", requests))), nil
	})
	if _, err := c.NodeIDs(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 10000 pages") {
		t.Error(err)
	}
	if requests != maxPages {
		t.Errorf("%d requests", requests)
	}
}

func TestNodeNames(t *testing.T) {
	f := serve(t, answer{200,
		`{"nodes": [{"uuid": "AA", "name": "node-1"}], "next": "http://h/v1/nodes?fields=uuid,name&marker=AA"}`},
		answer{200, `{"nodes": [{"uuid": "bb", "name": null}]}`})
	got, err := dial(t, conf(f.URL)).NodeNames(t.Context())
	if err != nil || !reflect.DeepEqual(got, []NodeName{{UUID: "aa", Name: "node-1"}, {UUID: "bb"}}) {
		t.Errorf("%+v, %v", got, err)
	}
	if lines := f.lines(); len(lines) != 2 || lines[0] != "GET /v1/nodes?fields=uuid,name" ||
		!strings.HasSuffix(lines[1], "marker=AA") {
		t.Errorf("sent %q", lines)
	}
}
