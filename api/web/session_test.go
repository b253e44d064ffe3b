package web

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api"
)

// TestSession: a login, what the cookie looks like, and what ends it.
func TestSession(t *testing.T) {
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s}
	if w := v.do("GET", "/ui/api/v1/status", ""); w.Code != http.StatusUnauthorized ||
		w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("without a session: %d %v; a browser must not ask for a password itself", w.Code, w.Header())
	}
	if w := v.logIn("root", "wrong"); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) != 0 {
		t.Errorf("a wrong password: %d, %v", w.Code, w.Result().Cookies())
	}
	w := v.logIn("root", "secret")
	if w.Code != http.StatusNoContent || v.cookie == nil {
		t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	c := v.cookie
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "" ||
		c.MaxAge != int(cookieEnds.Seconds()) || strings.Contains(c.Value, "secret") {
		t.Errorf("cookie %+v", c)
	}
	if w := v.do("GET", "/ui/api/v1/status", ""); w.Code != http.StatusOK {
		t.Errorf("with a session: %d %s", w.Code, w.Body)
	}
	s.wall = s.wall.Add(cookieEnds)
	if w := v.do("GET", "/ui/api/v1/status", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("after its end: %d", w.Code)
	}
}

// TestLoginsAreTold: each login is in the audit, refused ones within the bound of those of
// strangers, and both are counted.
func TestLoginsAreTold(t *testing.T) {
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s}
	for range 100 {
		v.logIn("root", "wrong")
	}
	v.logIn("root", "secret")
	refused, told := strings.Count(s.audit.String(), "who=unauthenticated"), strings.Count(s.audit.String(), "who=root")
	if refused == 0 || refused > 20 || told != 1 {
		t.Errorf("login-audit: %d lines of 100 refused logins, %d of a good one", refused, told)
	}
	if s.logins[false] != 100 || s.logins[true] != 1 {
		t.Errorf("login-count: %v", s.logins)
	}
}

// TestSessionOnAnotherPeer: a failover behind a floating IP logs no user out, and
// the token of the session counts there, too.
func TestSessionOnAnotherPeer(t *testing.T) {
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s}
	v.logIn("root", "secret")
	v.at = s.peer(t, "h3", s.o.Guard.(*api.Inspector).Auth, "http_basic")
	if w := v.do("GET", "/ui/api/v1/status", ""); w.Code != http.StatusOK {
		t.Errorf("read on another peer: %d", w.Code)
	}
	if w := v.do("POST", "/ui/api/v1/transfer", "{}"); w.Code != http.StatusOK {
		t.Errorf("change on another peer: %d %s", w.Code, w.Body)
	}
}

// TestRevokedUser: a user who is removed, or whose password is changed, has no
// session any more.
func TestRevokedUser(t *testing.T) {
	for what, users := range map[string]string{"removed": "other:" + hash(t, "x"),
		"another password": "root:" + hash(t, "fresh")} {
		s := open(t, "http_basic")
		v := &visitor{t: t, at: s}
		v.logIn("root", "secret")
		s.write(t, users+"\n")
		s.wall = s.wall.Add(2 * time.Second) // the file is looked at again
		if w := v.do("GET", "/ui/api/v1/status", ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, w.Code)
		}
	}
}

// TestForgedCookies: what was not sealed with the cluster's key is no session.
func TestForgedCookies(t *testing.T) {
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s}
	v.logIn("root", "secret")
	good := v.cookie.Value
	for _, forged := range []string{"", "x", good[:len(good)-1], good + "A", "A" + good[1:],
		strings.Repeat("A", len(good)), strings.Repeat("A", 2*maxCookie)} {
		v.cookie = &http.Cookie{Name: cookieName, Value: forged}
		if w := v.do("GET", "/ui/api/v1/status", ""); w.Code != http.StatusUnauthorized && forged != good {
			t.Errorf("%.20s…: %d", forged, w.Code)
		}
	}
}

// TestLogOut has the browser forget the cookie.
func TestLogOut(t *testing.T) {
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s}
	v.logIn("root", "secret")
	w := v.do("DELETE", "/ui/api/session", "")
	if cookies := w.Result().Cookies(); w.Code != http.StatusNoContent || len(cookies) != 1 || cookies[0].MaxAge >= 0 ||
		cookies[0].Value != "" {
		t.Errorf("%d %v", w.Code, cookies)
	}
}

