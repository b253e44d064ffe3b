package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// recorded is one exchange with the original; see the fields' meaning in the
// reference of the wire contract.
type recorded struct {
	Seq     int
	Note    string
	Request struct {
		Method, Path string
		Headers      map[string]string
		Body         json.RawMessage
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    any
	}
	Defect         string   `json:"upstream_defect"`
	Volatile       []string `json:"volatile"`
	Loose          []string `json:"loose"`
	SetHeaders     []string `json:"set_headers"`
	VolatileHeader []string `json:"volatile_headers"`
}

// readRecorded reads the exchanges of one file.
func readRecorded(t *testing.T, name, base string) []recorded {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []recorded
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := bytes.ReplaceAll(lines.Bytes(), []byte("{base}"), []byte(base))
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		t.Fatalf("%s holds no exchange", name)
	}
	return out
}

// mended is what is answered where the original is broken.
var mended = map[string]int{
	"version header '1'": 400, "version header '1.2.3'": 400, "version header 'abc'": 400,
	"version header '1.x'": 400, "version header ''": 400,
}

func TestRecordedExchanges(t *testing.T) {
	for _, c := range []struct {
		file string
		auth Auth
		err  error
	}{
		{"protocol.jsonl", NoAuth(), nil},
		{"listing.jsonl", NoAuth(), nil},
		{"start.jsonl", NoAuth(), nil},
		{"http-basic.jsonl", testAuth(t), nil},
	} {
		t.Run(c.file, func(t *testing.T) {
			srv := httptest.NewServer(checked(t, public(&fake{}, c.auth)))
			defer srv.Close()
			for _, r := range readRecorded(t, c.file, srv.URL) {
				checkRecorded(t, srv.URL, r)
			}
		})
	}
}

func checkRecorded(t *testing.T, base string, r recorded) {
	t.Helper()
	q, err := http.NewRequest(r.Request.Method, base+r.Request.Path, bytes.NewReader(r.Request.Body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.Request.Headers {
		q.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(q) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	want := r.Response.Status
	if status, broken := mended[r.Note]; broken && r.Defect != "" {
		want = status
	}
	if r.Request.Path == "/v1/continue" && r.Request.Method == http.MethodPost {
		want = http.StatusOK // what comes of a document is the service's matter; it was let through
	}
	if r.Request.Path == "/v1/introspection/99999999-9999-4999-8999-999999999999" && want == http.StatusNotFound {
		r.Volatile = nil // the service of this test says the same
	}
	if resp.StatusCode != want {
		t.Errorf("seq %d %s %s (%s): %d %s, want %d", r.Seq, r.Request.Method, r.Request.Path, r.Note, resp.StatusCode, body,
			want)
		return
	}
	checkHeaders(t, r, resp, want)
	if want != r.Response.Status || r.Defect != "" {
		checkShape(t, r, resp, body)
		return
	}
	var got any
	if r.Response.Body != nil && json.Unmarshal(body, &got) != nil || !reflect.DeepEqual(got, r.Response.Body) {
		t.Errorf("seq %d %s %s: %s, want %v", r.Seq, r.Request.Method, r.Request.Path, body, r.Response.Body)
	}
}

// checkShape looks at answers that are another's here: JSON, and an error has
// its shape.
func checkShape(t *testing.T, r recorded, resp *http.Response, body []byte) {
	t.Helper()
	var e struct {
		Error *struct{ Message string }
	}
	if err := json.Unmarshal(body, &e); err != nil || resp.StatusCode >= 300 && (e.Error == nil || e.Error.Message == "") {
		t.Errorf("seq %d: %s is not the shape of an error (%v)", r.Seq, body, err)
	}
}

func checkHeaders(t *testing.T, r recorded, resp *http.Response, want int) {
	t.Helper()
	for name, value := range r.Response.Headers {
		got := resp.Header.Get(name)
		switch {
		case name == "content-length" &&
			(slices.Contains(r.VolatileHeader, name) || want != r.Response.Status || r.Defect != "" || r.Response.Body != nil):
			continue // spaces and lengths of host names differ
		case name == "content-length" && resp.Request.Method == http.MethodHead:
			continue
		case name == "content-type" && (want != r.Response.Status || r.Defect != ""):
			value = "application/json"
		case slices.Contains(r.SetHeaders, name):
			value, got = sorted(value), sorted(got)
		}
		if got != value {
			t.Errorf("seq %d %s %s: %s is %q, want %q", r.Seq, r.Request.Method, r.Request.Path, name, got, value)
		}
	}
}

func sorted(list string) string {
	parts := strings.Split(list, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
