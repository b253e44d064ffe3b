package simironic

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A node that waits for a callback takes one; nobody else takes any.
func TestContinueInspection(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	for _, e := range []Enrolment{
		{UUID: "00000000-0000-4000-8000-000000000001", MACs: []string{"52:54:00:00:00:01"}, State: stateInspectWait},
		{UUID: "00000000-0000-4000-8000-000000000002", BMC: "192.0.2.2", State: stateInspectWait},
		{UUID: "00000000-0000-4000-8000-000000000003", MACs: []string{"52:54:00:00:00:03"}},
	} {
		if err := s.Enroll(e); err != nil {
			t.Fatal(err)
		}
	}
	post := func(version, body string) (int, string) {
		r := httptest.NewRequest("POST", "/v1/continue_inspection", strings.NewReader(body))
		if version != "" {
			r.Header.Set(versionHeader, version)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	document := func(mac, bmc string) string {
		return `{"inventory":{"interfaces":[{"mac_address":"` + mac + `"}],"bmc_address":"` + bmc + `"}}`
	}
	for _, c := range []struct {
		version, body string
		status        int
	}{
		{"", document("52:54:00:00:00:01", ""), http.StatusAccepted},
		{"", document("52:54:00:00:00:01", ""), http.StatusNotFound},
		{"1.78", document("52:54:00:00:00:09", "192.0.2.2"), http.StatusNotFound},
		{"1.1", document("52:54:00:00:00:09", "192.0.2.2"), http.StatusAccepted},
		{"1.1", document("52:54:00:00:00:03", ""), http.StatusNotFound},
		{"1.1", `{"inventory":{}}`, http.StatusBadRequest},
	} {
		if status, body := post(c.version, c.body); status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.version, c.body, status, body, c.status)
		}
	}
	if n, _ := s.Look("00000000-0000-4000-8000-000000000001"); n.Inspected != 1 || n.Provision != stateManageable {
		t.Errorf("%+v", n)
	}
}
