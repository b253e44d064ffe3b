package receivers

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/api/events"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/deliveries"
	"github.com/trivet-ha/trivet/fsm/eventring"
	"github.com/trivet-ha/trivet/raftstore/leader"
	"github.com/trivet-ha/trivet/test/memlog"
	"github.com/trivet-ha/trivet/test/msgcheck"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// site is a log with events, and servers that receive them.
type site struct {
	*memlog.Log
	t       *testing.T
	secrets string

	mu     sync.Mutex
	notes  []time.Time // when deliveries were noted
	reject error       // what a proposal or a proof ends with; nil: it succeeds
	said   int
}

func newSite(t *testing.T, log *memlog.Log) *site {
	t.Helper()
	s := &site{Log: log, t: t, secrets: filepath.Join(t.TempDir(), "secret")}
	if err := os.WriteFile(s.secrets, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// say has events happen, each with its number as text.
func (s *site) say(topic eventring.Topic, count int) {
	s.t.Helper()
	for range count {
		s.said++
		s.report(eventring.Report{Topic: topic, Action: "seen", Millis: time.Now().UnixMilli(),
			Text: fmt.Sprint(s.said)})
	}
}

func (s *site) report(reports ...eventring.Report) {
	s.t.Helper()
	_, err := s.Log.Do(context.Background(), fmt.Sprint("say ", s.said), fsm.ReportEvents{Reports: reports})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) do(c fsm.Command) fsm.Result {
	s.t.Helper()
	res, err := s.Log.Do(context.Background(), "", c)
	if err != nil || res.Err() != nil {
		s.t.Fatal(err, res.Err())
	}
	return res
}

// Propose implements leader.Authority.
func (s *site) propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	s.mu.Lock()
	reject := s.reject
	s.mu.Unlock()
	if err := errors.Join(ctx.Err(), reject); err != nil {
		return fsm.Result{}, err
	}
	res, err := s.DoAsLeader(c)
	if _, note := c.(deliveries.Note); note && err == nil && res.Err() == nil {
		s.mu.Lock()
		s.notes = append(s.notes, time.Now())
		s.mu.Unlock()
	}
	return res, err
}

// authority is that of a leader of the site.
type authority struct {
	leader.Authority
	site *site
}

// Propose implements leader.Authority.
func (a authority) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	return a.site.propose(ctx, c)
}

// Confirm implements leader.Proof.
func (a authority) Confirm(ctx context.Context, _ time.Time) error {
	a.site.mu.Lock()
	defer a.site.mu.Unlock()
	return errors.Join(ctx.Err(), a.site.reject)
}

func (s *site) setReject(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reject = err
}

// receiver makes one that server answers for.
func (s *site) receiver(name string, server http.RoundTripper, kinds ...string) *Receiver {
	s.t.Helper()
	conf := config.Events{Receivers: []string{name + "=http://receiver.example/"},
		Secrets: []string{name + "=" + s.secrets}}
	for _, kind := range kinds {
		conf.Kinds = append(conf.Kinds, name+"="+kind)
	}
	made, err := Open(conf, Options{Wall: time.Now, Logger: msgcheck.Logger(s.t), Network: server})
	if err != nil {
		s.t.Fatal(err)
	}
	return made[0]
}

// lead runs the duty with receivers, as one more leader, until stop is called.
func (s *site) lead(receivers ...*Receiver) (d *Deliverer, stop func()) {
	s.t.Helper()
	d = New(msgcheck.Logger(s.t))
	d.Set(receivers)
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Duty(s.Log).Run(ctx, authority{site: s}) }()
	return d, func() {
		s.t.Helper()
		cancel()
		if err := <-ended; err != nil { // in a bubble
			s.t.Error(err)
		}
	}
}

// taken is what a server took.
type taken struct {
	id    string
	body  []byte
	taken bool // the answer said so
	message
	events []events.Event
}

// server is a receiver that verifies what it is sent. Its answers are of its test.
type server struct {
	t      *testing.T
	answer func(ctx context.Context, n int) (status int, err error) // of request n, from 1 on; nil: 204

	mu   sync.Mutex
	all  []taken
	head http.Header // of the last request
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	one := taken{id: r.Header.Get("webhook-id"), body: body}
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", one.id, r.Header.Get("webhook-timestamp"), body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
		s.t.Errorf("wrong signature: %q, want %q", r.Header.Get("webhook-signature"), want)
	}
	if err := json.Unmarshal(body, &one.message); err != nil {
		s.t.Errorf("%q: %v", body, err)
	}
	for _, text := range one.Data.Events {
		var e events.Event
		if err := json.Unmarshal(text, &e); err != nil {
			s.t.Errorf("%q: %v", text, err)
		}
		one.events = append(one.events, e)
	}
	s.mu.Lock()
	s.all = append(s.all, one)
	n, answer := len(s.all), s.answer
	s.head = r.Header
	s.mu.Unlock()
	status := http.StatusNoContent
	if answer != nil {
		if status, err = answer(r.Context(), n); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.all[n-1].taken = status < 300
	s.mu.Unlock()
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(nil)), Request: r}, nil
}

// got returns what was sent until now.
func (s *server) got() []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]taken(nil), s.all...)
}

// told returns the texts of what a test has said, in the order of deliveries.
func told(all []taken) (out []string) {
	for _, one := range all {
		for _, e := range one.events {
			if e.Action != "seen" {
				continue // the session of the one who says it
			}
			out = append(out, e.Text)
		}
	}
	return out
}

// noted returns how far a receiver has the events, by the log.
func (s *site) noted(name string) eventring.ID {
	p, _ := s.View().Delivered(name)
	return p.Taken
}
