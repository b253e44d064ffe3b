package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/client"
)

// server is a network in memory: it answers in turn what the test says, the
// last answer for ever, and remembers what it was asked.
type server struct {
	answers []answer

	mu    sync.Mutex
	asked []string // "METHOD URI body"
	heads []http.Header
}

type answer struct {
	status int
	body   string
	head   http.Header
	err    error
}

var errReset = errors.New("connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	s.heads = append(s.heads, r.Header)
	a := s.answers[min(len(s.asked), len(s.answers))-1]
	if a.err != nil {
		arrived(r.Context())
		return nil, a.err
	}
	rec := httptest.NewRecorder()
	for name, values := range a.head {
		rec.Header()[name] = values
	}
	rec.WriteHeader(a.status)
	if _, err := rec.WriteString(a.body); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

func (s *server) client(t *testing.T, change ...func(*client.Options)) *client.Client {
	t.Helper()
	o := client.Options{Servers: []string{"http://h1:5050/prefix/"}, Transport: s}
	for _, do := range change {
		do(&o)
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answers(a ...answer) *server { return &server{answers: a} }

func ok(body string) answer { return answer{status: 200, body: body} }

func said(status int, message string) answer {
	return answer{status: status, body: `{"error":{"message":"` + message + `"}}`}
}

func lost() answer { return answer{err: errReset} }

const (
	waiting    = `{"error":null,"finished":false,"finished_at":null,"links":[{"href":"http://h/v1/introspection/u","rel":"self"}],"started_at":"2026-11-20T20:35:26.405493","state":"waiting","uuid":"u"}`
	reapplying = `{"error":null,"finished":true,"finished_at":"2026-11-20T20:36:26","links":[],"started_at":"2026-11-20T20:37:26","state":"reapplying","uuid":"u"}`
	rule       = `{"actions":[{"action":"fail","message":"boom"}],"conditions":[{"field":"a","invert":false,"multiple":"any","op":"eq","value":9007199254740993}],"description":null,"links":[{"href":"/v1/rules/r","rel":"self"}],"scope":"gold","uuid":"r"}`
)

// TestRequests: what each call asks.
func TestRequests(t *testing.T) {
	document := []byte(`{"a":1}`)
	for _, c := range []struct {
		name   string
		answer string
		call   func(ctx context.Context, c *client.Client) error
		want   []string
	}{
		{"status", waiting, func(ctx context.Context, c *client.Client) error {
			_, err := c.Status(ctx, "n?1 %2e")
			return err
		}, []string{"GET /introspection/n%3F1%20%252e"}},
		{"stale", waiting, func(ctx context.Context, c *client.Client) error {
			_, err := c.Stale().Status(ctx, "n")
			return err
		}, []string{"GET /introspection/n?stale=1"}},
		{"start", "{}", func(ctx context.Context, c *client.Client) error { return c.Start(ctx, "n", client.StartOptions{}) },
			[]string{"POST /introspection/n"}},
		{"start, boot left", "{}", func(ctx context.Context, c *client.Client) error {
			return c.Start(ctx, "n", client.StartOptions{LeaveBoot: true})
		}, []string{"POST /introspection/n?manage_boot=false"}},
		{"abort", "{}", func(ctx context.Context, c *client.Client) error { return c.Abort(ctx, "n") },
			[]string{"POST /introspection/n/abort"}},
		{"data", "{}", func(ctx context.Context, c *client.Client) error { _, err := c.Data(ctx, "n"); return err },
			[]string{"GET /introspection/n/data"}},
		{"unprocessed", "{}", func(ctx context.Context, c *client.Client) error {
			_, err := c.UnprocessedData(ctx, "n")
			return err
		}, []string{"GET /introspection/n/data/unprocessed"}},
		{"reapply", waiting, func(ctx context.Context, c *client.Client) error { return c.Reapply(ctx, "n", nil) },
			[]string{"GET /introspection/n", "POST /introspection/n/data/unprocessed"}},
		{"reapply with a body", waiting,
			func(ctx context.Context, c *client.Client) error { return c.Reapply(ctx, "n", document) },
			[]string{"GET /introspection/n", `POST /introspection/n/data/unprocessed {"a":1}`}},
		{"continue", `{"uuid":"u"}`,
			func(ctx context.Context, c *client.Client) error { _, err := c.Continue(ctx, document); return err },
			[]string{`POST /continue {"a":1}`}},
		{"rules", `{"rules":[]}`, func(ctx context.Context, c *client.Client) error { _, err := c.Rules(ctx); return err },
			[]string{"GET /rules"}},
		{"rule", rule, func(ctx context.Context, c *client.Client) error { _, err := c.Rule(ctx, "r"); return err },
			[]string{"GET /rules/r"}},
		{"create", rule, func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateRule(ctx, json.RawMessage(`{"uuid":"r","actions":[]}`))
			return err
		}, []string{`POST /rules {"uuid":"r","actions":[]}`}},
		{"create nonsense", rule,
			func(ctx context.Context, c *client.Client) error { _, err := c.CreateRule(ctx, 7); return err },
			[]string{"POST /rules 7"}},
		{"delete", "", func(ctx context.Context, c *client.Client) error { return c.DeleteRule(ctx, "r") },
			[]string{"DELETE /rules/r"}},
		{"purge", "", func(ctx context.Context, c *client.Client) error { return c.DeleteRules(ctx) },
			[]string{"DELETE /rules"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := answers(ok(c.answer))
			if err := c.call(t.Context(), s.client(t)); err != nil {
				t.Fatal(err)
			}
			for n := range s.asked {
				s.asked[n] = strings.Replace(s.asked[n], "/prefix/v1", "", 1)
			}
			if strings.Join(s.asked, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("asked %q, want %q", s.asked, c.want)
			}
		})
	}
}

// TestHeaders: version, credentials and the request's ID go with every try.
func TestHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answers(said(503, "no leader"), ok(waiting))
		c := s.client(t, func(o *client.Options) { o.User, o.Password, o.Version = "joe", "a:b", "1.17" })
		if _, err := c.Status(t.Context(), "n"); err != nil {
			t.Fatal(err)
		}
		for _, h := range s.heads {
			_, password, _ := (&http.Request{Header: h}).BasicAuth()
			if password != "a:b" || h.Get("X-OpenStack-Ironic-Inspector-API-Version") != "1.17" ||
				h.Get("X-Request-Id") != s.heads[0].Get("X-Request-Id") {
				t.Errorf("headers %v", h)
			}
		}
	})
}

