package fence

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/failover"
)

const (
	bmcPath   = "/redfish/v1/Systems/1"
	bmcUser   = "root"
	bmcSecret = "calvin's"
	bmcUUID   = "4c4c4544-0044-3510-8052-b4c04f564831"
)

// bmc is a Redfish service with one machine. What it does wrong is set by a test
// before it is asked.
type bmc struct {
	t      *testing.T
	server *httptest.Server
	dir    string

	mu       sync.Mutex // guards the rest
	state    string     // PowerState; "" leaves it out
	busy     int        // answers of 503 before the next
	late     int        // answers that never come before the next
	deaf     bool       // takes the command and does nothing
	refuses  *refusal   // what it answers to a reset
	odd      func(w http.ResponseWriter, r *http.Request) bool
	resets   []string
	document map[string]any // of the machine, over what there is
}

func newBMC(t *testing.T) *bmc {
	b := &bmc{t: t, dir: t.TempDir(), state: "On"}
	b.server = httptest.NewTLSServer(b)
	b.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(b.server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.server.Certificate().Raw})
	for name, text := range map[string]string{"ca.pem": string(ca), "password": bmcSecret + "\n"} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// device is one of a file that an operator could have written.
func (b *bmc) device(more string) failover.Device {
	b.t.Helper()
	file := filepath.Join(b.dir, "fence.yaml")
	text := fmt.Sprintf(`devices:
  - name: rf
    type: redfish
    username: %s
    password_file: %s/password
    nodes: {worker-1: "%s%s"}
    retry_interval: 100ms
    timeout: 1s
%s`, bmcUser, b.dir, b.server.URL, bmcPath, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	list, err := Open(file, Options{Limits: Limits{Retries: 2, Interval: time.Second, Timeout: time.Second},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(list.Close)
	found := list.For(worker())
	if len(found) != 1 {
		b.t.Fatalf("%d devices", len(found))
	}
	return found[0]
}

func (b *bmc) trusted() string { return "    ca_file: " + b.dir + "/ca.pem\n" }

// ServeHTTP implements http.Handler.
func (b *bmc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	user, secret, _ := r.BasicAuth()
	switch {
	case b.late > 0:
		b.late--
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection goes unseen
		<-r.Context().Done()
	case b.busy > 0:
		b.busy--
		w.WriteHeader(http.StatusServiceUnavailable)
	case b.odd != nil && b.odd(w, r):
	case user != bmcUser || secret != bmcSecret:
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodGet && r.URL.Path == bmcPath:
		b.show(w)
	case r.Method == http.MethodPost && r.URL.Path == bmcPath+"/Actions/ComputerSystem.Reset":
		b.reset(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (b *bmc) show(w http.ResponseWriter) {
	doc := map[string]any{"@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "UUID": bmcUUID,
		"Actions": map[string]any{
			"#ComputerSystem.Reset": map[string]any{"target": bmcPath + "/Actions/ComputerSystem.Reset",
				"ResetType@Redfish.AllowableValues": []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart"}},
		}}
	if b.state != "" {
		doc["PowerState"] = b.state
	}
	for key, value := range b.document {
		doc[key] = value
	}
	if err := json.NewEncoder(w).Encode(doc); err != nil {
		b.t.Error(err)
	}
}

func (b *bmc) reset(w http.ResponseWriter, r *http.Request) {
	var body struct{ ResetType string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		b.t.Error(err)
	}
	b.resets = append(b.resets, body.ResetType)
	if b.refuses != nil {
		w.WriteHeader(b.refuses.status)
		id := strings.Join(b.refuses.ids, "")
		fmt.Fprintf(w,
			`{"error":{"code":"Base.1.8.GeneralError","message":"See ExtendedInfo","@Message.ExtendedInfo":[{"MessageId":%q,"Message":%q}]}}`,
			id, b.refuses.text)
		return
	}
	if !b.deaf {
		b.state = map[string]string{"ForceOff": "Off", "On": "On"}[body.ResetType]
	}
	w.WriteHeader(http.StatusNoContent)
}

func TestRedfishSwitches(t *testing.T) {
	b := newBMC(t)
	d := b.device(b.trusted())
	for _, want := range []failover.Power{failover.PowerOff, failover.PowerOff, failover.PowerOn} {
		act := d.Off
		if want == failover.PowerOn {
			act = d.On
		}
		if err := act(t.Context(), worker()); err != nil {
			t.Fatal(err)
		}
		if power, err := d.Power(t.Context(), worker()); power != want || err != nil {
			t.Fatalf("%s, %v; want %s", power, err, want)
		}
	}
	if got := strings.Join(b.resets, " "); got != "ForceOff ForceOff On" {
		t.Errorf("the BMC was told %s", got)
	}
}

// A refusal without a sentence is told by the name of its message.
// TestRedfishLoginThatAResetRefuses is not used for more: a BMC locks a user out that tries on.
func TestRedfishLoginThatAResetRefuses(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		b := newBMC(t)
		asked := 0
		b.odd = func(w http.ResponseWriter, r *http.Request) bool {
			asked++
			if r.Method != http.MethodPost {
				return false
			}
			asked = 0
			w.WriteHeader(status)
			return true
		}
		if err := b.device(b.trusted()).Off(t.Context(), worker()); err == nil || asked != 0 {
			t.Errorf("login-refused: %d: %d questions came behind it (%v)", status, asked, err)
		}
	}
}

func TestRedfishRefusalWithoutAMessage(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"of the message": {
			`{"error":{"code":"Base.1.8.GeneralError","message":"See ExtendedInfo","@Message.ExtendedInfo":[{"MessageId":"iLO.2.14.UnauthorizedLoginAttempt"}]}}`,
			"See ExtendedInfo iLO.2.14.UnauthorizedLoginAttempt"},
		"of the error": {`{"error":{"code":"Base.1.8.ResourceInUse","message":""}}`, "Base.1.8.ResourceInUse"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.odd = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, c.body)
				return true
			}
			if err := b.device(b.trusted()).Off(t.Context(), worker()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("only-word: the refusal is told as %v, want %q", err, c.want)
			}
		})
	}
}

// Where one side tells no UUID, nothing is compared, and that is said.
func TestWhatIsNotComparedIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		kube string
		bmc  any
		want string
	}{
		"both tell one":            {kube: bmcUUID, bmc: bmcUUID},
		"the kube node tells none": {bmc: bmcUUID, want: "no UUID was compared: the kube node tells none"},
		"the BMC tells none":       {kube: bmcUUID, bmc: "", want: "no UUID was compared: the BMC tells none"},
		"the BMC tells a word":     {kube: bmcUUID, bmc: "unknown", want: "no UUID was compared: the BMC tells none"},
		"both tell a placeholder": {kube: vendorUUID, bmc: vendorUUID,
			want: "no UUID was compared: the kube node tells " + vendorUUID +
				", a placeholder that many boards share, and the BMC tells " + vendorUUID +
				", a placeholder that many boards share"},
		"the board has a placeholder": {kube: vendorUUID, bmc: bmcUUID,
			want: "no UUID was compared: the kube node tells " + vendorUUID + ", a placeholder that many boards share"},
		"nothing but zeros": {kube: bmcUUID, bmc: "00000000-0000-0000-0000-000000000000",
			want: "no UUID was compared: the BMC tells 00000000-0000-0000-0000-000000000000, a placeholder that many boards share"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.document = map[string]any{"UUID": c.bmc}
			d, m := b.device(b.trusted()), worker()
			m.SystemUUID = c.kube
			if _, err := d.Power(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if got := failover.Uncompared(d, m); got != c.want {
				t.Errorf("uncompared: it says %q, want %q", got, c.want)
			}
		})
	}
}

