package ironic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Ironic quotes the patch that it cannot apply. What it quotes of secrets is not told on,
// and all else is.
func TestRefusalsRepeatNoSecret(t *testing.T) {
	const secret = `s3cret "of\a BMC`
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		inner, _ := json.Marshal(map[string]string{ // of a string alone
			"faultstring": fmt.Sprintf("Couldn't apply patch '%s'. Reason: as %s", body, r.Header.Get("Authorization"))})
		outer, _ := json.Marshal(map[string]string{"error_message": string(inner)})
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(outer) // who asked may have gone
	}))
	t.Cleanup(f.Close)
	c := conf(f.URL)
	c.AuthType, c.Username, c.Password = "http_basic", "u", "s3cret of ironic"
	_, err := dial(t, c).PatchNode(t.Context(), node1, []Patch{
		{Op: "add", Path: "/driver_info/ipmi_password", Value: secret},
		{Op: "add", Path: "/driver_info",
			Value: map[string]any{"redfish_password": "s3cret of redfish", "redfish_address": "b"}},
		{Op: "add", Path: "/extra/colour", Value: "s3cret-less green"},
	})
	said := asIronic(t, err).Error()
	for _, hidden := range []string{"of\\a BMC", `s3cret`, "dTpzM2Ny"} {
		if strings.Contains(strings.ReplaceAll(said, "s3cret-less", ""), hidden) {
			t.Errorf("refusal-repeats-secret: %q in: %s", hidden, said)
		}
	}
	for _, told := range []string{"Couldn't apply patch", "/driver_info/ipmi_password", "s3cret-less green", "redacted"} {
		if !strings.Contains(said, told) {
			t.Errorf("the refusal does not say %q: %s", told, said)
		}
	}
}
