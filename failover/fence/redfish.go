package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// The reset types that are asked for (DSP0268). GracefulShutdown asks the operating
// system, and all others bring the machine back.
const (
	forceOff = "ForceOff"
	resetOn  = "On"
)

func redfishKind() kind {
	return kind{
		name:  "redfish",
		needs: []string{"nodes", "username", "password_file"},
		fields: []field{
			one("username", word, func(s *spec) *string { return &s.username }),
			passwordField(),
			fileField("ca_file", func(s *spec) *string { return &s.caFile }),
			one("insecure_skip_verify", truth, func(s *spec) *bool { return &s.insecure }),
			one("check_uuid", func(anyUUID *bool, v *yaml.Node) (what, do string) {
				check := true
				what, do = truth(&check, v)
				*anyUUID = !check
				return what, do
			}, func(s *spec) *bool { return &s.anyUUID }),
		},
		check: func(r *reader, s *spec) {
			for _, n := range s.nodes {
				if what, do := wrongURL(n.text, s.insecure); what != "" {
					r.problem(n.line, s.key("nodes."+n.name), what, do)
				}
			}
		},
		open: func(s *spec, l *List, o Options) (method, []mishap) {
			files := servicecreds.Files{CA: s.caFile, Insecure: s.insecure, Section: s.key("")}
			secure, err := servicecreds.OpenTLS(files, o.Logger)
			if err != nil {
				return nil, []mishap{s.mishap("ca_file", err.Error(), "write the file with the CA of the BMCs in PEM")}
			}
			client := newClient(secure)
			l.clients = append(l.clients, client)
			return &redfish{client: client, username: s.username, password: s.password(), anyUUID: s.anyUUID}, nil
		},
		meant: redfishMeant,
	}
}

// redfishMeant is the ComputerSystem of a URL.
func redfishMeant(_ *spec, n node) meant {
	u, err := url.Parse(n.text)
	if err != nil || u.Hostname() == "" {
		return meant{} // which is told elsewhere
	}
	m := meant{host: oneSpelling(u.Hostname()), part: true,
		machines: []string{strings.ToLower(strings.TrimSuffix(u.Path, "/"))}}
	if port := u.Port(); port != "" && !(port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http") {
		m.port = ":" + port
	}
	return m
}

// wrongURL says what is wrong with the URL of a ComputerSystem.
func wrongURL(text string, insecure bool) (what, do string) {
	const like = "write it as https://BMC/redfish/v1/Systems/1"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is no URL", like
	case u.Scheme == "http" && !insecure:
		return "would send the password in the clear",
			"write https, or insecure_skip_verify: true on a network that only you can read"
	case u.User != nil:
		return "holds a user", "write username and password_file instead"
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "":
		return "is not the URL of a machine", like
	}
	return "", ""
}

// redfish is the method of devices of the type redfish (DSP0266): a BMC that
// speaks HTTP. The address of a machine is the URL of its ComputerSystem.
type redfish struct {
	client   *http.Client
	username string
	password servicecreds.Password
	// anyUUID says that the BMC's idea of the machine's UUID is not compared with
	// that of the kube node.
	anyUUID bool
	mute    sync.Map // by URL: why the BMC's UUID identifies no machine, "" if it does, as of the newest reading
}

// uncompared implements comparer.
func (r *redfish) uncompared(_ failover.Machine, to address) string {
	if r.anyUUID {
		return "check_uuid is false"
	}
	why, _ := r.mute.Load(to.text)
	text, _ := why.(string)
	return text
}

// asks implements asker.
func (r *redfish) asks() {}

func (r *redfish) advice(to address) string {
	return "see whether the BMC answers: curl -k -u " + r.username + " " + to.text
}

