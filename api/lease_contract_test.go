package api

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore/logerr"
)

const (
	dbLease  = "/v1/leases/db"
	asMinute = `"ttl_ms":60000`
)

// said is what an answer about a lease says.
type said struct {
	Holder, Token, Name string
	Remaining           int64 `json:"remaining_ms"`
	TTL                 int64 `json:"ttl_ms"`
	Error               struct{ Code, Message string }
	Request             string `json:"request_id"`
}

func (l *lending) read(w *httptest.ResponseRecorder) (s said) {
	l.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		l.Fatalf("%s: %v", w.Body, err)
	}
	return s
}

// acquired has a lease for a minute, and returns its token.
func (l *lending) acquired(holder string) string {
	l.Helper()
	return l.tokenIn(l.ask(201, "PUT", dbLease, `{"holder":"`+holder+`",`+asMinute+`}`))
}

func showing(holder, token string) string {
	return `{"holder":"` + holder + `","token":"` + token + `"}`
}

// pass lets time go by; it is always called in a bubble.
func (l *lending) pass(d time.Duration) { time.Sleep(d) }

// TestContractLines holds the API against docs/contract.md#leases, line by line, in virtual time.
// What takes several peers stands elsewhere: rules 2, 4, 6, 7 and 12 in
// test/simtest (TestLeasesAreLinearizable, TestWrongClocksEndNothingEarly,
// TestRestoreVoidsWhatWasGranted), rule 6 for a new cluster in fsm
// (TestTokensOfAnotherClusterAreNotGrantedAgain), rule 3 in client/lease.
func TestContractLines(t *testing.T) {
	for name, line := range map[string]func(l *lending){
		"acquire: 201, and 200 with the same token for the same request":  lineRepeated,
		"acquire: 409 names the holder, its token and what remains":       lineHeld,
		"renew: 200 for the whole ttl again, under the same token":        lineRenewed,
		"renew: 409 for another holder or token, 404 for no such lease":   lineNotMine,
		"renew: 410 once expired or released, and never revived":          lineOver,
		"release: 204, again 204, and 409 once another has it":            lineReleased,
		"get: 200 with what remains, 503 without a quorum, stale marked":  lineRead,
		"watch: 200 at a change, and the same after the wait":             lineWatched,
		"guarded write: 200 and a version, 412 under any but the token":   lineGuarded,
		"rule 5: the same holder does not inherit, unless it takes over":  lineTakenOver,
		"rule 6: tokens rise over grants, deletion and all names":         lineTokensRise,
		"rule 9: 503 and Retry-After for all that needs a quorum":         lineNoQuorum,
		"rule 10: an unknown outcome names the request, which tells it":   lineUnknown,
		"rule 10: 507 says what is full":                                  lineFull,
		"rule 11: a renewal does not change the ttl, an acquisition does": lineTTL,
		"rule 13: names, holders and what is ignored":                     lineNames,
		"groups: there while the lease is held, and not a moment longer":  lineGroup,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { line(newLending(t)) })
		})
	}
}

func lineRepeated(l *lending) {
	body := `{"holder":"one",` + asMinute + `,"request_id":"a"}`
	first := l.ask(201, "PUT", dbLease, body)
	if s := l.read(first); s.Remaining != 60_000 || s.Holder != "one" || s.Name != "db" || s.TTL != 60_000 {
		l.Errorf("granted %+v", s)
	}
	l.pass(20 * time.Second)
	again := l.read(l.ask(200, "PUT", dbLease, body))
	if again.Token != l.tokenIn(first) || again.Remaining > 40_000 {
		l.Errorf("%s, then %+v", first.Body, again)
	}
	l.pass(40 * time.Second)
	l.acquired("two")
	l.ask(410, "PUT", dbLease, body) // it had its grant
	l.log.Lose(true)                 // the peer's business, not the caller's
	l.ask(201, "PUT", "/v1/leases/disk", body)
	l.ask(200, "PUT", "/v1/leases/disk", body)
}

