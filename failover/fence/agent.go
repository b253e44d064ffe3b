package fence

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/internal/servicecreds"
)

// maxSaid bounds the recorded part of each output of a program, in bytes.
const maxSaid = 16 << 10

// option is one line of a program's standard input.
type option struct{ name, value string }

func agentKind() kind {
	return kind{
		name:  "agent",
		needs: []string{"nodes", "program"},
		fields: []field{
			passwordField(),
			one("program", word, func(s *spec) *string { return &s.program }),
			{"options", func(r *reader, s *spec, v *yaml.Node) (what, do string) {
				s.options = r.options(s.key("options"), v, true)
				return "", ""
			}},
		},
		reach: func(r *reader, path string, v *yaml.Node, to *address) (what, do string) {
			to.options = r.options(path, v, false)
			return "", ""
		},
		open: func(s *spec, _ *List, _ Options) (method, []mishap) {
			path, what, do := findProgram(s.program)
			if what != "" {
				return nil, []mishap{s.mishap("program", what, do)}
			}
			return &agent{program: path, options: s.options, password: s.password()}, nil
		},
		meant: agentMeant,
	}
}

// agent is the method of devices of the type agent: a program that speaks the
// protocol of the fence-agents collection (FenceAgentAPI). It is told everything,
// passwords too, on its standard input; nothing on its command line or in its
// environment, which other users of the host can read.
type agent struct {
	program  string // absolute path
	options  []option
	password servicecreds.Password
}

// asks implements asker.
func (a *agent) asks() {}

func (a *agent) advice(address) string {
	return fmt.Sprintf("try it by hand, with the options on its standard input and action=status: %s", a.program)
}

// power runs the action status. Its exit code 2 says "off", and is also what a
// shell, Python and fence-agents' own bad arguments end with: it is believed only
// with the words.
func (a *agent) power(ctx context.Context, m failover.Machine, to address) (failover.Power, error) {
	r, err := a.run(ctx, "status", to)
	if err != nil {
		return failover.PowerUnknown, err
	}
	switch off := saysOff.MatchString(r.said); {
	case r.code == 2 && off:
		return failover.PowerOff, nil
	case r.code == 0 && !off:
		return failover.PowerOn, nil
	case r.code == 0 || r.code == 2:
		return failover.PowerUnknown,
			fmt.Errorf("exit code %d contradicts, or is not borne out by, what it says: %s", r.code, r.quote())
	}
	return failover.PowerUnknown, r.failure("status")
}

// saysOff finds the verdict in what an agent prints for the action status, and not
// the word in its usage.
var saysOff = regexp.MustCompile(`(?im)^\s*(status\s*:\s*)?off\s*$`)

// set runs the action off or on.
func (a *agent) set(ctx context.Context, _ failover.Machine, to address, want failover.Power) error {
	action := want.String()
	r, err := a.run(ctx, action, to)
	if err == nil && r.code != 0 {
		err = r.failure(action)
	}
	return err
}

// result is how a run ended.
type result struct {
	code         int
	said, moaned string // standard output, standard error
	secret       string // that must not be quoted
}

// unsupported finds an agent's refusal of an action that it does not have.
var unsupported = regexp.MustCompile(`(?i)unrecogni[sz]ed action|not supported|unsupported|does not support`)

func (r result) failure(action string) error {
	if unsupported.MatchString(r.said + "\n" + r.moaned) {
		return hopeless("use another program, or another type of device", "action %s is %w (exit code %d): %s", action,
			ErrUnsupported, r.code, r.quote())
	}
	return fmt.Errorf("action %s ended with exit code %d: %s", action, r.code, r.quote())
}

// quote is what was said, shortened, without the password: agents repeat lines that
// they do not understand.
func (r result) quote() string {
	text := r.moaned + " " + r.said
	if r.secret != "" {
		text = strings.ReplaceAll(text, r.secret, "***")
	}
	if text = shorten(text); text == "" {
		return "it said nothing"
	}
	return fmt.Sprintf("%q", text)
}

// input returns what the program reads on its standard input. The action stands first,
// and no option may name another one (see wrongOption).
func (a *agent) input(action string, to address, secret string) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "action=%s\n", action)
	for _, o := range slices.Concat(a.options, to.options) {
		fmt.Fprintf(&text, "%s=%s\n", o.name, o.value)
	}
	if secret != "" {
		fmt.Fprintf(&text, "passwd=%s\n", secret)
	}
	return text.Bytes()
}

func (a *agent) run(ctx context.Context, action string, to address) (result, error) {
	secret, err := a.password.Read()
	if err != nil {
		return result{}, &setback{err, "write the file, readable for trivet", false}
	}
	if f := unsendable(secret); f != "" {
		return result{}, hopeless("choose another password",
			"%s: the password %s, which the protocol of fence agents cannot carry", a.password.Option, f)
	}
	r, err := runProgram(ctx, a.program, a.input(action, to, secret))
	r.secret = secret
	return r, err
}

// unsendable says why a value would not arrive as it is written: agents take blanks
// and quotes off.
func unsendable(value string) string {
	switch {
	case strings.ContainsAny(value, "\r\n\x00"):
		return "holds the end of a line"
	case strings.TrimSpace(value) != value:
		return "begins or ends with a blank"
	case len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"':
		return "stands in quotes"
	}
	return ""
}
