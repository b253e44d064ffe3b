// Package options is what the command line says of the configuration: the file that
// is named, the flags that stand for its keys, and the peer that they lead to.
package options

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/app/datadir"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cli/term"
	"github.com/trivet-ha/trivet/config"
)

// DefaultFile is the configuration where no other is named.
const DefaultFile = "/etc/trivet/trivet.yaml"

// Set is what is given of the configuration.
type Set struct {
	term   *term.Terminal
	File   string            // --config
	Values map[string]string // flags that are options: key → value
	Port   string            // --peer: the peers' port of another host, "" for the peer here
	cert   string            // --operator-cert
}

// New returns a set with the flags that every command has.
func New(t *term.Terminal, flags *pflag.FlagSet) *Set {
	s := &Set{term: t, Values: make(map[string]string)}
	flags.StringVar(&s.File, "config", "", "configuration file (default "+DefaultFile+", or $TRIVET_CONFIG)")
	s.flag(flags, "data_dir", false)
	s.flag(flags, "socket", false)
	flags.StringVar(&s.Port, "peer", t.Variable("TRIVET_PEER", ""),
		"control the peer at this HOST or HOST:PORT (its peers' port, 7350) instead of the one on this host; or $TRIVET_PEER")
	flags.StringVar(&s.cert, "operator-cert", t.Variable("TRIVET_OPERATOR_CERT", ""),
		"file of 'trivet cert issue-operator', for --peer; or $TRIVET_OPERATOR_CERT")
	return s
}

// Named is the configuration file that was named, "" for none.
func (s *Set) Named() string { return cmp.Or(s.File, s.term.Variable("TRIVET_CONFIG", "")) }

// Flags gives a command one flag for each option of the configuration.
func (s *Set) Flags(c *cobra.Command) {
	// The help lists these flags; one reads about the others in the template.
	shown := []string{
		"name", "log.level", "log.format", "api.listen", "api.auth_strategy", "cluster.listen", "cluster.advertise",
		"gossip.listen", "gossip.advertise",
	}
	for _, o := range config.Options() {
		if o.Key != "data_dir" && o.Key != "socket" { // every command has these
			s.flag(c.Flags(), o.Key, !slices.Contains(shown, o.Key))
		}
	}
	c.Long = strings.TrimSpace(c.Long +
		"\n\nEvery key of the configuration has a flag: api.listen is --api-listen. 'trivet config template' lists them.")
}

func (s *Set) flag(flags *pflag.FlagSet, key string, hidden bool) {
	o, ok := config.Lookup(key)
	if !ok {
		panic("cli: no option " + key) // a slip in this package; any test finds it
	}
	name := strings.TrimPrefix(o.Flag(), "--")
	flags.Var(&optionValue{key: key, path: key == "data_dir" || key == "socket", into: s.Values}, name, o.Help)
	if hidden {
		flags.Lookup(name).Hidden = true
	}
}

// optionValue keeps the text of a flag for config.Load, which judges it
// together with everything else.
type optionValue struct {
	key  string
	path bool
	into map[string]string
}

// String implements pflag.Value.
func (v *optionValue) String() string { return v.into[v.key] }

// Set implements pflag.Value. A path on a command line may be relative; what a
// daemon is told must not be.
func (v *optionValue) Set(text string) error {
	if v.path && text != "" {
		absolute, err := filepath.Abs(text)
		if err != nil {
			return err
		}
		text = absolute
	}
	v.into[v.key] = text
	return nil
}

// Type implements pflag.Value.
func (v *optionValue) Type() string { return "value" }

// Of returns the option that a flag stands for.
func Of(f *pflag.Flag) (config.Option, bool) {
	value, ok := f.Value.(*optionValue)
	if !ok {
		return config.Option{}, false
	}
	return config.Lookup(value.key)
}

// Load reads the configuration, for a command that acts by it: what is allowed
// and deserves a second look is said. All that is wrong with it is in the error.
func (s *Set) Load() (config.Config, error) {
	c, err := s.Peruse()
	for _, w := range c.Warnings() {
		s.term.Warn("%v", w)
	}
	return c, err
}

// Useless finds options that are of no use together, or on this host. 'config check', init and join
// refuse what a peer that serves warns of: see [config.Config.CheckPairs].
func Useless(c config.Config) config.Problems {
	return append(c.CheckPairs(), health.AddressProblems(c)...)
}

// renamed finds a name that the peer of the data directory does not have. Who may not look
// judges a file that is perhaps for another host.
func renamed(c config.Config) config.Problems {
	id, _, err := datadir.Peek(c.DataDir)
	if err != nil {
		return nil
	}
	return c.CheckName(id.Name)
}

// Peruse is Load for a command that asks a peer, which had its warnings when it
// started.
func (s *Set) Peruse() (config.Config, error) {
	name, text, err := s.ConfigFile()
	if err != nil {
		return config.Config{}, err
	}
	c, err := s.Parse(name, text)
	return c, Error(err)
}

// Parse lays the variables and flags over a file.
func (s *Set) Parse(name string, text []byte) (config.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // then a name must be written; CheckServe asks for it
	}
	return config.Load(config.Sources{File: name, Text: text, Env: s.term.Env, Flags: s.Values, HostName: host})
}

// ConfigFile reads the file that was named, or the usual one if it is there.
func (s *Set) ConfigFile() (name string, text []byte, err error) {
	name = s.Named()
	named := name != ""
	if !named {
		name = DefaultFile
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return "", nil, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", nil, term.Fail(term.ExitUsage,
			"run it as root or as the user of the service, or name a file of your own with --config", "configuration: %w", err)
	}
	if err != nil {
		return "", nil, term.Fail(term.ExitUsage, "name another with --config, or write one: 'trivet config template'",
			"configuration: %w", err)
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, config.MaxFile+1))
	if err != nil {
		return "", nil, term.Fail(term.ExitUsage, "name a file with --config", "configuration: %w", err)
	}
	return name, text, nil
}

