package relay_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	rand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/fsm/ironicports"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/relays"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/ironic"
	"github.com/trivet-ha/trivet/raftstore/logerr"
	"github.com/trivet-ha/trivet/test/inspecttest"
)

// otherIronic is an Ironic that waits for callbacks itself.
type otherIronic struct {
	mu      sync.Mutex
	waiting map[string]string // MAC → node
	posts   []ironic.InbandCall
	// meets says what a callback gets in the place of the answer, before it is
	// looked at and after it was taken.
	meets func(taken bool) (status int, err error)
	// reason is Ironic's sentence in such an answer, "because" if it is empty.
	reason string
	// astray says that a proxy gives such an answer, not Ironic.
	astray bool
}

func (e *otherIronic) Continue(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	if err := ironic.Allowed(ctx); err != nil {
		return ironic.InbandAnswer{}, &ironic.Error{Err: err}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.posts = append(e.posts, c)
	if status, err := e.met(false); status != 0 || err != nil {
		return ironic.InbandAnswer{Status: status, Reason: cmp.Or(e.reason, "because"),
			Absent: status == http.StatusNotFound && !e.astray}, err
	}
	for mac, node := range e.waiting {
		if !strings.Contains(string(c.Body), mac) {
			continue
		}
		delete(e.waiting, mac)
		if status, err := e.met(true); status != 0 || err != nil {
			return ironic.InbandAnswer{Status: status, Reason: cmp.Or(e.reason, "because")}, err
		}
		return ironic.InbandAnswer{Status: http.StatusAccepted, Body: fmt.Appendf(nil, `{"uuid":%q}`, node)}, nil
	}
	return ironic.InbandAnswer{Status: http.StatusNotFound, Body: []byte(`{"error_message":"{}"}`), Reason: "not found",
		Absent: true}, nil
}

// awaits begins another inspection of a node.
func (e *otherIronic) awaits(mac, node string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[mac] = node
}

func (e *otherIronic) met(taken bool) (int, error) {
	if e.meets == nil {
		return 0, nil
	}
	return e.meets(taken)
}

// on decides what callbacks meet from now on; nil ends it.
func (e *otherIronic) on(meets func(taken bool) (int, error)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.meets = meets
}

func (e *otherIronic) sent() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.posts)
}

// unsent is what a call gets that reached nobody.
func unsent() (int, error) {
	return 0, &ironic.Error{Message: "connection refused", Err: ironic.ErrNotSent}
}

// lostAnswer loses what follows a callback that was taken.
func lostAnswer(taken bool) (int, error) {
	if taken {
		return 0, &ironic.Error{Message: "the connection was closed before the answer"}
	}
	return 0, nil
}

// inRelay is inRig with a service that relays to an Ironic which waits for two
// nodes, of which the ports of nodeA are known.
func inRelay(t *testing.T, f func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic)) {
	t.Helper()
	inspecttest.InRig(t, func(o *inspecttest.Rig) {
		o.Conf.ContinueInspection = config.ContinueRelay
		e := &otherIronic{waiting: map[string]string{inspecttest.MacA: inspecttest.NodeA,
			inspecttest.MacB: inspecttest.NodeB}}
		o.Handover = e
		c := inspecttest.Crown{Log: o.RaftLog, Lead: o.RaftLog.Must(fsm.Lead{Peer: "id-h1", Boot: "b"}).Token}
		if res, err := c.Propose(o.Ctx,
			ironicports.PutPorts{Ports: []ironicports.Port{{ID: "p", MAC: inspecttest.MacA, Node: inspecttest.NodeA}}}); err !=
			nil || res.Code != fsm.OK {
			t.Fatal(res, err)
		}
		f(o, o.Service(), e)
	})
}

func TestRelay(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		body := inspecttest.Callback(inspecttest.MacA, `,"logs":"H4sI"`)
		o.Succeeds(s, body, inspecttest.NodeA)
		o.Succeeds(s, body, inspecttest.NodeA)
		o.Leads(func() {
			if r := o.Settles(time.Second); r.State != relays.Taken || r.Node != inspecttest.NodeA || r.Tries != 1 {
				t.Errorf("%+v", r)
			}
		})
		o.Succeeds(s, body, inspecttest.NodeA)
		o.Leads(func() { o.Settles(time.Second) })
		if n := e.sent(); n != 1 || string(e.posts[0].Body) != body {
			t.Errorf("relayed-once: %d posts, %+v", n, e.posts)
		}
		if data, err := s.Data(o.Ctx, inspecttest.NodeA, false, inspector.Linearizable); err != nil || string(data) != body {
			t.Errorf("kept: %s, %v", data, err)
		}
	})
}

