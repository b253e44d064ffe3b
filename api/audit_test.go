package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/introspection"
)

// auditLine is one line of the audit.
type auditLine struct {
	API, Who, Role, From, Via, Method, Path string
	Status                                  int
	Index                                   uint64
	Request                                 string `json:"-"` // request_id, next to the group
}

// lines reads the audit from a log in JSON.
func auditLines(t testing.TB, log *bytes.Buffer) (out []auditLine) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(log.Bytes())); ; {
		var l struct {
			Msg, Level string
			Audit      auditLine
			Request    string `json:"request_id"`
		}
		if err := d.Decode(&l); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if l.Msg == auditMessage {
			if l.Level != "INFO" {
				t.Errorf("level %s", l.Level)
			}
			l.Audit.Request = l.Request
			out = append(out, l.Audit)
		}
	}
}

// committing is a service that commits what it is asked, as the real one does.
type committing struct {
	*fake
	do Doer
}

func (c committing) commit(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	res, err := c.do.Do(ctx, "", introspection.Enqueue{Node: node})
	if err != nil {
		return err
	}
	return res.Err()
}

func (c committing) Start(ctx context.Context, ref string, manageBoot bool) error {
	return c.commit(ctx, c.fake.Start(ctx, ref, manageBoot))
}

func (c committing) Abort(ctx context.Context, ref string) error {
	return c.commit(ctx, c.fake.Abort(ctx, ref))
}

func (c committing) Reapply(ctx context.Context, ref string, body []byte) error {
	return c.commit(ctx, c.fake.Reapply(ctx, ref, body))
}

func (c committing) Continue(ctx context.Context, body []byte) (string, error) {
	uuid, err := c.fake.Continue(ctx, body)
	return uuid, c.commit(ctx, err)
}

// auditedAPI returns an API whose log is read with auditLines.
func auditedAPI(f *fake, auth Auth) (*Inspector, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return &Inspector{
		Service: committing{f, Traced(doing{res: fsm.Result{Token: 4711}})}, Auth: auth, MaxLimit: 1,
		Logger:   slog.New(slog.NewJSONHandler(log, nil)),
		StaleFor: func() time.Duration { return 0 }, Proxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
	}, log
}

// TestEveryChangeIsTold goes through every route: what may change something
// leaves exactly one line, whatever comes of it, and nothing else does.
func TestEveryChangeIsTold(t *testing.T) {
	for _, c := range []struct {
		name, credentials, who, role string
		err                          error
		failure                      int // 0: none
	}{
		{"an admin", asAdmin, "admin", "admin", nil, 0},
		{"a refusal", asAdmin, "admin", "admin", refuse(400, "no"), 400},
		{"a fault", asAdmin, "admin", "admin", io.ErrUnexpectedEOF, 500},
		{"a reader", asReader, "ann", "reader", nil, 403},
		{"a stranger", "", "unauthenticated", "", nil, 401},
	} {
		f := &fake{records: []introspection.Record{underWay()}, data: []byte("{}"), err: c.err}
		i, log := auditedAPI(f, readerAuth(t, slog.New(slog.DiscardHandler)))
		h := i.Handler()
		for _, r := range i.resources() {
			path := strings.NewReplacer(":node", node, ":uuid", node, ":rule", node).Replace(r.path)
			for method, changes := range map[string]bool{"GET": false, "HEAD": false, "OPTIONS": false, "PATCH": false,
				"POST": r.post != nil, "DELETE": r.remove != nil} {
				log.Reset()
				w := answer(t, h, method, path, bodyFor(path), append(authorization(c.credentials), "X-Request-Id", "req-1")...)
				told := auditLines(t, log)
				if !changes {
					if len(told) != 0 {
						t.Errorf("%s: %s %s left %+v", c.name, method, path, told)
					}
					continue
				}
				want := auditLine{API: "public", Who: c.who, Role: c.role, From: "192.0.2.1", Method: method, Path: path,
					Request: "req-1", Status: w.Code}
				if r.public {
					want.Who, want.Role = whoAnonymous, ""
				}
				if len(told) == 1 {
					want.Index = told[0].Index
				}
				if len(told) != 1 || told[0] != want {
					t.Errorf("%s: %s %s left\n%+v\nwant\n%+v", c.name, method, path, told, want)
				}
				if failed := c.failure != 0 && !(r.public && c.err == nil); failed && w.Code != c.failure ||
					!failed && w.Code >= 300 {
					t.Errorf("%s: %s %s: %d %s", c.name, method, path, w.Code, w.Body)
				}
				if w.Header().Get("X-Request-Id") != "req-1" {
					t.Errorf("%s: %s %s: the answer does not say which request it is of", c.name, method, path)
				}
			}
		}
	}
}

