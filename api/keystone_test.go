package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm/introspection"
	"github.com/trivet-ha/trivet/internal/keystone"
	"github.com/trivet-ha/trivet/test/testwait"
)

// examiner is a Keystone that knows some tokens.
type examiner struct {
	mu      sync.Mutex
	holders map[string]keystone.Holder // guarded by mu
	err     error                      // of every question, if set; guarded by mu
	asked   int                        // guarded by mu
	now     int                        // questions under way; guarded by mu
	most    int                        // of them at once; guarded by mu
	takes   time.Duration
}

func (e *examiner) Examine(ctx context.Context, token string) (keystone.Holder, error) {
	e.set(func() { e.asked++; e.now++; e.most = max(e.most, e.now) })
	defer e.set(func() { e.now-- })
	if e.takes > 0 && !testwait.Rest(ctx, e.takes) {
		return keystone.Holder{}, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	holder, known := e.holders[token]
	switch {
	case e.err != nil:
		return keystone.Holder{}, e.err
	case !known:
		return keystone.Holder{}, keystone.ErrUnknownToken
	}
	return holder, nil
}

func (e *examiner) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// questions since it was asked last.
func (e *examiner) questions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.asked = 0 }()
	return e.asked
}

// holding is somebody with roles in a project, for a day.
func holding(roles ...string) keystone.Holder {
	return keystone.Holder{UserID: "4f2a", User: "ann", UserDomain: "Users", ProjectID: "77", Project: "metal",
		ProjectDomain: "Default", Roles: roles, Expires: time.Now().Add(24 * time.Hour)}
}

func ofSystem(h keystone.Holder) keystone.Holder {
	h.System, h.ProjectID, h.Project, h.ProjectDomain = true, "", "", ""
	return h
}

func keystoneConf() config.APIKeystone {
	conf := config.Default().API.Keystone
	conf.AuthURL = "https://k:5000/v3"
	return conf
}

func keystoneAuth(t testing.TB, e *examiner, log *bytes.Buffer) *KeystoneAuth {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewJSONHandler(log, nil))
	}
	k, err := NewKeystoneAuth(keystoneConf(), e, time.Now, rand.Reader, logger)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func identify(ctx context.Context, k *KeystoneAuth, token string) (Caller, error) {
	r := httptest.NewRequest("GET", "/v1/introspection", nil).WithContext(ctx)
	if token != "" {
		r.Header.Set(tokenHeader, token)
	}
	return k.Identify(r, netip.MustParseAddr("192.0.2.1"))
}

// TestPolicyWithKeystone asks for the contract's table of who may do what, with
// the tokens of all sorts of people.
func TestPolicyWithKeystone(t *testing.T) {
	e := &examiner{holders: map[string]keystone.Holder{
		"admin": holding("member", "Admin"), "reader": ofSystem(holding("reader")), "nobody": holding("member", "reader"),
	}}
	f := &fake{records: []introspection.Record{underWay()}, data: []byte("{}")}
	h := public(f, keystoneAuth(t, e, nil))
	for _, c := range []struct {
		method, path string
		want         map[string]int // by token; "" for none
	}{
		{"GET", "/", map[string]int{"": 200, "expired": 200}},
		{"GET", "/v1", map[string]int{"": 200, "expired": 200}},
		{"POST", "/v1/continue", map[string]int{"": 200, "expired": 200}},
		{"GET", "/healthcheck", map[string]int{"": 200, "expired": 200}},
		{"GET", "/livez", map[string]int{"": 200}},
		{"GET", "/v1/introspection", map[string]int{"": 401, "expired": 401, "nobody": 403, "reader": 200, "admin": 200}},
		{"GET", statusPath, map[string]int{"": 401, "expired": 401, "nobody": 403, "reader": 200, "admin": 200}},
		{"POST", statusPath, map[string]int{"": 401, "expired": 401, "nobody": 403, "reader": 403, "admin": 202}},
		{"POST", statusPath + "/abort", map[string]int{"": 401, "nobody": 403, "reader": 403, "admin": 202}},
		{"GET", statusPath + "/data", map[string]int{"": 401, "nobody": 403, "reader": 403, "admin": 200}},
	} {
		for token, want := range c.want {
			var headers []string
			if token != "" {
				headers = []string{tokenHeader, token}
			}
			w := answer(t, h, c.method, c.path, "{}", headers...)
			if w.Code != want {
				t.Errorf("%s %s as %q: %d %s, want %d", c.method, c.path, token, w.Code, w.Body, want)
			}
			challenge := w.Header().Get("WWW-Authenticate")
			if want == 401 && (w.Body.String() != errorBody("Authentication required") ||
				challenge != `Keystone uri="https://k:5000/v3"`) {
				t.Errorf("%s %s as %q: %s, challenge %q", c.method, c.path, token, w.Body, challenge)
			}
			if want == 403 && w.Body.String() != errorBody("Access denied by policy") || want != 401 && challenge != "" {
				t.Errorf("%s %s as %q: %s, challenge %q", c.method, c.path, token, w.Body, challenge)
			}
		}
	}
}