func lineHeld(l *lending) {
	token := l.acquired("one")
	l.pass(10 * time.Second)
	s := l.read(l.ask(409, "PUT", dbLease, `{"holder":"two",`+asMinute+`}`))
	if s.Holder != "one" || s.Token != token || s.Remaining != 50_000 || s.Error.Message == "" {
		l.Errorf("refused with %+v", s)
	}
}

func lineRenewed(l *lending) {
	token := l.acquired("one")
	for range 3 {
		l.pass(59 * time.Second)
		if s := l.read(l.ask(200, "POST", dbLease+"/renew", showing("one", token))); s.Token != token ||
			s.Remaining != 60_000 || s.TTL != 60_000 {
			l.Errorf("renewed to %+v", s)
		}
	}
}

func lineNotMine(l *lending) {
	token := l.acquired("one")
	for _, body := range []string{showing("two", token), showing("one", "1")} {
		if s := l.read(l.ask(409, "POST", dbLease+"/renew", body)); s.Holder != "one" || s.Token != token {
			l.Errorf("%s: %+v", body, s)
		}
	}
	l.ask(404, "POST", "/v1/leases/nobody/renew", showing("one", token))
}

func lineOver(l *lending) {
	token := l.acquired("one")
	l.pass(time.Minute)
	for range 2 {
		l.ask(410, "POST", dbLease+"/renew", showing("one", token))
	}
	if s := l.read(l.ask(200, "GET", dbLease, "")); s.Holder != "" || s.Token != token || s.Remaining != 0 {
		l.Errorf("a lease that is over is %+v", s)
	}
	token = l.acquired("one")
	l.ask(204, "DELETE", dbLease, showing("one", token))
	l.ask(410, "POST", dbLease+"/renew", showing("one", token))
}

func lineReleased(l *lending) {
	token := l.acquired("one")
	l.ask(204, "DELETE", dbLease, showing("one", token))
	l.ask(204, "DELETE", dbLease, showing("one", token))
	l.ask(204, "DELETE", dbLease+"?holder=one&token="+token, "")
	next := l.acquired("two")
	if s := l.read(l.ask(409, "DELETE", dbLease, showing("one", token))); s.Holder != "two" || s.Token != next {
		l.Errorf("refused with %+v", s)
	}
	l.ask(200, "POST", dbLease+"/renew", showing("two", next)) // it was not released
	l.ask(204, "DELETE", dbLease, showing("two", next))
	l.ask(204, "DELETE", dbLease, showing("one", token)) // the same again, whoever had it since
}

func lineRead(l *lending) {
	token := l.acquired("one")
	w := l.ask(200, "GET", dbLease, "")
	if s := l.read(w); s.Remaining != 60_000 || s.Token != token || w.Header().Get("X-Stale-For") != "" {
		l.Errorf("%+v %v", s, w.Header())
	}
	l.log.Fail(logerr.ErrNoLeader)
	l.ask(503, "GET", dbLease, "")
	l.ask(503, "GET", "/v1/leases", "")
	for _, path := range []string{dbLease, "/v1/leases", "/v1/kv", "/v1/groups/web"} {
		if w := l.ask(200, "GET", path+"?stale=1", ""); w.Header().Get("X-Stale-For") == "" {
			l.Errorf("%s is not marked", path)
		}
	}
}