// Whatever a try meets, the document is taken once in effect, or it is told why
// it was not.
func TestRelayIsTriedAgain(t *testing.T) {
	answers := func(status int) func(bool) (int, error) {
		return func(bool) (int, error) { return status, nil }
	}
	for _, c := range []struct {
		name  string
		meets func(taken bool) (int, error)
		long  time.Duration // it lasts so long
		state relays.State
		part  string // of the reason
	}{
		{"away", func(bool) (int, error) { return unsent() }, 5 * time.Minute, relays.Taken, ""},
		{"locked", answers(409), time.Minute, relays.Taken, ""},
		{"no conductor", answers(503), time.Minute, relays.Taken, ""},
		{"a password that is wrong", answers(401), time.Minute, relays.Taken, ""},
		{"too much to do", answers(429), time.Minute, relays.Taken, ""},
		{"the answer is lost", lostAnswer, 0, relays.Taken, "the answer was lost"},
		{"a proxy fails after it was taken", func(taken bool) (int, error) { return map[bool]int{true: 502}[taken], nil }, 0,
			relays.Taken, "the answer was lost"},
		{"not awaited for a moment", answers(404), 20 * time.Second, relays.Taken, ""},
		{"not awaited", answers(404), time.Minute, relays.Failed, "because"},
		{"refused", answers(400), 0, relays.Failed, "because"},
		{"no ramdisks served here", answers(403), 0, relays.Failed, "because"},
		{"away for too long", func(bool) (int, error) { return unsent() }, time.Hour, relays.Failed,
			"not take it in time; last: connection refused"},
	} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			o.Succeeds(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.NodeA)
			e.on(c.meets)
			o.Leads(func() {
				time.Sleep(min(c.long, 20*time.Minute)) // in a bubble
				if c.long > 0 {
					e.on(nil)
				}
				r := o.Settles(time.Minute)
				if r.State != c.state || !strings.Contains(r.Reason, c.part) {
					t.Errorf("relay-told: %s: %+v", c.name, r)
				}
			})
		})
	}
}

// A proxy without a route answers 404 as Ironic does, but says nothing about a document: its
// relay goes on until Ironic itself answers, and a ramdisk is told to come again.
func TestRelayWhileAProxyHasNoRoute(t *testing.T) {
	for name, before := range map[string][]int{"after a 502": {502}, "for a minute": nil} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			e.astray = true
			o.Succeeds(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.NodeA)
			e.on(func(bool) (int, error) {
				if len(e.posts) <= len(before) {
					return before[0], nil
				}
				return 404, nil
			})
			o.Leads(func() {
				time.Sleep(time.Minute) // in a bubble
				_, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Node: inspecttest.NodeB})
				var said *inspector.Refusal
				if !errors.As(err, &said) || said.Status != http.StatusServiceUnavailable {
					t.Errorf("whose-404: %s: a ramdisk is told %v", name, err)
				}
				e.on(nil)
				if r := o.Settles(time.Minute); r.State != relays.Taken || r.Reason != "" || len(e.waiting) != 1 {
					t.Errorf("whose-404: %s: %+v, and Ironic waits for %v", name, r, e.waiting)
				}
			})
		})
	}
}

// An answer that the same question gets again ends a relay after one attempt, with what Ironic
// said; one that may be another in a minute does not.
func TestRelayEndsWithAnAnswerThatCannotChange(t *testing.T) {
	for _, c := range []struct {
		status int
		reason string
		state  relays.State
	}{
		{307, "", relays.Failed}, {400, "", relays.Failed}, {403, "ironic.endpoint refuses ramdisks", relays.Failed},
		{405, "", relays.Failed}, {406, "", relays.Failed}, {407, "", relays.Failed}, {410, "", relays.Failed},
		{411, "", relays.Failed}, {413, "", relays.Failed}, {415, "", relays.Failed}, {421, "", relays.Failed},
		{422, "", relays.Failed}, {426, "", relays.Failed}, {431, "", relays.Failed}, {451, "", relays.Failed},
		{501, "", relays.Failed}, {505, "", relays.Failed},
		{400, "No valid host was found. Reason: no conductor lives", relays.Pending},
		{401, "", relays.Pending}, {408, "", relays.Pending}, {409, "", relays.Pending}, {423, "", relays.Pending},
		{425, "", relays.Pending}, {429, "", relays.Pending}, {500, "", relays.Pending}, {502, "", relays.Pending},
		{503, "", relays.Pending}, {504, "", relays.Pending},
	} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			o.Succeeds(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.NodeA)
			e.reason = c.reason
			e.on(func(bool) (int, error) { return c.status, nil })
			o.Leads(func() {
				time.Sleep(20 * time.Second) // in a bubble
				var r relays.Relay
				for r = range o.RaftLog.Truth().Relays() {
					break
				}
				if r.State != c.state || !strings.Contains(r.Reason, cmp.Or(c.reason, "because")) ||
					(c.state == relays.Failed) != (e.sent() == 1) {
					t.Errorf("relay-ends: %d %s: %+v after %d posts", c.status, c.reason, r, e.sent())
				}
				e.on(nil)
			})
		})
	}
}