// TestRolesOfKeystone goes through the roles and scopes of the original's policy.
func TestRolesOfKeystone(t *testing.T) {
	k := keystoneAuth(t, &examiner{}, nil)
	strict := keystoneAuth(t, &examiner{}, nil)
	strict.conf.AdminRoles, strict.conf.ReaderRoles = []string{"system:admin"}, nil
	for _, c := range []struct {
		holder         keystone.Holder
		usual, stricts Role
	}{
		{holding(), RoleNone, RoleNone},
		{holding("member"), RoleNone, RoleNone},
		{holding("admin"), RoleAdmin, RoleNone},
		{holding("reader", "ADMIN"), RoleAdmin, RoleNone},
		{holding("administrator"), RoleAdmin, RoleNone},
		{holding("baremetal_admin"), RoleAdmin, RoleNone},
		{holding("baremetal_observer"), RoleReader, RoleNone},
		{holding("reader"), RoleNone, RoleNone}, // everybody in a cloud reads his own project
		{ofSystem(holding("reader")), RoleReader, RoleNone},
		{ofSystem(holding("admin", "member", "reader")), RoleAdmin, RoleAdmin},
		{ofSystem(holding("member")), RoleNone, RoleNone},
		{holding("system:admin"), RoleNone, RoleNone}, // a name is no scope
	} {
		if got := k.callerOf(c.holder).Role; got != c.usual {
			t.Errorf("%v, system %v: %v, want %v", c.holder.Roles, c.holder.System, got, c.usual)
		}
		if got := strict.callerOf(c.holder).Role; got != c.stricts {
			t.Errorf("%v, system %v, system:admin alone: %v, want %v", c.holder.Roles, c.holder.System, got, c.stricts)
		}
	}
}

// TestAuditNamesTheHolder and tells the token to nobody.
func TestAuditNamesTheHolder(t *testing.T) {
	const token = "gAAAAABsecret"
	e := &examiner{holders: map[string]keystone.Holder{token: holding("admin")}}
	var log bytes.Buffer
	i := &Inspector{Service: &fake{}, Auth: keystoneAuth(t, e, &log), MaxLimit: 1,
		Logger: slog.New(slog.NewJSONHandler(&log, nil))}
	send(i.Handler(), "POST", statusPath, "", tokenHeader, token)
	send(i.Handler(), "POST", statusPath, "", tokenHeader, token+"x")
	e.set(func() { e.err = errors.New("down") })
	send(i.Handler(), "POST", statusPath, "", tokenHeader, token+"y")
	var who []map[string]any
	for line := range strings.Lines(log.String()) {
		var l struct{ Audit map[string]any }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Audit != nil {
			who = append(who, l.Audit)
		}
	}
	if len(who) != 3 {
		t.Fatalf("%d lines of audit, want 3: %s", len(who), &log)
	}
	for key, want := range map[string]string{"who": "ann", "id": "4f2a", "domain": "Users",
		"scope": "project Default/metal", "role": "admin"} {
		if who[0][key] != want {
			t.Errorf("%s is %v, want %s", key, who[0][key], want)
		}
	}
	for _, nobody := range who[1:] {
		if nobody["who"] != whoUnauthenticated || nobody["id"] != nil {
			t.Errorf("whose token is not good is %v", nobody)
		}
	}
	if strings.Contains(log.String(), token) {
		t.Errorf("the token is told: %s", &log)
	}
}

// TestKnownForTheirTime is how long an answer counts: while Keystone is there,
// while it is not, and never longer than the token is good.
func TestKnownForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := holding("admin")
		short.Expires = time.Now().Add(time.Minute)
		e := &examiner{holders: map[string]keystone.Holder{"long": holding("admin"), "short": short}}
		k := keystoneAuth(t, e, nil)
		try := func(what, token string, want, questions int) {
			t.Helper()
			_, err := identify(t.Context(), k, token)
			if got := status(err); got != want {
				t.Errorf("%s: %d %v, want %d", what, got, err, want)
			}
			if n := e.questions(); n != questions {
				t.Errorf("%s: %d questions, want %d", what, n, questions)
			}
		}
		try("at first", "long", 0, 1)
		try("at first", "short", 0, 1)
		try("again", "long", 0, 0)
		try("again", "short", 0, 0)
		try("an unknown one", "other", 401, 1)
		try("an unknown one again", "other", 401, 0)
		time.Sleep(strangerFor)
		try("an unknown one later", "other", 401, 1)
		e.set(func() { e.err = errors.New("no route to host") })
		time.Sleep(time.Minute - strangerFor)
		try("Keystone is away, and it has ended", "short", 503, 1)
		try("Keystone is away", "long", 0, 0)
		try("Keystone is away, and no peer knows it", "new", 503, 1)
		try("that is not held against it", "new", 503, 1)
		e.set(func() { e.err = nil; delete(e.holders, "short"); e.holders["new"] = holding("admin") })
		try("Keystone is back", "new", 0, 1)
		try("Keystone is back, and it has ended", "short", 401, 1)
		time.Sleep(k.conf.CacheTime)
		try("after its time in memory", "long", 0, 1)
		e.set(func() { delete(e.holders, "long") })
		time.Sleep(k.conf.CacheTime)
		try("revoked", "long", 401, 1)
	})
}