func lineWatched(l *lending) {
	token := l.acquired("one")
	began := time.Now()
	if s := l.read(l.ask(200, "GET", dbLease+"?wait=30s&after="+token, "")); s.Token != token ||
		time.Since(began) != 30*time.Second {
		l.Errorf("%+v after %v", s, time.Since(began))
	}
	inBackground := func(do func()) {
		began = time.Now()
		go func() {
			l.pass(time.Second)
			do()
		}()
	}
	inBackground(func() { l.ask(204, "DELETE", dbLease, showing("one", token)) })
	if s := l.read(l.ask(200, "GET", dbLease+"?wait=30s&after="+token, "")); s.Holder != "" ||
		time.Since(began) != time.Second {
		l.Errorf("released: %+v after %v", s, time.Since(began))
	}
	inBackground(func() { l.acquired("two") })
	if s := l.read(l.ask(200, "GET", dbLease+"?wait=30s&free=1&after="+token, "")); s.Holder != "two" ||
		time.Since(began) != time.Second {
		l.Errorf("acquired: %+v after %v", s, time.Since(began))
	}
	if s := l.read(l.ask(200, "GET", dbLease+"?wait=30s&after="+token, "")); s.Holder != "two" ||
		time.Since(began) != time.Second {
		l.Errorf("a change before the watch began: %+v after %v", s, time.Since(began))
	}
	l.log.Fail(logerr.ErrNoLeader)
	l.ask(503, "GET", dbLease+"?wait=30s&after="+l.read(l.ask(200, "GET", dbLease+"?stale=1", "")).Token, "")
}

func lineGuarded(l *lending) {
	token := l.acquired("one")
	under := func(token string) []string { return []string{"Fencing-Token", "db:" + token} }
	first := l.ask(200, "PUT", "/v1/kv/k", "a", under(token)...)
	if v := first.Header().Get("ETag"); v == "" || v <= `"`+token+`"` {
		l.Errorf("version %s under token %s", v, token)
	}
	l.ask(412, "PUT", "/v1/kv/k", "b", under(token+"0")...) // never issued
	l.ask(412, "PUT", "/v1/kv/k", "b", under("1")...)
	l.ask(412, "PUT", "/v1/kv/k", "b", append(under(token), "If-Match", `"1"`)...)
	l.pass(time.Minute)
	l.ask(412, "PUT", "/v1/kv/k", "b", under(token)...) // expired
	next := l.acquired("two")
	l.ask(412, "PUT", "/v1/kv/k", "b", under(token)...) // the current one is greater
	l.ask(412, "DELETE", "/v1/kv/k", "", under(token)...)
	l.ask(200, "PUT", "/v1/kv/k", "c", under(next)...)
	l.ask(204, "DELETE", dbLease, showing("two", next))
	l.ask(412, "PUT", "/v1/kv/k", "d", under(next)...) // released
	l.ask(204, "DELETE", dbLease+"?record=1", "")
	l.ask(412, "PUT", "/v1/kv/k", "d", under(next)...) // forgotten
	if w := l.ask(200, "GET", "/v1/kv/k", ""); w.Body.String() != "c" {
		l.Errorf("kept %s", w.Body)
	}
}

func lineTakenOver(l *lending) {
	token := l.acquired("one")
	if s := l.read(l.ask(409, "PUT", dbLease, `{"holder":"one",`+asMinute+`,"request_id":"b"}`)); s.Holder != "one" ||
		s.Token != token {
		l.Errorf("refused with %+v", s)
	}
	body := `{"holder":"one",` + asMinute + `,"request_id":"c","takeover":true}`
	taken := l.tokenIn(l.ask(201, "PUT", dbLease, body))
	if taken <= token {
		l.Errorf("token %s follows %s", taken, token)
	}
	if again := l.tokenIn(l.ask(200, "PUT", dbLease, body)); again != taken {
		l.Errorf("the same request got %s, then %s", taken, again)
	}
	l.ask(409, "POST", dbLease+"/renew", showing("one", token)) // the predecessor
	l.ask(412, "PUT", "/v1/kv/k", "x", "Fencing-Token", "db:"+token)
	l.ask(409, "PUT", dbLease, `{"holder":"two",`+asMinute+`,"takeover":true}`) // nobody else's
}