// system is what is read of a ComputerSystem.
type system struct {
	Type       string `json:"@odata.type"`
	UUID       string
	PowerState string
	Actions    struct {
		Reset struct {
			Target string   `json:"target"`
			Types  []string `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#ComputerSystem.Reset"`
	}
}

// power knows "On" and "Off" and nothing between them.
func (s system) power() failover.Power {
	switch s.PowerState {
	case "On":
		return failover.PowerOn
	case "Off":
		return failover.PowerOff
	}
	return failover.PowerUnknown
}

func (r *redfish) power(ctx context.Context, m failover.Machine, to address) (failover.Power, error) {
	s, err := r.system(ctx, m, to.text)
	if err != nil {
		return failover.PowerUnknown, err
	}
	if s.PowerState == "" {
		return failover.PowerUnknown, errors.New("the BMC's answer has no PowerState")
	}
	return s.power(), nil // PoweringOff and the like are on their way
}

// set does not look first whether the machine is off: BMCs remember, too, and a command
// that is not needed does no harm. A BMC that refuses one is no failure if the machine
// turns out to be as it was to be. Some leave out of their list what is so already.
func (r *redfish) set(ctx context.Context, m failover.Machine, to address, want failover.Power) error {
	at, kind := to.text, forceOff
	if want == failover.PowerOn {
		kind = resetOn
	}
	s, err := r.system(ctx, m, at)
	if err != nil {
		return err
	}
	if types := s.Actions.Reset.Types; len(types) > 0 && !slices.Contains(types, kind) {
		if s.power() == want {
			return nil
		}
		err := fmt.Errorf("ResetType %s is %w by the BMC, which knows %s", kind, ErrUnsupported, strings.Join(types, ", "))
		return &setback{err, "use another type of device for this machine", s.power() != failover.PowerUnknown}
	}
	target, err := resetTarget(at, s.Actions.Reset.Target)
	if err != nil {
		return err
	}
	err = r.post(ctx, target, map[string]string{"ResetType": kind})
	var no *refusal
	switch {
	case !errors.As(err, &no), no.status == http.StatusUnauthorized, no.status == http.StatusForbidden:
		return err
	case no.saysAlready(want):
		return nil
	}
	if s, again := r.system(ctx, m, at); again == nil && s.power() == want {
		return nil
	}
	return err
}

// resetTarget is where the action is asked for. It must be on the BMC itself: the
// password goes there.
func resetTarget(system, target string) (string, error) {
	base, err := url.Parse(system)
	if err != nil {
		return "", err // the reader of the file let it in
	}
	if target == "" {
		return strings.TrimSuffix(system, "/") + "/Actions/ComputerSystem.Reset", nil
	}
	ref, err := base.Parse(target)
	if err != nil || ref.Host != base.Host || ref.Scheme != base.Scheme {
		return "", hopeless("see what the BMC is", "the BMC wants %.100q asked for the reset, which is somewhere else",
			target)
	}
	return ref.String(), nil
}

// system reads the machine, and makes sure that it is one, and the right one.
func (r *redfish) system(ctx context.Context, m failover.Machine, at string) (system, error) {
	raw, err := r.send(ctx, http.MethodGet, at, nil)
	if err != nil {
		return system{}, err
	}
	var s system
	if err := json.Unmarshal(raw, &s); err != nil {
		return system{}, fmt.Errorf("decode response to GET %s: %w", at, err)
	}
	if !strings.HasPrefix(s.Type, "#ComputerSystem.") { // a Chassis has a PowerState, too
		return system{}, hopeless("write the URL of the machine, such as https://BMC/redfish/v1/Systems/1",
			"GET %s: this is no ComputerSystem but %.100q", at, s.Type)
	}
	r.mute.Store(at, failover.NoUUID("the BMC", s.UUID))
	known := failover.KnownUUID(s.UUID) && failover.KnownUUID(m.SystemUUID)
	if !r.anyUUID && known && !failover.SameUUID(s.UUID, m.SystemUUID) {
		return system{}, hopeless(
			"write the URL of the right machine; if the BMC is known to tell another UUID than the kubelet, write check_uuid: false",
			"GET %s: the BMC's machine has UUID %.40s, the kube node's has %s", at, s.UUID, m.SystemUUID)
	}
	return s, nil
}

func (r *redfish) post(ctx context.Context, to string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = r.send(ctx, http.MethodPost, to, raw)
	return err
}