// TestRedfishOff tries what BMCs answer to ForceOff.
func TestRedfishOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		state  string
		busy   int
		late   int
		answer *refusal
		err    string // "" for success
	}{
		{"busy twice", "On", 2, 0, nil, ""},
		{"late twice", "On", 0, 2, nil, ""},
		{"busy for ever", "On", 99, 0, nil, "503 Service Unavailable (3 tries); see whether the BMC answers"},
		{"late for ever", "On", 0, 99, nil, "no answer within 1s (3 tries)"},
		{"off, and refuses with 409", "Off", 0, 0, &refusal{status: 409, text: "Conflict"}, ""},
		{"off, and refuses with 400", "Off", 0, 0, &refusal{status: 400, text: "Bad"}, ""},
		{"no operation", "On", 0, 0, &refusal{status: 400, ids: []string{"Base.1.12.NoOperation"}}, ""},
		{"already", "PoweringOff", 0, 0,
			&refusal{status: 409, ids: []string{"IDRAC.2.8.PSU501"}, text: "Server is already powered OFF."}, ""},
		{"already on its way elsewhere", "On", 0, 0, &refusal{status: 409, text: "A job is already running."},
			"already running"},
		{"another command on its way", "On", 0, 0, &refusal{status: 409,
			text: "Unable to power off the server: another power operation is already in progress."}, "already in progress"},
		{"already on", "On", 0, 0, &refusal{status: 409, text: "Server is already on: power it off first."}, "already on"},
		{"another refusal", "On", 0, 0, &refusal{status: 400, text: "not now"}, "400 Bad Request"},
		{"another status", "On", 0, 0, &refusal{status: 500, text: "already off"}, "500 Internal Server Error"},
		{"off, and refuses with 500", "Off", 0, 0, &refusal{status: 500, text: "Internal"}, ""},
		{"off, and refuses with 405", "Off", 0, 0, &refusal{status: 405}, ""},
		{"no such action", "On", 0, 0, &refusal{status: 405}, "not supported by the BMC"},
		{"may not", "On", 0, 0, &refusal{status: 403}, "the user must be allowed to switch machines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBMC(t)
			b.state, b.busy, b.late, b.refuses = c.state, c.busy, c.late, c.answer
			err := b.device(b.trusted()).Off(t.Context(), worker())
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("refusal-of-off: %v, want %q", err, c.err)
			}
			for _, reset := range b.resets {
				if reset != "ForceOff" {
					t.Errorf("the BMC was told %s", reset)
				}
			}
		})
	}
}

