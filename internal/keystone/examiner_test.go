package keystone

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/internal/servicecreds"
)

func TestHolders(t *testing.T) {
	project := map[string]any{"id": "p1", "name": "baremetal", "domain": map[string]any{"id": "d2", "name": "Projects"}}
	f := &fake{tokens: map[string]string{
		"for-a-project":  about(t, map[string]any{"project": project}),
		"for-the-system": about(t, map[string]any{"system": map[string]any{"all": true}, "roles": []any{}}),
		"for-a-domain":   about(t, map[string]any{"domain": map[string]any{"id": "d3", "name": "Third"}}),
	}}
	e := examiner(t, f)
	ann := Holder{UserID: "u1", User: "ann", UserDomain: "Users", Roles: []string{"admin", "reader"},
		Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	for token, change := range map[string]func(*Holder){
		"for-a-project":  func(h *Holder) { h.ProjectID, h.Project, h.ProjectDomain = "p1", "baremetal", "Projects" },
		"for-the-system": func(h *Holder) { h.System, h.Roles = true, nil },
		"for-a-domain":   func(h *Holder) { h.Domain = "Third" },
	} {
		want := ann
		change(&want)
		if got, err := e.Examine(t.Context(), token); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", token, got, err, want)
		}
	}
	if _, err := e.Examine(t.Context(), "gAAAAA-invented"); !errors.Is(err, ErrUnknownToken) ||
		strings.Contains(err.Error(), "invented") {
		t.Errorf("an invented token: %v", err)
	}
	if logins, _ := f.counts(); logins != 1 {
		t.Errorf("%d logins for four questions", logins)
	}
}

// TestOwnTokenIsRenewed lets it end, early and in its time.
func TestOwnTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{tokens: map[string]string{"x": about(t, nil)}}
		e := examiner(t, f)
		ask := func(what string, logins, asked int) {
			t.Helper()
			if _, err := e.Examine(t.Context(), "x"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if l, a := f.counts(); l != logins || a != asked {
				t.Errorf("%s: %d logins, %d questions; want %d, %d", what, l, a, logins, asked)
			}
		}
		ask("the first question", 1, 1)
		time.Sleep(time.Hour - renewBefore - time.Second)
		ask("shortly before", 1, 2)
		time.Sleep(time.Second)
		ask("a minute before its end", 2, 3)
		f.set(func() { f.from = 3 })
		ask("revoked", 3, 5)
		f.set(func() { f.from, f.logins, f.asked = 4, 3, 0 })
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := e.Examine(t.Context(), "x"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if l, _ := f.counts(); l != 4 {
			t.Errorf("50 callers logged in %d times", l-3)
		}
	})
}