// TestCSRF: a request that changes something shows the token of its own session, and
// comes from no other site, whatever the browser adds to it.
func TestCSRF(t *testing.T) {
	for _, strategy := range []string{"noauth", "http_basic"} {
		s := open(t, strategy)
		v := &visitor{t: t, at: s}
		v.logIn("root", "secret")
		var who whoami
		if err := json.Unmarshal(v.do("GET", "/ui/api/session", "").Body.Bytes(), &who); err != nil || who.CSRF == "" {
			t.Fatalf("%s: %+v, %v", strategy, who, err)
		}
		v.csrf = who.CSRF
		const start = "/ui/api/v1/introspection/x"
		if w := v.do("POST", start, ""); w.Code != http.StatusOK {
			t.Fatalf("%s: the page itself: %d %s", strategy, w.Code, w.Body)
		}
		s.public.take()
		for what, change := range map[string]func(*visitor){
			"no token":           func(v *visitor) { v.csrf = "" },
			"a token of nothing": func(v *visitor) { v.csrf = strings.Repeat("0", 32) },
			"another site":       func(v *visitor) { v.header = http.Header{"Sec-Fetch-Site": {"cross-site"}} },
			"a sister site":      func(v *visitor) { v.header = http.Header{"Sec-Fetch-Site": {"same-site"}} },
			"another origin":     func(v *visitor) { v.header = http.Header{"Origin": {"http://evil.example"}} },
		} {
			attacked := *v
			change(&attacked)
			for _, path := range []string{start, start + "/abort", "/ui/api/v1/transfer", "/ui/api/v1/drill"} {
				if w := attacked.do("POST", path, "{}"); w.Code != http.StatusForbidden {
					t.Errorf("%s: %s to %s: %d", strategy, what, path, w.Code)
				}
			}
			for _, method := range []string{"PUT", "DELETE"} {
				if w := attacked.do(method, "/ui/api/v1/leases/x", "{}"); w.Code != http.StatusForbidden {
					t.Errorf("%s: %s with %s: %d", strategy, what, method, w.Code)
				}
			}
		}
		if n := len(s.public.take()) + len(s.control.take()); n != 0 {
			t.Errorf("%s: %d requests of other sites came through", strategy, n)
		}
	}
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}
	if w := v.do("POST", "/ui/api/session", `{"user":"root","password":"secret"}`); w.Code != http.StatusForbidden {
		t.Errorf("a login for another site: %d", w.Code)
	}
	tokenOf := func(user, password string) string {
		v := &visitor{t: t, at: s}
		v.logIn(user, password)
		return v.csrf
	}
	if a, b := tokenOf("root", "secret"), tokenOf("root", "secret"); a == b {
		t.Error("two sessions share a token")
	}
}

// TestRoles: readers read, admins change, and without proof the cluster is not
// changed. What comes through names the user.
func TestRoles(t *testing.T) {
	const forbidden, ok, unauthorized = http.StatusForbidden, http.StatusOK, http.StatusUnauthorized
	for _, c := range []struct {
		method, path              string
		nobody, viewer, root, all int // all: anybody, where the API asks for nothing
	}{
		{"GET", "/ui/api/v1/status", unauthorized, ok, ok, ok},
		{"GET", "/ui/api/v1/members", unauthorized, ok, ok, ok},
		{"GET", "/ui/api/v1/firewall/explain/x?all=1", unauthorized, ok, ok, ok},
		{"GET", "/ui/api/machines", unauthorized, ok, ok, ok},
		{"GET", "/ui/api/findings", unauthorized, forbidden, ok, ok},
		{"POST", "/ui/api/v1/transfer", forbidden, forbidden, ok, forbidden},
		{"PUT", "/ui/api/v1/maintenance", forbidden, forbidden, ok, forbidden},
		{"POST", "/ui/api/v1/failover/pause", forbidden, forbidden, ok, forbidden},
		{"POST", "/ui/api/v1/failover/resume", forbidden, forbidden, ok, forbidden},
		{"POST", "/ui/api/v1/drill", forbidden, forbidden, ok, forbidden},
	} {
		s, open2 := open(t, "http_basic"), open(t, "noauth")
		for user, want := range map[string]int{"": c.nobody, "viewer": c.viewer, "root": c.root} {
			v := &visitor{t: t, at: s}
			if user != "" {
				v.logIn(user, map[string]string{"viewer": "look", "root": "secret"}[user])
			}
			if w := v.do(c.method, c.path, `{"to":"h3"}`); w.Code != want {
				t.Errorf("%s %s by %q: %d, want %d: %s", c.method, c.path, user, w.Code, want, w.Body)
			}
		}
		v := &visitor{t: t, at: open2}
		v.logIn("", "") // for the token alone: it is refused nothing
		if w := v.do(c.method, c.path, "{}"); w.Code != c.all {
			t.Errorf("%s %s with noauth: %d, want %d: %s", c.method, c.path, w.Code, c.all, w.Body)
		}
	}
}