// What is so already a BMC may leave out of its list of reset types.
func TestRedfishListsByPowerState(t *testing.T) {
	for _, c := range []struct {
		name, state, listed string
		act                 func(failover.Device, context.Context, failover.Machine) error
		err                 string // "" for success
	}{
		{"off already", "Off", "On", failover.Device.Off, ""},
		{"on already", "On", "ForceOff", failover.Device.On, ""},
		{"still on", "On", "GracefulShutdown", failover.Device.Off, "which knows GracefulShutdown; use another type"},
		{"still off", "Off", "PushPowerButton", failover.Device.On, "which knows PushPowerButton; use another type"},
		{"on its way", "PoweringOff", "On", failover.Device.Off, "which knows On (3 tries)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBMC(t)
			b.state = c.state
			b.document = map[string]any{"Actions": map[string]any{
				"#ComputerSystem.Reset": map[string]any{"ResetType@Redfish.AllowableValues": []string{c.listed}}}}
			err := c.act(b.device(b.trusted()), t.Context(), worker())
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || len(b.resets) > 0 {
				t.Errorf("list-by-state: %v, want %q; the BMC was told %v", err, c.err, b.resets)
			}
		})
	}
}

// TestRedfishPower: only "Off" is off.
func TestRedfishPower(t *testing.T) {
	for _, c := range []struct {
		name, state string
		document    map[string]any
		want        failover.Power
		err         string
	}{
		{"on", "On", nil, failover.PowerOn, ""},
		{"off", "Off", nil, failover.PowerOff, ""},
		{"on its way", "PoweringOff", nil, failover.PowerUnknown, ""},
		{"paused", "Paused", nil, failover.PowerUnknown, ""},
		{"missing", "", nil, failover.PowerUnknown, "no PowerState"},
		{"null", "", map[string]any{"PowerState": nil}, failover.PowerUnknown, "no PowerState"},
		{"a number", "", map[string]any{"PowerState": 0}, failover.PowerUnknown, "decode response"},
		{"a chassis", "Off", map[string]any{"@odata.type": "#Chassis.v1_10_0.Chassis"}, failover.PowerUnknown,
			"no ComputerSystem"},
		{"another machine", "Off", map[string]any{"UUID": "4c4c4544-0044-3510-8052-b4c04f564832"}, failover.PowerUnknown,
			"check_uuid: false"},
		{"the same, swapped", "Off", map[string]any{"UUID": "44454C4C-4400-1035-8052-B4C04F564831"}, failover.PowerOff, ""},
		{"without a UUID", "Off", map[string]any{"UUID": nil}, failover.PowerOff, ""},
		{"too large", "Off", map[string]any{"Oem": strings.Repeat("x", maxAnswer)}, failover.PowerUnknown, "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBMC(t)
			b.state, b.document = c.state, c.document
			m := worker()
			m.SystemUUID = bmcUUID
			power, err := b.device(b.trusted()).Power(t.Context(), m)
			if power != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("taken for %s (%v), want %s", power, err, c.want)
			}
		})
	}
}