// TestAwayIsNoRefusal: 503, with a reason and when to come again, and a word in
// the log, once.
func TestAwayIsNoRefusal(t *testing.T) {
	var log bytes.Buffer
	e := &examiner{err: fmt.Errorf("log in as trivet: %w", &keystone.Error{Err: errors.New("connection refused")})}
	k := keystoneAuth(t, e, &log)
	h := public(&fake{}, k)
	for range 3 {
		w := answer(t, h, "GET", "/v1/introspection", "", tokenHeader, "x")
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "connection refused") ||
			strings.Contains(w.Body.String(), "trivet") {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
	if n := strings.Count(log.String(), "validate token at Keystone failed"); n != 1 ||
		!strings.Contains(log.String(), "log in as trivet") {
		t.Errorf("told %d times: %s", n, &log)
	}
	e.set(func() { e.err = nil })
	answer(t, h, "GET", "/v1/introspection", "", tokenHeader, "x")
	if n := strings.Count(log.String(), "again\""); n != 1 {
		t.Errorf("its return was told %d times: %s", n, &log)
	}
}

// TestAwayUntilItAnswers is what operators are told, and for how long.
func TestAwayUntilItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &examiner{}
		k := keystoneAuth(t, e, nil)
		ask := func(failure error) {
			e.set(func() { e.err = failure })
			_, _ = identify(t.Context(), k, fmt.Sprint("token-", time.Now().UnixNano())) // refused in any case
			time.Sleep(time.Second)
		}
		if err := k.Away(); err != nil {
			t.Errorf("nobody has asked, and it is away: %v", err)
		}
		down := errors.New("no route to host")
		ask(down)
		if err := k.Away(); !errors.Is(err, down) {
			t.Errorf("not told that it is away: %v", err)
		}
		ask(nil)
		if err := k.Away(); err != nil {
			t.Errorf("it answered, and is away: %v", err)
		}
		ask(down)
		time.Sleep(awayFor - time.Minute)
		ask(down)
		time.Sleep(time.Minute)
		if err := k.Away(); !errors.Is(err, down) {
			t.Errorf("not told that it is still away: %v", err)
		}
		time.Sleep(awayFor)
		if err := k.Away(); err != nil {
			t.Errorf("away long after anybody asked: %v", err)
		}
		hasty, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := identify(hasty, k, "x"); err == nil || k.Away() != nil {
			t.Errorf("a caller went away, and Keystone is said to be: %v, %v", err, k.Away())
		}
	})
}

