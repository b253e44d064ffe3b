package simironic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	first  = "00000000-0000-4000-8000-000000000001"
	second = "00000000-0000-4000-8000-000000000002"
	mac    = "52:54:00:00:00:01"
)

// enrolled returns an Ironic with two nodes, the first of which has a port.
func enrolled(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	for _, e := range []Enrolment{{UUID: first, Name: "one", BMC: "198.18.0.1", MACs: []string{mac}}, {UUID: second}} {
		if err := s.Enroll(e); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// call sends one request with the version that an inspector sends.
func call(s http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set(versionHeader, "1.78")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// faultstring digs the sentence out of an error body.
func faultstring(t *testing.T, body []byte) string {
	t.Helper()
	var outer struct {
		Message string `json:"error_message"`
	}
	var inner struct {
		Text string `json:"faultstring"`
	}
	if err := errors.Join(json.Unmarshal(body, &outer), json.Unmarshal([]byte(outer.Message), &inner)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return inner.Text
}

func TestCalls(t *testing.T) {
	node, port := "/v1/nodes/"+first, "/v1/ports"
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		want                     string // within the body, or within the faultstring of an error
	}{
		{"what the original ironic-inspector begins with", "GET", "/", "", 200, `"default_version"`},
		{"version", "GET", "/v1", "", 200, `"id":"v1"`},
		{"version with a slash", "GET", "/v1/", "", 200, `"id":"v1"`},
		{"node by UUID", "GET", node, "", 200, `"ipmi_address":"198.18.0.1"`},
		{"node by name", "GET", "/v1/nodes/one", "", 200, `"uuid":"` + first + `"`},
		{"some fields", "GET", node + "?fields=uuid", "", 200, `{"uuid":"` + first + `"}`},
		{"no such field", "GET", node + "?fields=colour", "", 400, "colour"},
		{"no such node", "GET", "/v1/nodes/nobody", "", 404, "Node nobody could not be found."},
		{"list", "GET", "/v1/nodes?fields=uuid", "", 200, `{"nodes":[{"uuid":"` + first + `"},{"uuid":"` + second + `"}]}`},
		{"empty list", "GET", "/v1/nodes?provision_state=active", "", 200, `{"nodes":[]}`},
		{"misspelt parameter", "GET", "/v1/nodes?field=uuid", "", 400, "field"},
		{"limit that is none", "GET", "/v1/nodes?limit=few", "", 400, "few"},
		{"create", "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"three"}`, 201, `"provision_state":"enroll"`},
		{"create twice", "POST", "/v1/nodes", `{"driver":"fake-hardware","uuid":"` + first + `"}`, 409, "already exists"},
		{"create under a taken name", "POST", "/v1/nodes", `{"driver":"fake-hardware","name":"one"}`, 409,
			"name one already exists"},
		{"create without driver", "POST", "/v1/nodes", `{}`, 400, "driver"},
		{"create with a state", "POST", "/v1/nodes", `{"driver":"fake-hardware","power_state":"power on"}`, 400,
			"power_state"},
		{"half a body", "POST", "/v1/nodes", `{"driver`, 400, "Invalid input"},
		{"patch", "PATCH", node, `[{"op":"add","path":"/properties/cpus","value":"8"}]`, 200, `"properties":{"cpus":"8"}`},
		{"patch of what is not there", "PATCH", node, `[{"op":"replace","path":"/extra/a/b","value":1}]`, 400,
			"does not exist"},
		{"patch of a new root", "PATCH", node, `[{"op":"add","path":"/colour","value":1}]`, 400, "/colour"},
		{"patch of the power", "PATCH", node, `[{"op":"add","path":"/power_state","value":"power on"}]`, 400,
			"internal attribute"},
		{"patch of a list", "PATCH", node,
			`[{"op":"add","path":"/extra/a","value":[1,2]},{"op":"add","path":"/extra/a/0","value":0},{"op":"add","path":"/extra/a/-","value":3},{"op":"replace","path":"/extra/a/1","value":9},{"op":"remove","path":"/extra/a/2"}]`,
			200, `"extra":{"a":[0,9,3]}`},
		{"patch beyond a list", "PATCH", node,
			`[{"op":"add","path":"/extra/a","value":[]},{"op":"replace","path":"/extra/a/0","value":0}]`, 400, "no index"},
		{"patch of a name with a slash", "PATCH", node, `[{"op":"add","path":"/extra/a~1b","value":1}]`, 200,
			`"extra":{"a/b":1}`},
		{"removal of an attribute", "PATCH", node, `[{"op":"remove","path":"/driver_info"},{"op":"remove","path":"/name"}]`,
			200, `"driver_info":{},`},
		{"a condition", "PATCH", node, `[{"op":"test","path":"/name","value":"one"}]`, 400, "not one of"},
		{"rename to a taken name", "PATCH", "/v1/nodes/" + second, `[{"op":"add","path":"/name","value":"one"}]`, 409,
			"name one"},
		{"validate", "GET", node + "/validate", "", 200, `"power":{"result":true}`},
		{"boot device", "PUT", node + "/management/boot_device", `{"boot_device":"pxe","persistent":false}`, 204, ""},
		{"no such boot device", "PUT", node + "/management/boot_device", `{"boot_device":"tape"}`, 400, "tape"},
		{"power", "PUT", node + "/states/power", `{"target":"rebooting"}`, 202, ""},
		{"no such power", "PUT", node + "/states/power", `{"target":"sideways"}`, 400, "sideways"},
		{"trait", "PUT", node + "/traits/CUSTOM_A", "", 204, ""},
		{"trait that is not there", "DELETE", node + "/traits/CUSTOM_B", "", 404, "CUSTOM_B"},
		{"ports of a node", "GET", port + "/detail?node=" + first, "", 200, `"pxe_enabled":true`},
		{"ports by name of the node", "GET", port + "/detail?node=one", "", 200, `"node_uuid":"` + first + `"`},
		{"ports of an unknown node", "GET", port + "?node=nobody", "", 404, "nobody"},
		{"ports by address", "GET", port + "?address=" + mac + "&fields=node_uuid", "", 200,
			`{"ports":[{"node_uuid":"` + first + `"}]}`},
		{"port by an address that no port has", "GET", port + "?address=52:54:00:00:00:ff", "", 200, `{"ports":[]}`},
		{"create port", "POST", port,
			`{"node_uuid":"` + second + `","address":"52:54:00:00:00:0A","pxe_enabled":false,"extra":{}}`, 201,
			`"address":"52:54:00:00:00:0a"`},
		{"create port twice", "POST", port, `{"node_uuid":"` + second + `","address":"` + mac + `"}`, 409,
			"A port with MAC address " + mac + " already exists."},
		{"create port of an unknown node", "POST", port, `{"node_uuid":"nobody","address":"52:54:00:00:00:0b"}`, 400,
			"Node nobody could not be found."},
		{"create port without MAC", "POST", port, `{"node_uuid":"` + second + `"}`, 400, "Expected a MAC address"},
		{"no such port", "DELETE", port + "/" + second, "", 404, "could not be found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(enrolled(t, Options{}), c.method, c.path, c.body)
			text := got.Body.String()
			if got.Code >= 400 {
				text = faultstring(t, got.Body.Bytes())
			}
			if got.Code != c.status || !strings.Contains(text, c.want) {
				t.Errorf("%d %s, want %d %s", got.Code, text, c.status, c.want)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for asked, status := range map[string]int{"": 200, "1.1": 200, "1.82": 200, "latest": 200, "1.83": 406, "1.0": 406,
		"2.1": 406, "new": 406} {
		r := httptest.NewRequest("GET", "/v1/nodes", nil)
		r.Header.Set("OpenStack-API-Version", "baremetal "+asked)
		w := httptest.NewRecorder()
		enrolled(t, Options{}).ServeHTTP(w, r)
		if w.Code != status || w.Header().Get("X-OpenStack-Ironic-API-Maximum-Version") != "1.82" {
			t.Errorf("%q: %d %v", asked, w.Code, w.Header())
		}
	}
}

func TestAFailedPatchChangesNothing(t *testing.T) {
	s := enrolled(t, Options{})
	call(s, "PATCH", "/v1/nodes/one", `[{"op":"add","path":"/extra/a","value":1},{"op":"remove","path":"/extra/b"}]`)
	if n, _ := s.Look("one"); string(n.Extra) != "{}" {
		t.Errorf("extra is %s", n.Extra)
	}
}

func TestPortsComeAndGo(t *testing.T) {
	s := enrolled(t, Options{})
	made := call(s, "POST", "/v1/ports", `{"node_uuid":"one","address":"52:54:00:00:00:0a"}`)
	var p struct {
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(made.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	call(s, "PATCH", "/v1/ports/"+p.UUID,
		`[{"op":"replace","path":"/address","value":"52:54:00:00:00:0B"},{"op":"replace","path":"/pxe_enabled","value":false}]`)
	if got := call(s, "GET", "/v1/ports/detail?node=one", "").Body.String(); !strings.Contains(got,
		`"address":"52:54:00:00:00:0b"`) || !strings.Contains(got, `"pxe_enabled":false`) {
		t.Error(got)
	}
	if got := call(
		s, "POST", "/v1/ports", `{"node_uuid":"`+second+`","address":"52:54:00:00:00:0b"}`); got.Code != http.StatusConflict {
		t.Errorf("the new address is free: %d", got.Code)
	}
	call(s, "DELETE", "/v1/ports/"+p.UUID, "")
	if n, _ := s.Look("one"); len(n.MACs) != 1 || n.MACs[0] != mac {
		t.Errorf("ports %v", n.MACs)
	}
}

func TestPagesFollowEachOther(t *testing.T) {
	s := New(Options{})
	var want []string
	for i := range 8 {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		want = append(want, id)
		if err := s.Enroll(Enrolment{UUID: id}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	pages := 0
	for path := "/v1/nodes?fields=uuid&limit=3"; path != ""; {
		var page struct {
			Nodes []struct{ UUID string }
			Next  string
		}
		if err := json.Unmarshal(call(s, "GET", path, "").Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		pages++
		for _, n := range page.Nodes {
			got = append(got, n.UUID)
		}
		next, err := url.Parse(page.Next)
		if err != nil {
			t.Fatal(err)
		}
		path = next.RequestURI()
		if page.Next == "" {
			path = ""
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || pages != 3 {
		t.Errorf("%d pages, %v", pages, got)
	}
}

func TestPowerTakesTimeAndHoldsTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan string, 2)
		s := enrolled(t, Options{PowerDelay: time.Second, OnPower: func(node, target string) { told <- node + " " + target }})
		if got := call(s, "PUT", "/v1/nodes/one/states/power", `{"target":"rebooting"}`); got.Code != http.StatusAccepted {
			t.Fatal(got.Code)
		}
		if got := call(s, "PATCH", "/v1/nodes/one", `[{"op":"add","path":"/extra/a","value":1}]`); got.Code !=
			http.StatusConflict || !strings.Contains(got.Body.String(), "is locked by host") {
			t.Errorf("a held node takes a patch: %d", got.Code)
		}
		if n, _ := s.Look("one"); n.Power != powerOff || len(told) != 0 {
			t.Errorf("too early: %+v", n)
		}
		time.Sleep(time.Second) // in a bubble
		synctest.Wait()
		if n, _ := s.Look("one"); n.Power != powerOn || n.PowerOns != 1 || <-told != first+" rebooting" {
			t.Errorf("%+v", n)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	s := enrolled(t, Options{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				call(s, "PATCH", "/v1/nodes/one", fmt.Sprintf(`[{"op":"add","path":"/extra/%d","value":%d}]`, i, j))
				call(s, "GET", "/v1/nodes/one", "")
				call(s, "GET", "/v1/ports/detail?node=one", "")
				call(s, "PUT", "/v1/nodes/one/states/power", `{"target":"power on"}`)
			}
		})
	}
	all.Wait()
	n, _ := s.Look("one")
	var extra map[string]int
	if err := json.Unmarshal(n.Extra, &extra); err != nil || len(extra) != 8 || extra["3"] != 199 || n.PowerOns != 1600 {
		t.Errorf("%v %s %d", err, n.Extra, n.PowerOns)
	}
}

// TestCallsTakeTheirTime: one whose client has gone ends earlier.
func TestCallsTakeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := enrolled(t, Options{Delay: time.Hour})
		began := time.Now()
		if got := call(s, "GET", "/v1/nodes/one", ""); got.Code != 200 || time.Since(began) != time.Hour {
			t.Errorf("%d after %v", got.Code, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/v1/nodes", nil).WithContext(ctx))
		if w.Body.Len() > 0 || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("%s after %v", w.Body, time.Since(began))
		}
	})
}

// discard is a response that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             { clear(d.header) }

func BenchmarkCalls(b *testing.B) {
	patch := `[{"op":"add","path":"/properties/cpus","value":"8"},{"op":"add","path":"/properties/memory_mb","value":"65536"}]`
	for _, c := range []struct{ name, method, path, body string }{
		{"get", "GET", "/v1/nodes/" + first, ""},
		{"patch", "PATCH", "/v1/nodes/" + first, patch},
		{"power", "PUT", "/v1/nodes/" + first + "/states/power", `{"target":"rebooting"}`},
		{"ports", "GET", "/v1/ports/detail?node=" + first, ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := New(Options{})
			if err := s.Enroll(Enrolment{UUID: first, MACs: []string{mac}}); err != nil {
				b.Fatal(err)
			}
			w := &discard{header: make(http.Header)}
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Header.Set(versionHeader, "1.78")
			b.ReportAllocs()
			for b.Loop() {
				r.Body = io.NopCloser(bytes.NewReader([]byte(c.body)))
				s.ServeHTTP(w, r)
			}
		})
	}
}