// TestRedfishThatLies takes the command and stays on.
func TestRedfishThatLies(t *testing.T) {
	b := newBMC(t)
	b.deaf = true
	d := b.device(b.trusted())
	if err := d.Off(t.Context(), worker()); err != nil {
		t.Fatal(err)
	}
	if power, err := d.Power(t.Context(), worker()); power != failover.PowerOn || err != nil {
		t.Errorf("%s, %v", power, err)
	}
}

func TestRedfishStrangers(t *testing.T) {
	stranger := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s came to another server, with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	})
	// of the same certificate as the BMC
	elsewhere, trusted := httptest.NewServer(stranger), httptest.NewTLSServer(stranger)
	defer elsewhere.Close()
	defer trusted.Close()
	action := func(target string, types ...string) map[string]any {
		return map[string]any{"Actions": map[string]any{
			"#ComputerSystem.Reset": map[string]any{"target": target, "ResetType@Redfish.AllowableValues": types}}}
	}
	for _, c := range []struct {
		name     string
		document map[string]any
		odd      func(http.ResponseWriter, *http.Request) bool
		err      string
	}{
		{"redirect", nil, func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return true
		}, "redirects are not followed"},
		{"action elsewhere", action(elsewhere.URL + "/reset"), nil, "somewhere else"},
		{"action on another host", action(trusted.URL + "/reset"), nil, "somewhere else"},
		{"action in the clear", action(strings.Replace(trusted.URL, "https", "http", 1) + "/reset"), nil, "somewhere else"},
		{"no ForceOff", action(bmcPath+"/Actions/ComputerSystem.Reset", "On", "GracefulShutdown"), nil,
			"ResetType ForceOff is not supported by the BMC, which knows On, GracefulShutdown"},
		{"no JSON", nil, func(w http.ResponseWriter, _ *http.Request) bool {
			_, err := io.WriteString(w, "<html>off</html>")
			return err == nil
		}, "decode response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBMC(t)
			b.document, b.odd = c.document, c.odd
			err := b.device(b.trusted()).Off(t.Context(), worker())
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v", err)
			}
			if len(b.resets) > 0 {
				t.Errorf("it was told %v", b.resets)
			}
		})
	}
}

func TestRedfishWithoutActions(t *testing.T) {
	b := newBMC(t)
	b.document = map[string]any{"Actions": nil}
	if err := b.device(b.trusted()).Off(t.Context(), worker()); err != nil || b.state != "Off" {
		t.Errorf("%v, and it is %s", err, b.state)
	}
}

func TestRedfishTrust(t *testing.T) {
	b := newBMC(t)
	if _, err := b.device("").Power(t.Context(), worker()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger's certificate was taken: %v", err)
	}
	if power, err := b.device(
		"    insecure_skip_verify: true\n").Power(t.Context(), worker()); power != failover.PowerOn || err != nil {
		t.Errorf("%s, %v", power, err)
	}
}

// TestRedfishOfOldTLS: a BMC that speaks no key exchange of ours is not one that is silent.
func TestRedfishOfOldTLS(t *testing.T) {
	b := newBMC(t)
	old := httptest.NewUnstartedServer(b)
	old.Config.ErrorLog = b.server.Config.ErrorLog
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}}
	old.StartTLS()
	t.Cleanup(old.Close)
	b.server = old
	_, err := b.device("    insecure_skip_verify: true\n").Power(t.Context(), worker())
	if err == nil || !strings.Contains(err.Error(), "RSA key exchange") {
		t.Errorf("old-tls: %v", err)
	}
}

// TestRedfishPasswords: a wrong one is shown once, and a new one taken at once.
func TestRedfishPasswords(t *testing.T) {
	b := newBMC(t)
	d := b.device(b.trusted())
	asked := 0
	b.odd = func(http.ResponseWriter, *http.Request) bool { asked++; return false }
	password := filepath.Join(b.dir, "password")
	if err := os.WriteFile(password, []byte("wrong-one"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := d.Power(t.Context(), worker())
	var e *Error
	if !errors.As(err, &e) || e.Tries != 1 || asked != 1 || !strings.Contains(e.Do, "password_file") ||
		strings.Contains(err.Error(), "wrong-one") {
		t.Fatalf("asked %d times: %v", asked, err)
	}
	if err := os.WriteFile(password, []byte(bmcSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	if power, err := d.Power(t.Context(), worker()); power != failover.PowerOn || err != nil {
		t.Errorf("%s, %v", power, err)
	}
}