// TestForwarded: what the page hands on has the credentials of the session and not
// those that the browser may have added, and a drill kills no process.
func TestForwarded(t *testing.T) {
	s := open(t, "http_basic")
	v := &visitor{t: t, at: s, header: http.Header{"X-Auth-Token": {"stolen"}, "Authorization": {"Basic bm9ib2R5Og=="}}}
	v.logIn("viewer", "look")
	v.do("GET", "/ui/api/v1/introspection/a%20b?stale=1", "")
	got := s.public.take()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	r := got[0]
	user, password, _ := r.BasicAuth()
	if user != "viewer" || password != "look" || r.Header.Get("X-Auth-Token") != "" || r.Header.Get("Cookie") != "" ||
		r.URL.Path != "/v1/introspection/a b" || r.URL.RawQuery != "stale=1" {
		t.Errorf("%s of %s:%s, %v", r.URL, user, password, r.Header)
	}
	v.logIn("root", "secret")
	v.do("POST", "/ui/api/v1/drill", `{"kill":true,"with_introspections":true}`)
	got = s.control.take()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	if body, err := io.ReadAll(got[0].Body); err != nil || string(body) != "{}" || got[0].ContentLength != 2 {
		t.Errorf("the drill: %s, %v", body, err)
	}
	for _, path := range []string{"/ui/api/v1/tokens", "/ui/api/v1/snapshot", "/ui/api/v1/debug/dump",
		"/ui/api/v1/settings/x", "/ui/api/v1/operators/x"} {
		v.do("GET", path, "")
		v.do("POST", path, "{}")
		if n := len(s.control.take()); n != 0 {
			t.Errorf("%s reaches the control interface", path)
		}
	}
}

// TestBrowsersOwnPassword: a browser adds a password that it knows to each request, also
// to one that a page of another site has it send. Without a session the good password
// of an administrator counts for nothing: not to read, not for a token, not to change
// something with the token of no session, and not next to a login of somebody else.
func TestBrowsersOwnPassword(t *testing.T) {
	s := open(t, "http_basic")
	r := httptest.NewRequest("GET", "/ui/", nil)
	r.SetBasicAuth("root", "secret")
	v := &visitor{t: t, at: s, header: http.Header{"Authorization": r.Header["Authorization"]}}
	for _, path := range []string{"/ui/api/session", "/ui/api/machines", "/ui/api/findings", "/ui/api/v1/status"} {
		if w := v.do("GET", path, ""); w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "csrf") {
			t.Errorf("own-password: GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	token, err := s.csrf(r)
	if err != nil {
		t.Fatal(err)
	}
	v.csrf = token
	for _, o := range operations() {
		if o.method == http.MethodGet {
			continue
		}
		if w := v.do(o.method, "/ui/api"+o.path, "{}"); w.Code != http.StatusUnauthorized {
			t.Errorf("own-password: %s %s: %d %s", o.method, o.path, w.Code, w.Body)
		}
	}
	if n := len(s.control.take()); n != 0 {
		t.Errorf("own-password: %d requests reached the control interface", n)
	}
	v.do("POST", "/ui/api/v1/introspection/x", "") // the API judges it
	for _, r := range s.public.take() {
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("own-password: the API was shown %q", got)
		}
	}
	if w := v.do("POST", "/ui/api/session", `{"token":"gAAAA"}`); w.Code != http.StatusUnauthorized ||
		len(w.Result().Cookies()) != 0 {
		t.Errorf("own-password: a login with a token: %d", w.Code)
	}
}

// TestSecureCookie: over TLS, also that of a proxy, the cookie is sent over TLS only.
func TestSecureCookie(t *testing.T) {
	s := open(t, "http_basic")
	for scheme, want := range map[string]bool{"https": true, "http": false} {
		r := httptest.NewRequest("POST", "http://x/ui/api/session", strings.NewReader(`{"user":"root","password":"secret"}`))
		r.Header.Set("X-Forwarded-Proto", scheme)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Secure != want {
			t.Errorf("%s: %v", scheme, cookies)
		}
	}
	long := httptest.NewRecorder()
	s.ServeHTTP(long, httptest.NewRequest("POST", "/ui/api/session",
		strings.NewReader(`{"user":"`+strings.Repeat("x", maxLogin)+`"}`)))
	if long.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a login of %d bytes: %d", maxLogin, long.Code)
	}
}
