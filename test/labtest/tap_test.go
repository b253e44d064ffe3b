//go:build e2e

package labtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/test/labtest/httpapi"
	"github.com/trivet-ha/trivet/test/labtest/wiretap"
	"github.com/trivet-ha/trivet/test/testwait"
)

// TestTapItself tries the lab's own proxy: what it writes down and each thing
// that it can do to a call.
func TestTapItself(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		fmt.Fprintf(w, "%s %s", r.Host, r.URL)
	}))
	defer server.Close()
	tap := wiretap.New(t, strings.TrimPrefix(server.URL, "http://"))
	a, b := tap.Door("a", "127.0.0.1:0"), tap.Door("b", "127.0.0.1:0")
	client := &http.Client{Timeout: callLimit}
	ask := func(door, method, path, body string) (int, string, error) {
		reply, err := httpapi.Ask(client, door, method, path, nil, []byte(body))
		return reply.Status, string(reply.Body), err
	}

	if code, text, err := ask(a, "GET", "/v1/x?y=1", ""); err != nil || code != 200 || text != a+" /v1/x?y=1" {
		t.Errorf("passed on: %d %q (%v)", code, text, err)
	}
	status := tap.Inject(wiretap.Fault{Door: "a", Method: "GET", Path: "^/v1/", Times: 1, Status: 418, Answer: "teapot"})
	if code, _, err := ask(b, "GET", "/v1/x", ""); code != 200 {
		t.Errorf("the other door: %d (%v)", code, err)
	}
	if code, text, err := ask(a, "GET", "/v1/x", ""); code != 418 || text != "teapot" {
		t.Errorf("a fault's answer: %d %q (%v)", code, text, err)
	}
	if code, _, err := ask(a, "GET", "/v1/x", ""); code != 200 || status.Met() != 1 {
		t.Errorf("after its one time: %d (%v), met %d times", code, err, status.Met())
	}

	before := served.Load()
	tap.Inject(wiretap.Fault{Path: "/request", Cut: wiretap.Request})
	tap.Inject(wiretap.Fault{Path: "/answer", Cut: wiretap.Answer})
	if _, _, err := ask(a, "POST", "/request", "{}"); err == nil || served.Load() != before {
		t.Errorf("a cut request: %v, served %d times", err, served.Load()-before)
	}
	if _, _, err := ask(a, "POST", "/answer", "{}"); err == nil || served.Load() != before+1 {
		t.Errorf("a cut answer: %v, served %d times", err, served.Load()-before)
	}

	const node = "00000000-0000-4000-9000-000000000001"
	hold := tap.Inject(wiretap.Fault{Method: "PUT", Path: "/states/power$", Body: `"rebooting"`, Hold: true})
	done := make(chan int, 1)
	go func() {
		code, _, _ := ask(b, "PUT", "/v1/nodes/"+node+"/states/power", `{"target":"rebooting"}`)
		done <- code
	}()
	eventually(t, callLimit, "it holds a call", func() error {
		if hold.Held() != 1 {
			return fmt.Errorf("%d are held", hold.Held())
		}
		return nil
	})
	hold.Lift()
	if code := testwait.Receive(t, done, "the call that was held is answered"); code != 200 {
		t.Errorf("a call that was held: %d", code)
	}
	if n := tap.PowerCalls("rebooting")[node]; n != 1 {
		t.Errorf("%d power-ons were counted", n)
	}
	calls := tap.Calls(time.Time{}, "PUT", "")
	if len(calls) != 1 || calls[0].Door != "b" || calls[0].Status != 200 || !calls[0].Passed {
		t.Errorf("the log: %+v", calls)
	}
}