// When its time is over a question names that beside what the servers said last.
func TestSilenceNamesItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := answers(said(503, "no leader")).client(t).Status(t.Context(), "n")
		var none *client.NoAnswerError
		if !errors.As(err, &none) || !errors.Is(none.Ended, context.DeadlineExceeded) || time.Since(began) > 40*time.Second ||
			!strings.HasSuffix(err.Error(), ": no leader; then the call was ended: its time of 40s is over") {
			t.Errorf("end-is-named: after %v: %v", time.Since(began), err)
		}
	})
}

// TestRetryAfter: a server's wish is heeded, and the context bounds it.
func TestRetryAfter(t *testing.T) {
	busy := said(503, "no leader")
	busy.head = http.Header{"Retry-After": {"3"}}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := answers(busy, busy, ok(waiting)).client(t).Status(t.Context(), "n"); err != nil ||
			time.Since(began) != 6*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		_, err := answers(busy).client(t).Status(ctx, "n")
		var none *client.NoAnswerError
		if !errors.As(err, &none) || !none.Leaderless() || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		var e *client.Error
		if !errors.As(err, &e) || e.Status != 503 || e.RetryAfter != 3*time.Second || e.Message != "no leader" {
			t.Errorf("%+v", e)
		}
	})
}

// TestLostAnswers: what changes something is done once, and what is known to
// be done is no error.
func TestLostAnswers(t *testing.T) {
	gone := said(404, "Rule r was not found")
	for _, c := range []struct {
		name    string
		answers []answer
		call    func(ctx context.Context, c *client.Client) error
		posts   int // requests that change something
	}{
		{"start, not done", []answer{lost(), said(404, "Could not find node n in cache"), ok("{}")},
			func(ctx context.Context, c *client.Client) error { return c.Start(ctx, "n", client.StartOptions{}) }, 2},
		{"reapply, done", []answer{ok(waiting), lost(), ok(reapplying)},
			func(ctx context.Context, c *client.Client) error { return c.Reapply(ctx, "n", nil) }, 1},
		{"reapply, not done", []answer{ok(waiting), lost(), ok(waiting), ok("{}")},
			func(ctx context.Context, c *client.Client) error { return c.Reapply(ctx, "n", nil) }, 2},
		{"continue", []answer{lost(), ok(`{"uuid":"u"}`)},
			func(ctx context.Context, c *client.Client) error { _, err := c.Continue(ctx, []byte("{}")); return err }, 2},
		{"create, done", []answer{lost(), said(409, "Rule with UUID x already exists"), ok(rule)},
			func(ctx context.Context, c *client.Client) error {
				_, err := c.CreateRule(ctx, client.Rule{Actions: []map[string]any{{"action": "fail"}}})
				return err
			}, 2},
		{"delete, done", []answer{lost(), gone},
			func(ctx context.Context, c *client.Client) error { return c.DeleteRule(ctx, "r") }, 2},
		{"delete, not done", []answer{lost(), ok("")},
			func(ctx context.Context, c *client.Client) error { return c.DeleteRule(ctx, "r") }, 2},
		{"purge", []answer{lost(), ok("")}, func(ctx context.Context, c *client.Client) error { return c.DeleteRules(ctx) },
			2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := answers(c.answers...)
				if err := c.call(t.Context(), s.client(t)); err != nil {
					t.Error(err)
				}
				posts := 0
				for _, asked := range s.asked {
					if !strings.HasPrefix(asked, "GET") {
						posts++
					}
				}
				if posts != c.posts {
					t.Errorf("asked %q", s.asked)
				}
			})
		})
	}
	if err := answers(gone).client(t).DeleteRule(t.Context(), "r"); !client.HasStatus(err, 404) {
		t.Errorf("a rule that never was: %v", err)
	}
}