// TestSlowKeystoneIsNotWaitedForEver counts what a caller has to wait at most.
func TestSlowKeystoneIsNotWaitedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keystoneAuth(t, &examiner{takes: time.Hour}, nil)
		began := time.Now()
		_, err := identify(t.Context(), k, "x")
		if took := time.Since(began); status(err) != 503 || took != k.conf.Timeout {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestABurstAsksOnce has a hundred callers come with one token, the first of whom
// goes away.
func TestABurstAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &examiner{holders: map[string]keystone.Holder{"x": holding("admin")}, takes: time.Second}
		k := keystoneAuth(t, e, nil)
		hasty, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := identify(hasty, k, "x"); err == nil {
				t.Error("who went away was served")
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if c, err := identify(t.Context(), k, "x"); err != nil || c.Role != RoleAdmin {
					t.Errorf("%+v, %v", c, err)
				}
			})
		}
		synctest.Wait()
		if n := e.questions(); n != 1 {
			t.Errorf("%d questions for one token", n)
		}
		cancel()
		all.Wait()
		if n := e.questions(); n != 1 {
			t.Errorf("%d questions after the first caller went away, want 1", n)
		}
		if len(k.flights) != 0 {
			t.Errorf("%d questions are never done", len(k.flights))
		}
		e.set(func() { e.err = errors.New("down") })
		time.Sleep(k.conf.CacheTime)
		began := time.Now()
		for range 100 {
			all.Go(func() {
				if _, err := identify(t.Context(), k, "x"); status(err) != 503 {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took, n := time.Since(began), e.questions(); took > time.Second || n != 1 {
			t.Errorf("a failure took %v and %d questions for callers who came together", took, n)
		}
	})
}

// TestInventedTokens are asked about a few at a time, and push nobody out.
func TestInventedTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &examiner{holders: map[string]keystone.Holder{"good": holding("admin")}}
		k := keystoneAuth(t, e, nil)
		if _, err := identify(t.Context(), k, "good"); err != nil {
			t.Fatal(err)
		}
		e.takes = time.Second
		const served = maxExaminers + waitingOfLane/2
		var mu sync.Mutex
		counts := make(map[int]int) // guarded by mu
		var all sync.WaitGroup
		for n := range served + 10 {
			all.Go(func() {
				_, err := identify(t.Context(), k, fmt.Sprint("invented-", n))
				mu.Lock()
				defer mu.Unlock()
				counts[status(err)]++
			})
		}
		synctest.Wait()
		mu.Lock()
		turned := counts[503]
		mu.Unlock()
		if turned != 10 {
			t.Errorf("%d were turned away at once, want 10", turned)
		}
		all.Wait()
		if e.most != maxExaminers || counts[401]+counts[503] != served+10 || counts[401] < maxExaminers {
			t.Errorf("%d questions at once, answers %v", e.most, counts)
		}
		if idle, waiting := k.queue.Idle(); idle != maxExaminers || waiting != 0 {
			t.Errorf("places were never given back: %+v", k.queue)
		}
		e.takes = 0
		for n := range 2 * maxStrangers {
			_, _ = identify(t.Context(), k, fmt.Sprint("more-", n)) // refused, as above
		}
		if n := k.strangers.kept.Len(); n != maxStrangers {
			t.Errorf("%d invented tokens are kept", n)
		}
		e.questions()
		if _, err := identify(t.Context(), k, "good"); err != nil || e.questions() != 0 {
			t.Errorf("a good token was pushed out: %v", err)
		}
	})
}

// TestHoldersAreBounded keeps those that were asked for last.
func TestHoldersAreBounded(t *testing.T) {
	r := newRecent[int](3)
	now := time.Now()
	put := func(n byte) {
		r.put(tokenID{n}, remembered[int]{value: int(n), until: now.Add(time.Minute)})
	}
	put(1)
	put(2)
	put(3)
	if _, ok := r.get(tokenID{1}, now); !ok {
		t.Fatal("1 is gone")
	}
	put(4)
	put(4)
	for n, want := range map[byte]bool{1: true, 2: false, 3: true, 4: true} {
		if v, ok := r.get(tokenID{n}, now); ok != want || ok && v != int(n) {
			t.Errorf("%d: %d, %v", n, v, ok)
		}
	}
	if _, ok := r.get(tokenID{1}, now.Add(time.Minute)); ok || r.kept.Len() != 2 {
		t.Errorf("what ended is kept: %v, %d", ok, r.kept.Len())
	}
}

// TestNoSuchToken has Keystone asked about nothing that cannot be one.
func TestNoSuchToken(t *testing.T) {
	e := &examiner{}
	k := keystoneAuth(t, e, nil)
	for _, token := range []string{"", "two words", "tab\there", "\x7f", "ä", strings.Repeat("x", maxToken+1)} {
		if _, err := identify(t.Context(), k, token); status(err) != http.StatusUnauthorized {
			t.Errorf("%.20q: %v", token, err)
		}
	}
	if n := e.questions(); n != 0 {
		t.Errorf("%d questions", n)
	}
	if line := len("X-Subject-Token: ") + maxToken; line > 8190 { // Apache's LimitRequestFieldSize
		t.Errorf("longest-token: a line of %d bytes asks about it, more than servers in front of Keystone take", line)
	}
}

// TestCallersFillNoLog: tokens that callers choose say nothing of Keystone, and each answer is logged at a pace.
func TestCallersFillNoLog(t *testing.T) {
	for failure, want := range map[error][2]int{keystone.ErrUnfitToken: {401, 1}, errors.New("down"): {503, 2}} {
		e, log := &examiner{}, bytes.Buffer{}
		k := keystoneAuth(t, e, &log)
		for n := range 20 {
			e.err = []error{failure, nil}[n%2]
			_, err := identify(t.Context(), k, fmt.Sprint("invented-", n))
			if code := []int{want[0], 401}[n%2]; status(err) != code || (k.Away() == nil) != (code == 401) {
				t.Errorf("unfit-token: %v: %d: %v, away: %v", failure, n, err, k.Away())
			}
		}
		if lines := strings.Count(log.String(), "\n"); lines != want[1] {
			t.Errorf("lines-of-callers: %v: %d lines, want %d: %s", failure, lines, want[1], &log)
		}
	}
}
