package ironic

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/config"
)

// An endpoint for ramdisks gets their documents, and no credentials of any kind of login; all
// else goes where it went.
func TestRamdiskEndpointIsShownNoCredentials(t *testing.T) {
	for _, login := range []string{"none", "http_basic", "keystone"} {
		all := serve(t, answer{http.StatusOK, `{}`})
		apart := serve(t, answer{http.StatusAccepted, `{"uuid":"x"}`})
		c := dial(t, config.Ironic{Endpoint: all.URL, RamdiskEndpoint: apart.URL + "/v1/", AuthType: login, Username: "u",
			Password: config.Secret("p"), Keystone: config.Keystone{AuthURL: "http://127.0.0.1:9", Project: "service"},
			Timeout: pingTimeout})
		got, err := c.Continue(t.Context(), InbandCall{Body: []byte(`{"a":1}`)})
		if err != nil || got.Status != http.StatusAccepted || !c.Ramdisks().Apart() {
			t.Fatalf("%s: %+v, %v", login, got, err)
		}
		if err := c.Ramdisks().Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", login, err)
		}
		if n := len(all.seen()); n != 0 {
			t.Errorf("ramdisks-apart: %s: %d calls to ironic.endpoint: %v", login, n, all.lines())
		}
		want := []string{"POST /v1/continue_inspection", "GET /v1/"}
		if !slices.Equal(apart.lines(), want) {
			t.Errorf("%s: %v, want %v", login, apart.lines(), want)
		}
		for _, r := range apart.seen() {
			for name := range r.header {
				if strings.Contains(strings.ToLower(name), "auth") {
					t.Errorf("no-credentials: %s: %s carries %s", login, r.line, name)
				}
			}
		}
	}
}

// What the configuration is at fault for names the option and what to do.
func TestRefusalOfRamdisksNamesTheOption(t *testing.T) {
	moved := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere/v1/continue_inspection", http.StatusPermanentRedirect)
	})
	denied := fault(http.StatusForbidden, "Access was denied to the following resource: /v1/continue_inspection")
	for _, c := range []struct {
		apart  bool
		answer answer
		parts  []string
	}{
		{false, denied, []string{"ironic.endpoint refuses what ramdisks send: Access was denied",
			"write as ironic.ramdisk_endpoint the URL", "enable_ramdisk_endpoints = True"}},
		{true, denied, []string{"ironic.ramdisk_endpoint refuses what ramdisks send: Access was denied",
			"set [api] enable_ramdisk_endpoints = True in that Ironic"}},
		{false, answer{http.StatusUnauthorized, ""}, []string{"ironic.endpoint refuses the credentials",
			"ironic.auth_type"}},
		{true, answer{http.StatusUnauthorized, ""},
			[]string{"ironic.ramdisk_endpoint wants credentials, and is shown none"}},
		{true, answer{http.StatusNotFound, ""}, []string{"Ironic answered 404 Not Found"}},
	} {
		f := serve(t, c.answer)
		at := conf(f.URL)
		if c.apart {
			at.Endpoint, at.RamdiskEndpoint = "http://127.0.0.1:9", f.URL
		}
		got, err := dial(t, at).Continue(t.Context(), InbandCall{Body: []byte("{}")})
		if err != nil || got.Status != c.answer.status || !got.Anonymous {
			t.Errorf("%+v, %v", got, err)
		}
		for _, part := range c.parts {
			if !strings.Contains(got.Reason, part) {
				t.Errorf("reason-named: %q lacks %q", got.Reason, part)
			}
		}
	}
	f := serve(t, denied)
	f.Config.Handler = moved
	got, err := dial(t, conf(f.URL)).Continue(t.Context(), InbandCall{Body: []byte("{}")})
	if err != nil || got.Status != http.StatusPermanentRedirect ||
		!strings.Contains(got.Reason, `redirect to "https://elsewhere`) {
		t.Errorf("reason-named: %+v, %v", got, err)
	}
}

// A login that fails has sent nothing of the document: Ironic's 404 to the next attempt does not
// mean that it has it.
func TestFailedLoginSendsNoDocument(t *testing.T) {
	keystone := serve(t, answer{http.StatusUnauthorized, `{"error":{"message":"no"}}`})
	c := dial(t, config.Ironic{Endpoint: "http://127.0.0.1:9", AuthType: "keystone", Username: "u",
		Password: config.Secret("p"), Keystone: config.Keystone{AuthURL: keystone.URL, Project: "service",
			UserDomain: "Default", ProjectDomain: "Default"},
		Timeout: pingTimeout})
	for range 2 { // the second meets the refusal that is remembered
		_, err := c.Continue(t.Context(), InbandCall{Body: []byte("{}")})
		if e, ok := errors.AsType[*Error](err); !errors.Is(err, ErrNotSent) || !ok || e.Status != http.StatusUnauthorized {
			t.Errorf("not-sent: %v", err)
		}
	}
}

// Each endpoint is asked with a document of no machine.
func TestAskRamdisks(t *testing.T) {
	denied := fault(http.StatusForbidden, "Access was denied.")
	takes := fault(http.StatusBadRequest, "No lookup information provided")
	for _, c := range []struct {
		name       string
		apart, all answer
		want       []string
	}{
		{"one that takes them", answer{}, takes, []string{"ironic.endpoint true "}},
		{"one that refuses them", answer{}, denied, []string{"ironic.endpoint true 403: ironic.endpoint refuses"}},
		{"two", takes, denied, []string{"ironic.ramdisk_endpoint true ",
			"ironic.endpoint false 403: ironic.endpoint refuses"}},
		{"not the API", answer{http.StatusNotFound, ""}, takes,
			[]string{"ironic.ramdisk_endpoint true 404: Ironic answered", "ironic.endpoint false "}},
		{"one that fails", answer{}, answer{http.StatusBadGateway, ""}, []string{"ironic.endpoint true "}},
	} {
		f := serve(t, c.all)
		at, want := conf(f.URL), len(c.want)
		if c.apart.status != 0 {
			at.RamdiskEndpoint = serve(t, c.apart).URL
		}
		got := dial(t, at).Ramdisks().Ask(t.Context())
		if len(got) != want {
			t.Fatalf("%s: %+v", c.name, got)
		}
		for i, a := range got {
			said := a.Option + map[bool]string{true: " true ", false: " false "}[a.Used] + a.Refusal
			if !strings.HasPrefix(said, c.want[i]) || (a.Refusal == "") != strings.HasSuffix(c.want[i], " ") ||
				(a.Err != nil) != (c.name == "one that fails") || !strings.HasSuffix(a.URL, "/v1/") {
				t.Errorf("asked: %s: %+v, want %q", c.name, a, c.want[i])
			}
		}
		if r := f.seen()[0]; r.body != addressless {
			t.Errorf("%s: %s", c.name, r.body)
		}
	}
}