// TestPageIsNoAnswer: a portal in front of a server says yes to all with a page. The contract calls empty
// answers HTML, too.
func TestPageIsNoAnswer(t *testing.T) {
	html := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	page := answer{status: 200, body: "<html>log in</html>", head: html}
	if err := answers(answer{status: 202, head: html}).client(t).Abort(t.Context(), "n"); err != nil {
		t.Errorf("client-page: an empty answer: %v", err)
	}
	for what, err := range map[string]error{
		"abort": answers(page).client(t).Abort(t.Context(), "n"), "purge": answers(page).client(t).DeleteRules(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "a page of HTML") {
			t.Errorf("client-page: %s was answered with a page, and the error is %v", what, err)
		}
	}
}

// TestMintedRules: a rule without a UUID has the same one in every try.
func TestMintedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answers(lost(), ok(rule))
		if _, err := s.client(t).CreateRule(t.Context(), json.RawMessage(`{"uuid":null,"actions":[]}`)); err != nil {
			t.Fatal(err)
		}
		var sent struct{ UUID string }
		_, body, _ := strings.Cut(s.asked[0], "rules ")
		if err := json.Unmarshal([]byte(body), &sent); err != nil || len(sent.UUID) != 36 || s.asked[0] != s.asked[1] {
			t.Errorf("asked %q, %v", s.asked, err)
		}
	})
}

