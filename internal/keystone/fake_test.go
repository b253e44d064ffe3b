package keystone

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// password is that of the fake's one user.
const password = "s3cret"

// fake is a Keystone without a network, so that it may live in virtual time. Its
// own user's tokens are own-1, own-2… and good for an hour.
type fake struct {
	mu      sync.Mutex
	logins  int               // guarded by mu
	asked   int               // questions about tokens; guarded by mu
	from    int               // number of the oldest own token that is taken; guarded by mu
	tokens  map[string]string // token → body about its holder; guarded by mu
	respond func(*http.Request) *http.Response
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) counts() (logins, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logins, f.asked
}

// RoundTrip implements http.RoundTripper.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if f.respond != nil {
		if resp := f.respond(r); resp != nil {
			resp.Request = r
			return resp, nil
		}
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /v3/auth/tokens":
		return f.logIn(r)
	case "GET /v3/auth/tokens":
		return f.examine(r)
	}
	return says(http.StatusNotFound, `{"error": {"message": "Not Found"}}`), nil
}

func (f *fake) logIn(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.logins++
	if !strings.Contains(string(body), `"`+password+`"`) {
		return says(http.StatusUnauthorized, `{"error": {"message": "The request you have made requires authentication."}}`),
			nil
	}
	resp := says(http.StatusCreated,
		fmt.Sprintf(`{"token": {"expires_at": %q, "user": {"id": "1"}}}`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)))
	resp.Header.Set("X-Subject-Token", fmt.Sprintf("own-%d", f.logins))
	return resp, nil
}

func (f *fake) examine(r *http.Request) (*http.Response, error) {
	f.asked++
	var own int
	if _, err := fmt.Sscanf(r.Header.Get("X-Auth-Token"), "own-%d", &own); err != nil || own < f.from {
		return says(http.StatusUnauthorized, `{"error": {"message": "The request you have made requires authentication."}}`),
			nil
	}
	subject := r.Header.Get("X-Subject-Token")
	body, known := f.tokens[subject]
	if !known {
		return says(http.StatusNotFound,
			fmt.Sprintf(`{"error": {"message": "This is not a recognized Fernet token %s"}}`, subject)), nil
	}
	return says(http.StatusOK, body), nil
}

func says(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body))}
}

// about is what Keystone says of a token's holder.
func about(t testing.TB, fields map[string]any) string {
	t.Helper()
	body := map[string]any{
		"user":       map[string]any{"id": "u1", "name": "ann", "domain": map[string]any{"id": "d1", "name": "Users"}},
		"expires_at": "2030-01-02T03:04:05.000000Z",
		"roles":      []any{map[string]any{"id": "r1", "name": "admin"}, map[string]any{"id": "r2", "name": "reader"}},
	}
	for name, value := range fields {
		body[name] = value
	}
	text, err := json.Marshal(map[string]any{"token": body})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func account() Account {
	return Account{URL: "http://k:5000", User: "trivet", UserDomain: "Default", Project: "service",
		ProjectDomain: "Default", Password: servicecreds.Password{Text: password, Option: "api.keystone.password_file"}}
}

func examiner(t testing.TB, f *fake) *Examiner {
	t.Helper()
	e, err := NewExaminer(account(), f, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
