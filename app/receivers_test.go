package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/test/testwait"
)

// receiverSecret is one of the form that receivers have.
const receiverSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// A receiver that a reload names is sent what happens from then on; one that refuses is
// shown by status, doctor and figures, and one that is taken out is sent nothing.
func TestReceiversOfAPeer(t *testing.T) {
	r := newReloadable(t)
	var got, status atomic.Int64
	bodies := make(chan string, 1)
	receiver := listeningReceiver(t, &got, &status, bodies)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.set("events.receivers", "cmdb="+receiver.URL, "events.secrets", "cmdb="+secret, "events.kinds",
		"cmdb=filter"); err == nil || !strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("a secret that is none: %v", err)
	}
	if err := os.WriteFile(secret, []byte(receiverSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.set(); err != nil {
		t.Fatal(err)
	}
	say := func() {
		r.recorder.Report(eventring.Report{Topic: eventring.TopicFilter, Action: "drifted", Text: "A rule is gone."})
	}
	testwait.Until(t, "the receiver is noted in the log", func() bool {
		_, known := r.core.Store.View().Delivered("cmdb")
		return known
	})
	say()
	if body := testwait.Receive(t, bodies, "a delivery"); !strings.Contains(body, "A rule is gone.") {
		t.Fatalf("sent was %s", body)
	}
	status.Store(http.StatusInternalServerError)
	say()
	testwait.Until(t, "a delivery is refused", func() bool { return r.receivers.States()[0].Err != nil })
	later := func() time.Time { return time.Now().Add(2 * behindAfter) }
	if w := receiverWarnings(r.receivers, later); len(w) != 1 || w[0].Code != "receiver_behind" ||
		!strings.Contains(w[0].Text, "receiver cmdb has not taken the events of the last 2m") ||
		!strings.Contains(w[0].Text, "it answered 500") {
		t.Errorf("status says %+v", w)
	}
	if w := receiverWarnings(r.receivers, time.Now); len(w) != 0 {
		t.Errorf("at once status says %+v", w)
	}
	services := receiverServices(t.Context(), r.receivers, "c")
	if len(services) != 1 || services[0].What != "receiver cmdb" || !strings.Contains(services[0].Error, "500") {
		t.Errorf("doctor finds %+v", services)
	}
	r.must("events.receivers", "", "events.secrets", "", "events.kinds", "")
	testwait.Until(t, "no receiver is known", func() bool { return len(r.receivers.States()) == 0 })
	status.Store(http.StatusNoContent)
	before := got.Load()
	say()
	testwait.Until(t, "the event is in the log", func() bool {
		for e := range r.core.Store.View().Events().Newest() {
			return e.Topic() == eventring.TopicFilter
		}
		return false
	})
	if n := got.Load(); n != before {
		t.Errorf("a receiver that is taken out was sent %d deliveries", n-before)
	}
}

// listeningReceiver answers with a status, counts what it is sent, and hands the first on.
func listeningReceiver(t *testing.T, got, status *atomic.Int64, bodies chan<- string) *httptest.Server {
	t.Helper()
	status.Store(http.StatusNoContent)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		select {
		case bodies <- string(text):
		default: // the test reads the first
		}
		got.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(receiver.Close)
	return receiver
}
