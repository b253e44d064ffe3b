package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// auditLine is what the audit tells of a call.
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
		if l.Msg == "audit" {
			if l.Level != "INFO" {
				t.Errorf("level %s", l.Level)
			}
			l.Audit.Request = l.Request
			out = append(out, l.Audit)
		}
	}
}

// TestEveryOperationIsTold is the same for the control interface, on a real
// socket: the kernel says who it is.
func TestEveryOperationIsTold(t *testing.T) {
	log := new(bytes.Buffer)
	c := &Control{State: State{Do: doing{res: fsm.Result{Token: 5}}}, Logger: slog.New(slog.NewJSONHandler(log, nil))}
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(api.Identified(recovering(c.Handler())))
	srv.Listener.Close()
	srv.Listener, srv.Config.ConnContext = ln, api.SocketContext
	srv.Start()
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}}
	defer client.CloseIdleConnections()
	who := fmt.Sprintf("uid %d (process %d)", os.Getuid(), os.Getpid())
	ask := func(method, path string) []auditLine {
		log.Reset()
		r, err := http.NewRequest(method, "http://trivet"+path, strings.NewReader(`{"value":"v"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return auditLines(t, log)
	}
	changes := 0
	for _, r := range c.routes().Routes() {
		if r.Method == echo.RouteNotFound { // of a group, for paths that it does not have
			continue
		}
		path := strings.NewReplacer(":peer", "h2", ":id", "x", ":key", "k", ":name", "ann", ":mac", "aa").Replace(r.Path)
		told := ask(r.Method, path)
		if r.Method == http.MethodGet && r.Path != pathSnapshot {
			if len(told) != 0 {
				t.Errorf("%s %s left %+v", r.Method, path, told)
			}
			continue
		}
		changes++
		if len(told) != 1 || told[0].API != "control" || told[0].Who != who || told[0].From != "socket" ||
			told[0].Method != r.Method || told[0].Path != path || told[0].Request == "" {
			t.Errorf("%s %s left %+v", r.Method, path, told)
		}
	}
	if changes < 10 {
		t.Errorf("%d operations change something", changes)
	}
	if told := ask("PUT", "/v1/settings/user.k"); len(told) != 1 || told[0].Status != 200 || told[0].Index != 5 {
		t.Errorf("%+v", told)
	}
	if told := ask("POST", "/v1/nothing"); len(told) != 0 {
		t.Errorf("what is no operation left %+v", told)
	}
}

// recovering answers for the parts that this test's Control lacks.
func recovering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// TestEachRouteHasAClass holds the class of every route against a list that a reader
// of a change sees. UPDATE_GOLDEN=1 writes the list.
func TestEachRouteHasAClass(t *testing.T) {
	var all []string
	for _, r := range (&Control{Logger: slog.New(slog.DiscardHandler)}).routes().Routes() {
		all = append(all, fmt.Sprintf("control  %-7s %-42s %v\n", r.Method, r.Path, class(r.Method, r.Path)))
	}
	slices.Sort(all)
	name, text := filepath.Join("testdata", "classes.txt"), strings.Join(all, "")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != text {
		t.Errorf("route-class: %v; the classes of routes are not those of %s, but\n%s", err, name, text)
	}
}