// Error gives what is wrong with a configuration its exit code and remedy.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return &term.Failure{Code: term.ExitUsage, Err: err,
		Hint: "nothing was done; mend what is named and look again with 'trivet config check'"}
}

// LoadServable is load plus what a running peer needs, all problems together. Of what is Useless it warns.
func (s *Set) LoadServable() (config.Config, error) {
	c, err := s.Load()
	if err == nil { // else some values are not those that were written
		for _, w := range append(Useless(c), renamed(c)...) {
			s.term.Warn("%v", w)
		}
	}
	return s.servable(c, err)
}

// Refused is what 'config check', init and join refuse in a configuration whose values are right one
// by one: what is Useless, and what each start refuses.
func Refused(c config.Config) config.Problems {
	found := Useless(c)
	for _, err := range app.CheckStart(c) {
		if problems, several := errors.AsType[config.Problems](err); several {
			found = append(found, problems...)
			continue
		}
		problem := config.Problem{What: err.Error()}
		if key, what, cut := strings.Cut(err.Error(), ": "); cut {
			if _, known := config.Lookup(key); known {
				problem = config.Problem{Where: c.Origin(key), Key: key, What: what}
			}
		}
		found = append(found, problem)
	}
	return found
}

// LoadUseful is LoadServable for a configuration by which no peer may run yet: options that
// are of no use together are errors too, as soon as each value is right, and files that the
// user of the service may not read.
func (s *Set) LoadUseful() (config.Config, error) {
	c, err := s.Load()
	if err != nil { // else some values are not those that were written
		return s.servable(c, err)
	}
	refused := Refused(c)
	faults, err := app.ServiceFaults(context.Background(), c)
	if err != nil {
		s.term.Warn("the files that the configuration names were not looked at: %v", err)
	}
	for _, f := range faults {
		// A missing one may be made before the start; and a configuration where the service
		// cannot get to it is judged before it is put in its place, as Ansible does.
		if f.Missing || f.Away && f.Key == "" {
			s.term.Warn("%v", f.Problem)
			continue
		}
		refused = append(refused, f.Problem)
	}
	return s.servable(c, nil, refused...)
}

// servable adds to what is wrong with a configuration what a running peer needs, and more.
func (s *Set) servable(c config.Config, err error, useless ...config.Problem) (config.Config, error) {
	var found, more config.Problems
	if err != nil && !errors.As(err, &found) {
		return c, err
	}
	if errors.As(c.CheckServe(), &more) {
		for _, m := range more {
			// a value that was refused counts as not written
			if !slices.ContainsFunc(found, func(f config.Problem) bool { return f.Key == m.Key }) {
				found = append(found, m)
			}
		}
	}
	if found = append(found, useless...); len(found) == 0 {
		return c, nil
	}
	return c, Error(found)
}

// LoadAgain returns what reads the configuration of a running peer again. The
// usual file need not be there, but one that was there and is gone would undo
// every line of it: that is a mistake.
func (s *Set) LoadAgain(first config.Config) func() (config.Config, error) {
	var was string
	for _, o := range first.Effective() {
		if o.Origin.Kind == config.FromFile {
			was = o.Origin.Name
		}
	}
	return func() (config.Config, error) {
		if name, _, err := s.ConfigFile(); err == nil && name == "" && was != "" {
			return config.Config{}, fmt.Errorf("%s was deleted; the running peer still uses its previous content", was)
		}
		c, err := s.servable(s.Peruse())
		if said, ok := errors.AsType[*term.Failure](err); ok {
			err = said.Err // the hint is about a command
		}
		return c, err
	}
}

// APIServer is the URL of the API on this host, as its configuration says. Users who may not read
// that get the default's: most commands that ask the API need no right on this host. Where
// callers have to log in and this one did not say as whom, it is the peer's socket, unix:PATH,
// for those who may connect there.
func (s *Set) APIServer(login bool) (string, error) {
	c, err := s.Peruse()
	// What could be understood of one that will not do counts.
	if _, wrong := errors.AsType[config.Problems](err); err != nil && !wrong {
		if !errors.Is(err, fs.ErrPermission) {
			s.term.Warn("%v", err)
		}
		c = config.Default()
	}
	if open := c.API.AuthStrategy == "noauth"; !open && !login {
		const limit = 2 * time.Second // it answers from memory
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if term.OnSocket(c.Socket).Call(ctx, "GET", api.SocketPath+"/v1", nil, nil) == nil {
			return "unix:" + c.Socket, nil
		}
	}
	at := c.API.Local()
	if at == "" {
		return "", term.Fail(term.ExitUsage,
			"name the API with --server or TRIVET_SERVER; the log of the peer says where it listens: 'journalctl -u trivet'",
			"api.listen: %s is another port after each start", c.API.Listen)
	}
	return c.API.Scheme() + "://" + at, nil
}

// Peer returns the peer on this host, or the one that --peer names. A configuration that will
// not do is a warning here: it must not silence the diagnostics of a peer that
// runs (promise 7).
func (s *Set) Peer() term.Peer {
	if s.Port != "" {
		return term.OnPort(s.Port, s.cert, s.term.Wall)
	}
	c, err := s.Peruse()
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		for _, problem := range problems {
			s.term.Warn("%v", problem)
		}
	case err != nil:
		s.term.Warn("%v", err)
		c = config.Default()
		if socket, given := s.Values["socket"]; given {
			c.Socket = socket
		}
	}
	return term.OnSocket(c.Socket)
}