func lineTokensRise(l *lending) {
	last := ""
	higher := func(w *httptest.ResponseRecorder) string {
		token := l.tokenIn(w)
		if len(token) < len(last) || len(token) == len(last) && token <= last {
			l.Errorf("token %s follows %s", token, last)
		}
		if w.Header().Get("ETag") != `"`+token+`"` || !regexp.MustCompile(`"token":"[0-9]+"`).MatchString(w.Body.String()) {
			l.Errorf("%s %v", w.Body, w.Header())
		}
		last = token
		return token
	}
	for range 3 {
		token := higher(l.ask(201, "PUT", dbLease, `{"holder":"one",`+asMinute+`}`))
		higher(l.ask(201, "PUT", "/v1/leases/disk", `{"holder":"one","ttl_ms":1000}`))
		l.ask(204, "DELETE", dbLease, showing("one", token))
		l.ask(204, "DELETE", dbLease+"?record=1", "")
		l.ask(404, "GET", dbLease, "")
		l.ask(404, "POST", dbLease+"/renew", showing("one", token))
		l.pass(time.Second)
	}
}

func lineNoQuorum(l *lending) {
	token := l.acquired("one")
	l.log.Fail(logerr.ErrNoLeader)
	member := `{"lease":"db","token":"` + token + `"}`
	for _, w := range []*httptest.ResponseRecorder{
		l.ask(503, "PUT", dbLease, `{"holder":"two",`+asMinute+`}`),
		l.ask(503, "POST", dbLease+"/renew", showing("one", token)),
		l.ask(503, "DELETE", dbLease, showing("one", token)),
		l.ask(503, "DELETE", dbLease+"?record=1", ""),
		l.ask(503, "GET", dbLease, ""),
		l.ask(503, "GET", dbLease+"?wait=1s&after="+token, ""),
		l.ask(503, "PUT", "/v1/kv/k", "x", "Fencing-Token", "db:"+token),
		l.ask(503, "DELETE", "/v1/kv/k", "", "Fencing-Token", "db:"+token),
		l.ask(503, "GET", "/v1/kv/k", ""),
		l.ask(503, "GET", "/v1/kv", ""),
		l.ask(503, "PUT", "/v1/groups/web/members/a", member),
		l.ask(503, "DELETE", "/v1/groups/web/members/a", member),
		l.ask(503, "GET", "/v1/groups/web", ""),
		l.ask(503, "GET", "/v1/groups/web/owner?key=k", ""),
	} {
		if w.Header().Get("Retry-After") == "" {
			l.Errorf("%s: %v", w.Body, w.Header())
		}
	}
}

func lineUnknown(l *lending) {
	l.log.Fail(logerr.ErrOutcomeUnknown)
	s := l.read(l.ask(503, "PUT", dbLease, `{"holder":"one",`+asMinute+`}`))
	if s.Request == "" {
		l.Fatal("no request is named")
	}
	if given := l.read(
		l.ask(503, "PUT", dbLease, `{"holder":"one",`+asMinute+`,"request_id":"mine"}`)); given.Request != "mine" {
		l.Errorf("%q is named", given.Request)
	}
	if write := l.read(l.ask(503, "PUT", "/v1/kv/k?request_id=w", "x", "If-None-Match", "*")); write.Request != "w" {
		l.Errorf("%q is named", write.Request)
	}
	l.log.Fail(nil)
	body := `{"holder":"one",` + asMinute + `,"request_id":"` + s.Request + `"}`
	first := l.tokenIn(l.ask(201, "PUT", dbLease, body))
	if again := l.tokenIn(l.ask(200, "PUT", dbLease, body)); again != first {
		l.Errorf("the same request got %s, then %s", first, again)
	}
	version := l.ask(200, "PUT", "/v1/kv/k?request_id=w", "x", "If-None-Match", "*").Header().Get("ETag")
	if again := l.ask(
		200, "PUT", "/v1/kv/k?request_id=w", "x", "If-None-Match", "*").Header().Get("ETag"); again != version {
		l.Errorf("the same write has version %s, then %s", version, again)
	}
}