// TestPasswordOfTheFileCounts changes it while the peer runs.
func TestPasswordOfTheFileCounts(t *testing.T) {
	a := account()
	a.Password = servicecreds.Password{File: filepath.Join(t.TempDir(), "password"), Option: "api.keystone.password_file"}
	if _, err := NewExaminer(a, &fake{}, time.Now); err == nil ||
		!strings.HasPrefix(err.Error(), "api.keystone.password_file: ") {
		t.Errorf("no file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(a.Password.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("of yesterday\n")
	synctest.Test(t, func(t *testing.T) {
		f := &fake{tokens: map[string]string{"x": about(t, nil)}}
		e, err := NewExaminer(a, f, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if _, err := e.Examine(t.Context(), "x"); !Refused(err) || strings.Contains(err.Error(), "yesterday") ||
				!strings.Contains(err.Error(), a.Password.File+", which api.keystone.password_file names, to examine") {
				t.Fatalf("%v", err)
			}
		}
		if l, _ := f.counts(); l != 1 {
			t.Errorf("a password that is refused was shown %d times at once", l)
		}
		write(password + "\n")
		time.Sleep(servicecreds.RefusalRests)
		if _, err := e.Examine(t.Context(), "x"); err != nil {
			t.Errorf("the new password: %v", err)
		}
	})
}

// TestCheck asks about the examiner's own token.
func TestCheck(t *testing.T) {
	f := &fake{tokens: map[string]string{"own-1": about(t, nil)}}
	e := examiner(t, f)
	if err := e.Check(t.Context()); err != nil {
		t.Errorf("own-token: %v", err)
	}
	f.set(func() { f.from = 2 })
	if err := e.Check(t.Context()); err != nil {
		t.Errorf("own-token: revoked: %v", err)
	}
	if logins, asked := f.counts(); logins != 2 || asked != 3 {
		t.Errorf("own-token: %d logins, %d questions", logins, asked)
	}
	for what, respond := range map[string]func(*http.Request) *http.Response{
		"Keystone answered 401": func(*http.Request) *http.Response { return says(401, "{}") },
		"Keystone answered 503": func(r *http.Request) *http.Response {
			if r.Method == "POST" {
				return nil
			}
			return says(503, "{}")
		},
	} {
		err := examiner(t, &fake{respond: respond}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("own-token: %v, want %q", err, what)
		}
	}
}

// TestKeystoneFails wants of each failure that it is none of the token, and what
// a person needs to know.
func TestKeystoneFails(t *testing.T) {
	only := func(method string, status int, body string) func(*http.Request) *http.Response {
		return func(r *http.Request) *http.Response {
			if r.Method != method {
				return nil
			}
			resp := says(status, body)
			resp.Header.Set("Location", "http://elsewhere/")
			return resp
		}
	}
	for _, c := range []struct {
		name    string
		respond func(*http.Request) *http.Response
		want    string
	}{
		{"login refused", only("POST", 401, `{"error": {"message": "The account is locked."}}`),
			"log in as trivet with api.keystone.password to examine tokens: Keystone answered 401 Unauthorized. The account is locked."},
		{"login fails", only("POST", 503, "<html>"), "Keystone answered 503 Service Unavailable"},
		{"login redirected", only("POST", 302, ""), "a redirect to http://elsewhere/, which is not followed"},
		{"login without a token", only("POST", 201, `{"token": {}}`), ErrNoToken.Error()},
		{"question refused", only("GET", 403, `{"error": {"message": "You are not authorized: SUBJECT"}}`),
			"trivet may not examine tokens; give it the role service or admin in the project service"},
		{"question fails", only("GET", 500, `{"error": {"message": "SUBJECT"}}`),
			"Keystone answered 500 Internal Server Error"},
		{"question redirected", only("GET", 307, ""), "a redirect to http://elsewhere/"},
		{"question meets a proxy", only("GET", 404, "default backend - 404"), "Keystone answered 404 Not Found"},
		{"question meets a page", only("GET", 404, "<html>SUBJECT"), "Keystone answered 404 Not Found"},
		{"question meets another", only("GET", 404, `{"message": "no Route matched"}`), "Keystone answered 404 Not Found"},
		{"not JSON", only("GET", 200, "hello"), "invalid character"},
		{"no user's", only("GET", 200, `{"token": {}}`), "does not say who holds the token"},
		{"without an end", only("GET", 200, `{"token": {"user": {"id": "u"}}}`),
			"does not say who holds the token or for how long"},
	} {
		e := examiner(t, &fake{tokens: map[string]string{"SUBJECT": about(t, nil)}, respond: c.respond})
		_, err := e.Examine(t.Context(), "SUBJECT")
		if err == nil || errors.Is(err, ErrUnknownToken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "SUBJECT") || strings.Contains(err.Error(), password) ||
			strings.Contains(err.Error(), "own-")) {
			t.Errorf("%s: a secret is told: %v", c.name, err)
		}
	}
}

// TestUnfitTokenSaysNothingOfKeystone: the server in front of Keystone bounds the lines of a
// request, and answers one with a longer token itself. Of a login the same answers are ours.
func TestUnfitTokenSaysNothingOfKeystone(t *testing.T) {
	for _, status := range []int{400, 413, 414, 431} {
		for method, want := range map[string]bool{"GET": true, "POST": false} {
			e := examiner(t, &fake{respond: func(r *http.Request) *http.Response {
				if r.Method != method {
					return nil
				}
				return says(status, "SUBJECT")
			}})
			_, err := e.Examine(t.Context(), "SUBJECT")
			if err == nil || errors.Is(err, ErrUnfitToken) != want || errors.Is(err, ErrUnknownToken) ||
				strings.Contains(err.Error(), "SUBJECT") {
				t.Errorf("unfit-token: %d to %s: %v", status, method, err)
			}
		}
	}
}

// TestProxysNotFoundIsNoWordOnAToken: a proxy without a route to Keystone answers 404 to all questions, and one that
// shows pages of its own for Keystone's answers 404 to those about tokens that Keystone does not know.
func TestProxysNotFoundIsNoWordOnAToken(t *testing.T) {
	const page = "default backend - 404"
	var away, pages bool
	f := &fake{tokens: map[string]string{"SUBJECT": about(t, nil), "own-1": about(t, nil)}}
	f.respond = func(r *http.Request) *http.Response {
		subject := r.Header.Get("X-Subject-Token")
		if _, known := f.tokens[subject]; r.Method == "GET" && (away || pages && !known) {
			return says(404, page)
		}
		return nil
	}
	e := examiner(t, f)
	for _, c := range []struct {
		what        string
		away, pages bool
		token       string
		unknown, ok bool
	}{
		{"there", false, false, "SUBJECT", false, true},
		{"there", false, false, "invented", true, false},
		{"without a route", true, false, "SUBJECT", false, false},
		{"without a route", true, false, "invented", false, false},
		{"with pages", false, true, "SUBJECT", false, true},
		{"with pages", false, true, "invented", true, false},
	} {
		away, pages = c.away, c.pages
		if _, err := e.Examine(t.Context(), c.token); errors.Is(err, ErrUnknownToken) != c.unknown || (err == nil) != c.ok {
			t.Errorf("proxy-404: %s: %s: %v", c.what, c.token, err)
		}
		if err := e.Check(t.Context()); (err != nil) != c.away {
			t.Errorf("proxy-404: %s: check: %v", c.what, err)
		}
	}
	// It comes back between two questions: the token is asked about again.
	away, pages = true, false
	first := f.respond
	f.respond = func(r *http.Request) *http.Response {
		defer func() { away = away && r.Method != "GET" }()
		return first(r)
	}
	if _, err := e.Examine(t.Context(), "SUBJECT"); err != nil {
		t.Errorf("proxy-404: it comes back: %v", err)
	}
}
