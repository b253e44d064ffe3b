package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/ruleset"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
)

// anyRule is a body that creates a rule, and that everything else takes, too.
const anyRule = `{"actions":[{"action":"fail","message":"boom"}]}`

func (f *fake) Rules(context.Context, inspector.Reading) ([]ruleset.Rule, error) {
	return nil, f.asked("")
}

func (f *fake) Rule(_ context.Context, id string, _ inspector.Reading) (ruleset.Rule, error) {
	return ruleset.Rule{UUID: id,
		Body: []byte(anyRule[:len(anyRule)-1] + `,"conditions":[],"description":null,"scope":null}`)}, f.asked(id)
}

func (f *fake) CreateRule(_ context.Context, id string, body []byte) (ruleset.Rule, error) {
	if id == "" {
		id = uuid.NewString()
	}
	return ruleset.Rule{UUID: id, Body: body}, f.asked(id)
}

func (f *fake) DeleteRule(_ context.Context, id string) error { return f.asked(id) }

func (f *fake) DeleteRules(context.Context) error { return f.asked("") }

func (f *fake) DryRun(context.Context) (*accept.DryRun, error) {
	return accept.NewDryRun(fsm.New().View()), f.asked("")
}

// fakeRules is a fake that keeps rules as the state does.
type fakeRules struct {
	*fake
	rules []ruleset.Rule
}

func (b *fakeRules) Rules(context.Context, inspector.Reading) ([]ruleset.Rule, error) {
	return b.rules, nil
}

func (b *fakeRules) at(id string) int {
	for i, r := range b.rules {
		if r.UUID == id {
			return i
		}
	}
	return -1
}

func (b *fakeRules) Rule(_ context.Context, id string, _ inspector.Reading) (ruleset.Rule, error) {
	if i := b.at(id); i >= 0 {
		return b.rules[i], nil
	}
	return ruleset.Rule{}, refuse(http.StatusNotFound, "Rule %s was not found", id)
}

func (b *fakeRules) CreateRule(ctx context.Context, id string, body []byte) (ruleset.Rule, error) {
	if b.at(id) >= 0 {
		return ruleset.Rule{}, &fsm.Error{Code: fsm.Conflict, Message: fmt.Sprintf("Rule with UUID %s already exists", id)}
	}
	r, err := b.fake.CreateRule(ctx, id, body)
	b.rules = append(b.rules, r)
	return r, err
}

func (b *fakeRules) DeleteRule(ctx context.Context, id string) error {
	if _, err := b.Rule(ctx, id, inspector.Linearizable); err != nil {
		return err
	}
	b.rules = append(b.rules[:b.at(id):b.at(id)], b.rules[b.at(id)+1:]...)
	return nil
}

func (b *fakeRules) DeleteRules(context.Context) error {
	b.rules = nil
	return nil
}

// The recorded life of rules, to the letter but for the UUID that the server
// chose.
func TestRecordedRules(t *testing.T) {
	i := &Inspector{Service: &fakeRules{fake: &fake{}}, Auth: NoAuth(), MaxLimit: 4, Logger: slog.New(slog.DiscardHandler)}
	srv := httptest.NewServer(i.Handler())
	defer srv.Close()
	minted := "8cfb2f05-410b-4b0c-8c16-ada8400359f7"
	for _, r := range readExchanges(t, "rules-crud.jsonl") {
		body := r.Request.Body
		if r.Note == "everything optional but actions" {
			body = json.RawMessage(strings.Replace(string(body), "{", `{"uuid":"`+minted+`",`, 1))
		}
		r.Request.Body = body
		if r.Response.Status == http.StatusNoContent {
			delete(r.Response.Headers, "content-length") // which HTTP forbids there
		}
		checkRecorded(t, srv.URL, r)
	}
}

// readExchanges is readRecorded for recordings that mean the rules.
func readExchanges(t *testing.T, name string) (out []recorded) {
	t.Helper()
	for _, r := range readRecorded(t, name, "http://unused") {
		r.Request.Path = strings.Replace(r.Request.Path, "/v1/introspection", "/v1/rules", 1)
		if list, ok := r.Response.Body.(map[string]any); ok && list["introspection"] != nil {
			r.Response.Body = map[string]any{"rules": list["introspection"]}
		}
		if r.Request.Path != "" {
			out = append(out, r)
		}
	}
	return out
}