// lineFull: who has no room is told so in all calls that may need some, and is not sent
// to another peer.
func lineFull(l *lending) {
	token := l.acquired("one")
	member := `{"lease":"db","token":"` + token + `"}`
	l.log.Fail(&fsm.Error{Code: fsm.TableFull, Message: "10000 leases exist; have free ones forgotten"})
	for _, w := range []*httptest.ResponseRecorder{
		l.ask(507, "PUT", dbLease, `{"holder":"two",`+asMinute+`,"request_id":"mine"}`),
		l.ask(507, "POST", dbLease+"/renew", showing("one", token)),
		l.ask(507, "DELETE", dbLease, showing("one", token)),
		l.ask(507, "DELETE", dbLease+"?record=1", ""),
		l.ask(507, "PUT", "/v1/kv/k", "x", "Fencing-Token", "db:"+token),
		l.ask(507, "DELETE", "/v1/kv/k", "", "Fencing-Token", "db:"+token),
		l.ask(507, "PUT", "/v1/groups/web/members/a", member),
		l.ask(507, "DELETE", "/v1/groups/web/members/a", member),
	} {
		s := l.read(w)
		if s.Error.Code != CodeTableFull || s.Error.Message != "10000 leases exist; have free ones forgotten" ||
			s.Request != "" || w.Header().Get("Retry-After") != "" {
			l.Errorf("full: %s, %v", w.Body, w.Header())
		}
	}
}

func lineTTL(l *lending) {
	token := l.acquired("one")
	if s := l.read(l.ask(200, "POST", dbLease+"/renew",
		`{"holder":"one","token":"`+token+`","ttl_ms":5000}`)); s.Remaining != 60_000 {
		l.Errorf("renewed to %+v", s)
	}
	if s := l.read(l.ask(201, "PUT", dbLease, `{"holder":"one","ttl_ms":86400000,"takeover":true}`)); s.TTL != 86_400_000 {
		l.Errorf("granted %+v", s)
	}
}

func lineNames(l *lending) {
	long := strings.Repeat("a", 251) + "-b"
	for _, name := range []string{"a", "0", "a-b.c", "a..b", long} {
		l.ask(201, "PUT", "/v1/leases/"+name, `{"holder":"`+strings.Repeat("h", 256)+`",`+asMinute+`,"later":{"x":[1]}}`)
	}
	for _, name := range []string{"-a", "a-", ".a", "a.", "a_b", "A", "a%20b", "é", long + "c"} {
		l.ask(400, "PUT", "/v1/leases/"+name, `{"holder":"h",`+asMinute+`}`)
	}
	l.ask(400, "PUT", "/v1/leases/a", `{"holder":"`+strings.Repeat("h", 257)+`",`+asMinute+`}`)
	l.ask(400, "PUT", "/v1/leases/a", `{"holder":"h",`+asMinute+`,"metadata":"`+strings.Repeat("m", 4097)+`"}`)
}

func lineGroup(l *lending) {
	token := l.acquired("one")
	body := `{"lease":"db","token":"` + token + `"}`
	l.ask(204, "PUT", "/v1/groups/web/members/a", body)
	w := l.ask(200, "GET", "/v1/groups/web", "")
	tag, began := w.Header().Get("ETag"), time.Now()
	if again := l.ask(200, "GET", "/v1/groups/web?wait=5s", "", "If-None-Match", tag); again.Header().Get("ETag") != tag ||
		time.Since(began) != 5*time.Second {
		l.Errorf("%s after %v", again.Body, time.Since(began))
	}
	l.ask(204, "DELETE", "/v1/groups/web/members/a?lease=db&token="+token, "")
	l.ask(404, "GET", "/v1/groups/web/owner?key=k", "")
	l.ask(204, "PUT", "/v1/groups/web/members/a", body)
	l.pass(55 * time.Second)
	l.ask(412, "PUT", "/v1/groups/web/members/b", body) // its lease is over
	if w := l.ask(200, "GET", "/v1/groups/web", ""); strings.Contains(w.Body.String(), `"id"`) {
		l.Errorf("still there: %s", w.Body)
	}
}