// Another login changes nothing where none was shown: 401 is the last word then.
func TestRelayEndsWhereNoLoginCanHelp(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		o.Handover = anonymous{e}
		o.Succeeds(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.NodeA)
		e.on(func(bool) (int, error) { return 401, nil })
		o.Leads(func() {
			if r := o.Settles(time.Second); r.State != relays.Failed {
				t.Errorf("relay-ends: %+v", r)
			}
		})
	})
}

// anonymous is an Ironic that is shown no credentials.
type anonymous struct{ *otherIronic }

func (a anonymous) Continue(ctx context.Context, c ironic.InbandCall) (ironic.InbandAnswer, error) {
	answer, err := a.otherIronic.Continue(ctx, c)
	answer.Anonymous = true
	return answer, err
}

// An Ironic that is away for an hour gets each document once, however many leaders there were, if
// the configuration gives it the time.
func TestRelayOutlivesAnHour(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, _ *inspecttest.Service, e *otherIronic) {
		o.Conf.Timeout = 2 * time.Hour
		s := o.Service()
		e.on(func(bool) (int, error) { return unsent() })
		o.Succeeds(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.NodeA)
		stranger := ironic.InbandCall{Body: []byte(inspecttest.Callback(inspecttest.MacB, ""))}
		if _, err := s.ContinueInspection(o.Ctx, stranger); err != nil {
			t.Fatal(err)
		}
		for range 4 { // that end between two attempts, else the stranger's would be in doubt
			o.Leads(func() { time.Sleep(15*time.Minute + 5*time.Second) }) // in a bubble
		}
		e.on(nil)
		o.Leads(func() { o.Settles(time.Minute) })
		for r := range o.RaftLog.Truth().Relays() {
			if r.State != relays.Taken {
				t.Errorf("hour: %+v", r)
			}
		}
		if len(e.waiting) != 0 {
			t.Errorf("hour: Ironic still waits for %v", e.waiting)
		}
	})
}

// A leader that dies between Ironic's yes and the log's leaves an attempt whose
// end nobody knows; Ironic's 404 to the next one means that it has the document.
func TestRelaySurvivesItsLeader(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		o.Succeeds(s, inspecttest.Callback(inspecttest.MacA, ""), inspecttest.NodeA)
		o.RaftLog.Meets = func(c fsm.Command) error {
			if _, settles := c.(relays.Settle); settles {
				return logerr.ErrNotLeader
			}
			return nil
		}
		o.Leads(func() { time.Sleep(500 * time.Millisecond) }) // in a bubble
		o.RaftLog.Meets = func(fsm.Command) error { return nil }
		o.Leads(func() {
			if r := o.Settles(time.Minute); r.State != relays.Taken {
				t.Errorf("relay-told: Ironic has it, and the log says %+v", r)
			}
		})
		if len(e.waiting) != 1 {
			t.Errorf("Ironic waits for %v", e.waiting)
		}
	})
}

// Of a node without known ports Ironic says at once whose callback it is.
func TestRelayOfAnUnknownNode(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		body := inspecttest.Callback(inspecttest.MacB, "")
		o.Succeeds(s, body, inspecttest.NodeB)
		o.Succeeds(s, body, inspecttest.NodeB)
		if r := o.Settles(time.Second); r.State != relays.Taken || r.Node != inspecttest.NodeB || e.sent() != 1 {
			t.Errorf("%+v after %d posts", r, e.sent())
		}
		got, err := s.ContinueInspection(o.Ctx,
			ironic.InbandCall{Body: []byte(inspecttest.Callback("52:54:00:00:00:0c", ""))})
		if err != nil || got.Status != http.StatusNotFound || string(got.Body) != `{"error_message":"{}"}` {
			t.Errorf("nobody's: %+v, %v", got, err)
		}
	})
}

// A machine that nobody knows comes again where the configuration keeps Ironic from taking its
// document, which its sender would take for final.
func TestRefusedRamdiskOfAnUnknownNodeComesAgain(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		e.on(func(bool) (int, error) { return 403, nil })
		_, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(inspecttest.Callback(inspecttest.MacB, ""))})
		var said *inspector.Refusal
		if !errors.As(err, &said) || said.Status != http.StatusServiceUnavailable ||
			!strings.Contains(said.Message, "because") {
			t.Errorf("comes-again: %v", err)
		}
		e.on(nil)
		o.Succeeds(s, inspecttest.Callback(inspecttest.MacB, ""), inspecttest.NodeB)
	})
}

