package ironic

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
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
	f := serve(t, answer{200, `{"ports": [` + aPort + `], "next": "http://h/v1/ports/detail?node=n&marker=m"}`},
		answer{200, `{"ports": [` + aPort + `]}`})
	ports, err := dial(t, conf(f.URL)).Ports(t.Context(), "n m")
	if err != nil || len(ports) != 2 {
		t.Errorf("%+v, %v", ports, err)
	}
	if lines := f.lines(); len(lines) != 2 || lines[0] != "GET /v1/ports/detail?node=n+m" ||
		lines[1] != "GET /v1/ports/detail?node=n&marker=m" {
		t.Errorf("sent %q", lines)
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