// The index leads from the line to the log's entry.
func TestTheAuditNamesTheEntry(t *testing.T) {
	i, log := auditedAPI(&fake{}, NoAuth())
	h := i.Handler()
	for _, path := range []string{statusPath, statusPath + "/abort", statusPath + "/data/unprocessed", "/v1/continue"} {
		log.Reset()
		answer(t, h, "POST", path, "{}")
		if told := auditLines(t, log); len(told) != 1 || told[0].Index != 4711 || told[0].Who != whoAnonymous {
			t.Errorf("%s: %+v", path, told)
		}
	}
	i.Service = committing{&fake{}, Traced(doing{err: io.ErrUnexpectedEOF})}
	log.Reset()
	answer(t, h, "POST", statusPath, "")
	if told := auditLines(t, log); len(told) != 1 || told[0].Index != 0 || told[0].Status != 500 {
		t.Errorf("nothing was committed: %+v", told)
	}
}

// What a caller writes can neither fill the log nor break its lines, and what
// may be a secret is not in it.
func TestTheAuditIsBoundedAndTellsNoSecret(t *testing.T) {
	i, log := auditedAPI(&fake{}, testAuth(t))
	path := "/v1/introspection/" + strings.Repeat("é", 20_000)
	answer(t, i.Handler(), "POST", path+"?token=hunter2", `{"password":"hunter2"}`,
		"Authorization", "Basic YWRtaW46aHVudGVyMg==", "X-Auth-Token", "hunter2", "X-Request-Id", "a\nb hunter2",
		"X-Forwarded-For", strings.Repeat("9", 5000))
	told := auditLines(t, log)
	if len(told) != 1 || len(log.Bytes()) > 1000 || strings.Contains(log.String(), "hunter2") {
		t.Errorf("%d bytes: %s", log.Len(), log)
	}
	if len(told) == 1 && (len(told[0].Path) > maxAuditText+3 || !openStackID.MatchString(told[0].Request)) {
		t.Errorf("path of %d bytes, request %q", len(told[0].Path), told[0].Request)
	}
}

// A proxy is named beside whom it speaks for; and over the limit nobody fills
// the log with lines of the audit.
func TestTheAuditSaysFromWhere(t *testing.T) { synctest.Test(t, auditSaysFromWhere) }

func auditSaysFromWhere(t *testing.T) {
	i, log := auditedAPI(&fake{}, NoAuth())
	i.Callbacks = CallbackLimit{Rate: 1, Burst: 1}
	h := i.Handler()
	answer(t, h, "POST", statusPath, "", "X-Forwarded-For", "10.9.9.9, 198.51.100.7")
	answered := callTogether(h, 50, "192.0.2.1:1024", "X-Forwarded-For", "2001:db8::5")
	told := auditLines(t, log)
	if answered[503] < 20 || len(told) != 1+answered[200] || told[0].From != "198.51.100.7" ||
		told[0].Via != "192.0.2.1" || told[1].From != "2001:db8::5" {
		t.Errorf("%+v", told)
	}
}

func TestAPanicIsTold(t *testing.T) {
	i, log := auditedAPI(&fake{hook: func() { panic("boom") }}, NoAuth())
	answer(t, i.Handler(), "POST", statusPath, "")
	if told := auditLines(t, log); len(told) != 1 || told[0].Status != 500 {
		t.Errorf("%+v", told)
	}
}