// If Ironic does not say, the document is kept and its sender told no UUID.
func TestRelayOfAnUnknownNodeWhileIronicIsAway(t *testing.T) {
	for name, meets := range map[string]func(bool) (int, error){"away": func(bool) (int, error) { return unsent() },
		"lost": lostAnswer} {
		inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
			e.on(meets)
			got, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(inspecttest.Callback(inspecttest.MacB, ""))})
			if err != nil || got.Status != http.StatusAccepted || string(got.Body) != `{"uuid":null}` {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			e.on(nil)
			if name == "lost" { // Ironic has it, and creates the port
				leads(o, ironicports.PutPorts{Ports: []ironicports.Port{{ID: "q", MAC: inspecttest.MacB, Node: inspecttest.NodeB}}})
			}
			o.Leads(func() {
				if r := o.Settles(time.Minute); r.State != relays.Taken || r.Node != inspecttest.NodeB {
					t.Errorf("%s: %+v", name, r)
				}
			})
		})
	}
}

// While Ironic is away, a source that sends documents of machines that nobody
// knows gets 503 when its share is full, without an entry of the log; a known
// node of another source is accepted.
func TestRelayOfAFloodIsBounded(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		e.on(func(bool) (int, error) { return unsent() })
		noise := rand.NewChaCha8([32]byte{1}) // which does not compress
		send := func(source, mac string) error {
			archive := make([]byte, 750<<10)
			if _, err := noise.Read(archive); err != nil {
				t.Fatal(err)
			}
			body := inspecttest.Callback(mac, `,"logs":"`+base64.StdEncoding.EncodeToString(archive)+`"`)
			_, err := s.ContinueInspection(o.Ctx, ironic.InbandCall{Body: []byte(body), Source: source})
			return err
		}
		accepted := 0
		for n := range 130 {
			if err := send("192.0.2.1/32", fmt.Sprintf("52:54:00:00:01:%02x", n)); err == nil {
				accepted++
			} else if !errors.Is(err, fsm.QueueFull) || !strings.Contains(err.Error(), "192.0.2.1/32") {
				t.Fatal(err)
			}
		}
		if accepted < 10 || accepted > relays.MaxBytesOfSource>>19 {
			t.Errorf("source-share: %d of 130 documents of one source are accepted", accepted)
		}
		before := o.RaftLog.Truth().Index()
		if err := send("192.0.2.1/32", "52:54:00:00:02:00"); err == nil || o.RaftLog.Truth().Index() != before {
			t.Errorf("source-share: %v, and %d entries of the log", err, o.RaftLog.Truth().Index()-before)
		}
		if err := send("192.0.2.2/32", inspecttest.MacA); err != nil {
			t.Errorf("reserved-room: %v", err)
		}
	})
}

// Who names a node, or wants an agent's token, hears Ironic itself.
func TestSuccessorIsPassedThrough(t *testing.T) {
	inRelay(t, func(o *inspecttest.Rig, s *inspecttest.Service, e *otherIronic) {
		for i, c := range []struct {
			call   ironic.InbandCall
			meets  func(bool) (int, error)
			status int
		}{
			{ironic.InbandCall{Node: inspecttest.NodeA, Body: []byte(inspecttest.MacA)}, nil, 202},
			{ironic.InbandCall{Version: "1.84", Body: []byte(inspecttest.MacA)}, nil, 404},
			{ironic.InbandCall{Version: "latest"}, func(bool) (int, error) { return unsent() }, 503},
			{ironic.InbandCall{Node: inspecttest.NodeA}, func(bool) (int, error) { return 401, nil }, 503},
			{ironic.InbandCall{Node: inspecttest.NodeA}, func(bool) (int, error) { return 502, nil }, 503},
			{ironic.InbandCall{Node: inspecttest.NodeA}, func(bool) (int, error) { return 403, nil }, 503},
			{ironic.InbandCall{Node: inspecttest.NodeA}, func(bool) (int, error) { return 409, nil }, 409},
			{ironic.InbandCall{Node: inspecttest.NodeA}, func(bool) (int, error) { return 429, nil }, 503},
			{ironic.InbandCall{Node: inspecttest.NodeA}, func(bool) (int, error) { return 307, nil }, 503},
			{ironic.InbandCall{Node: "x"}, nil, 400},
			{ironic.InbandCall{Version: "1.83", Body: []byte("{")}, nil, 400},
		} {
			e.on(c.meets)
			got, err := s.ContinueInspection(o.Ctx, c.call)
			var said *inspector.Refusal
			if errors.As(err, &said) {
				got.Status = said.Status
			}
			if got.Status != c.status {
				t.Errorf("%d: %+v, %v, want %d", i, got, err, c.status)
			}
		}
		if n := o.RaftLog.Truth().RelaysPending(); n != 0 {
			t.Errorf("%d are kept", n)
		}
	})
}