func TestRulesOverHTTP(t *testing.T) {
	h := (&Inspector{Service: &fakeRules{fake: &fake{}}, Auth: NoAuth(), MaxLimit: 4,
		Logger: slog.New(slog.DiscardHandler), Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}).Handler()
	const id = "11111111-1111-4111-8111-000000000001"
	rule := fmt.Sprintf(
		`{"uuid":%q,"scope":"gold","description":"d","actions":[{"message":"boom","action":"fail"}],"conditions":[{"op":"is-empty","field":"a"}]}`,
		id)
	whole := func(prefix string) string {
		return `{"actions":[{"action":"fail","message":"boom"}],"conditions":[{"field":"a","invert":false,"multiple":"any","op":"is-empty"}],"description":"d","links":[{"href":"` +
			prefix + `/v1/rules/` + id + `","rel":"self"}],"scope":"gold","uuid":"` + id + `"}` + "\n"
	}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		answer             string
	}{
		{"POST", "/v1/rules", rule, nil, 201, whole("")},
		{"POST", "/v1/rules", rule, nil, 409, errorBody("Rule with UUID " + id + " already exists")},
		{"GET", "/v1/rules/" + id + "/", "", nil, 200, whole("")},
		{"GET", "/v1/rules/" + id, "", []string{"X-Forwarded-Prefix", "/bm"}, 200, whole("/bm")},
		{"GET", "/v1/rules", "", nil, 200,
			`{"rules":[{"description":"d","links":[{"href":"/v1/rules/` + id + `","rel":"self"}],"scope":"gold","uuid":"` + id +
				`"}]}` + "\n"},
		{"GET", "/v1/rules/nobody", "", nil, 404, errorBody("Rule nobody was not found")},
		{"DELETE", "/v1/rules/" + id, "", nil, 204, ""},
		{"DELETE", "/v1/rules/" + id, "", nil, 404, errorBody("Rule " + id + " was not found")},
		{"POST", "/v1/rules/", rule, []string{versionHeader, "1.6"}, 201, whole("")},
		{"DELETE", "/v1/rules", "", nil, 204, ""},
		{"POST", "/v1/rules", rule, []string{versionHeader, "1.5"}, 200, whole("")},
		{"DELETE", "/v1/rules/", "", nil, 204, ""},
		{"POST", "/v1/rules", rule, []string{versionHeader, "latest"}, 201, whole("")},
		{"POST", "/v1/rules", `{`, nil, 400, errorBody("Invalid data: the body is not valid JSON: it ends too early")},
		{"POST", "/v1/rules", ``, nil, 400, errorBody("Invalid data: the body is not valid JSON: it ends too early")},
		{"POST", "/v1/rules", `[1]`, nil, 400, errorBody("Invalid data: expected a JSON object, got list")},
		{"POST", "/v1/rules", `{"conditions":[{"op":"matches","field":"a"}]}`, nil, 400,
			errorBody("Invalid parameters for operator matches: missing required parameter(s): value")},
		{"POST", "/v1/rules", `{"uuid":"no"}`, nil, 400, errorBody("Invalid UUID value")},
		{"POST", "/v1/rules", `{"x":"` + strings.Repeat("x", MaxRuleBody) + `"}`, nil, 413,
			errorBody("The body has more than 1048576 bytes (1 MiB)")},
		{"PUT", "/v1/rules", ``, nil, 405,
			errorBody("405 Method Not Allowed: The method is not allowed for the requested URL.")},
	} {
		w := send(h, c.method, c.path, c.body, c.headers...)
		if w.Code != c.status || w.Body.String() != c.answer {
			t.Errorf("%s %s %.100s %v: %d %s, want %d %s", c.method, c.path, c.body, c.headers, w.Code, w.Body, c.status,
				c.answer)
		}
		if kind := w.Header().Get("Content-Type"); c.status == 204 && (kind != "text/plain; charset=utf-8") {
			t.Errorf("%s %s: type %q", c.method, c.path, kind)
		}
	}
}