// TestFaithful: what is read is written again as it came.
func TestFaithful(t *testing.T) {
	for _, text := range []string{waiting, reapplying} {
		i, err := answers(ok(text)).client(t).Status(t.Context(), "n")
		again, errAgain := json.Marshal(i)
		if err := errors.Join(err, errAgain); err != nil || !sameJSON(t, text, string(again)) {
			t.Errorf("%s, %v", again, err)
		}
	}
	kept := ok(waiting)
	kept.head = http.Header{"X-Trivet-Ramdisk-Logs": {"h2:/var/log/x.tar.gz"}}
	if i, err := answers(kept).client(t).Status(t.Context(), "n"); err != nil || i.RamdiskLogs != "h2:/var/log/x.tar.gz" {
		t.Errorf("%+v, %v", i, err)
	}
	r, err := answers(ok(rule)).client(t).Rule(t.Context(), "r")
	if err != nil || r.Conditions[0]["value"] != json.Number("9007199254740993") || r.Description != nil ||
		*r.Scope != "gold" {
		t.Errorf("%+v, %v", r, err)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	p, err := json.Marshal(x)
	q, errAgain := json.Marshal(y)
	if err := errors.Join(err, errAgain); err != nil {
		t.Fatal(err)
	}
	return string(p) == string(q)
}

// TestListing from a marker: one that is deleted meanwhile leads back to the
// caller's, not to the beginning.
func TestListing(t *testing.T) {
	page := func(uuids ...string) answer {
		var rows []string
		for _, u := range uuids {
			rows = append(rows, strings.Replace(waiting, `"uuid":"u"`, `"uuid":"`+u+`"`, 1))
		}
		return ok(`{"introspection":[` + strings.Join(rows, ",") + "]}")
	}
	s := answers(page("b", "c"), said(404, "Node not found for marker: None"), page("b", "d"), page())
	var got []string
	for i, err := range s.client(t).List(t.Context(),
		client.ListOptions{Marker: "a", States: []string{"waiting", "error"}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, i.UUID)
	}
	if strings.Join(got, "") != "bcd" {
		t.Errorf("listed %q", got)
	}
	const q = "GET /prefix/v1/introspection?limit=1000&marker=*&state=waiting%2Cerror"
	for n, marker := range []string{"a", "c", "a", "d"} {
		if want := strings.Replace(q, "*", marker, 1); s.asked[n] != want {
			t.Errorf("asked %q, want %q", s.asked[n], want)
		}
	}
	s = answers(said(404, "Node not found for marker: None"))
	for _, err := range s.client(t).List(t.Context(), client.ListOptions{Marker: "a"}) {
		if !client.HasStatus(err, 404) {
			t.Errorf("a marker that never was: %v", err)
		}
	}
}

// TestLeasesOfPages: all pages are read; a server of an older release has one.
func TestLeasesOfPages(t *testing.T) {
	page := func(more string, names ...string) answer {
		var rows []string
		for _, n := range names {
			rows = append(rows, `{"name":"`+n+`","holder":"","token":"1"}`)
		}
		return ok(`{"leases":[` + strings.Join(rows, ",") + "]" + more + "}")
	}
	list := func(s *server) (names string) {
		leases, err := s.client(t).Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			names += l.Name
		}
		return names
	}
	s := answers(page(`,"more":true`, "a", "b"), page(`,"more":true`, "c"), page(`,"more":false`, "d"))
	if got := list(s); got != "abcd" || s.asked[1] != "GET /prefix/v1/leases?marker=b" ||
		s.asked[2] != "GET /prefix/v1/leases?marker=c" {
		t.Errorf("lease-pages: listed %q, asked %q", got, s.asked)
	}
	if got := list(answers(page("", "a", "b"))); got != "ab" {
		t.Errorf("lease-pages: an older server's list is %q", got)
	}
	if _, err := answers(page(`,"more":true`)).client(t).Leases(t.Context()); err == nil {
		t.Error("lease-pages: a page without leases has no next one")
	}
}

// TestOptions that no server can be asked with.
func TestOptions(t *testing.T) {
	for _, servers := range [][]string{nil, {""}, {"h1:5050"}, {"ftp://h1"}, {"http://joe:secret@h1"}, {"http://h1?x=1"},
		{"http://h1", "http://"}} {
		if _, err := client.New(client.Options{Servers: servers}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", servers, err)
		}
	}
}

// arrived tells the client that its request was sent, as a real transport does.
func arrived(ctx context.Context) {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		trace.WroteHeaders()
	}
}

// TestRefusalSaysWhatItIsAbout: a refusal tells what was asked, and whether with credentials.
func TestRefusalSaysWhatItIsAbout(t *testing.T) {
	srv := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer srv.Close()
	for user, login := range map[string]bool{"": false, "admin": true} {
		c, err := client.New(client.Options{Servers: []string{srv.URL}, User: user, Password: "p"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Lease(t.Context(), "backup")
		var refused *client.Error
		if !errors.As(err, &refused) || refused.About != "leases" || refused.Login != login {
			t.Errorf("refusal-says-what-it-is-about: user %q: %+v", user, err)
		}
	}
}
