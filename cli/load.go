package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trivet-ha/trivet/config"
)

const defaultConfigFile = "/etc/trivet/trivet.yaml"

// shownOptions are the options whose flags the help lists; the others have
// flags too, but one reads about them in the template.
func shownOptions() []string {
	return []string{"name", "log.level", "log.format", "api.listen", "api.auth_strategy", "cluster.listen", "cluster.advertise", "gossip.listen", "gossip.advertise"}
}

// variable returns an environment variable of the command line itself.
func (p *program) variable(name, otherwise string) string {
	for i := len(p.env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.env[i], name+"="); ok && value != "" {
			return value
		}
	}
	return otherwise
}

// optionFlags gives a command one flag for each option of the configuration.
func (p *program) optionFlags(c *cobra.Command) {
	shown := make(map[string]bool)
	for _, key := range shownOptions() {
		shown[key] = true
	}
	for _, o := range config.Options() {
		if o.Key != "data_dir" && o.Key != "socket" { // every command has these
			p.optionFlag(c.Flags(), o.Key, !shown[o.Key])
		}
	}
	c.Long = strings.TrimSpace(c.Long + "\n\nEvery key of the configuration has a flag: api.listen is --api-listen. 'trivet config template' lists them.")
}

func (p *program) optionFlag(flags *pflag.FlagSet, key string, hidden bool) {
	o, ok := config.Lookup(key)
	if !ok {
		panic("cli: no option " + key) // a slip in this package; any test finds it
	}
	name := strings.NewReplacer("_", "-", ".", "-").Replace(key)
	flags.Var(&optionValue{key: key, path: key == "data_dir" || key == "socket", into: p.values}, name, o.Help)
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

// load reads the configuration, for a command that acts by it: what is allowed
// and deserves a second look is said. All that is wrong with it is in the error.
func (p *program) load() (config.Config, error) {
	c, err := p.peruse()
	for _, w := range c.Warnings() {
		p.warn("%v", w)
	}
	return c, err
}

// peruse is load for a command that asks a peer, which had its warnings when it
// started.
func (p *program) peruse() (config.Config, error) {
	name, text, err := p.configFile()
	if err != nil {
		return config.Config{}, err
	}
	c, err := p.parse(name, text)
	return c, configError(err)
}

// parse lays the variables and flags over a file.
func (p *program) parse(name string, text []byte) (config.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // then a name must be written; CheckServe asks for it
	}
	return config.Load(config.Sources{File: name, Text: text, Env: p.env, Flags: p.values, HostName: host})
}

// configFile reads the file that was named, or the usual one if it is there.
func (p *program) configFile() (name string, text []byte, err error) {
	name = p.config
	if name == "" {
		name = p.variable("TRIVET_CONFIG", "")
	}
	named := name != ""
	if !named {
		name = defaultConfigFile
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fail(ExitUsage, "name another with --config, or write one: 'trivet config template'", "configuration: %w", err)
	}
	defer f.Close()
	text, err = io.ReadAll(io.LimitReader(f, config.MaxFile+1))
	if err != nil {
		return "", nil, fail(ExitUsage, "", "configuration: %w", err)
	}
	return name, text, nil
}

func configError(err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Code: ExitUsage, Err: err, Hint: "nothing was done; mend what is named and look again with 'trivet config check'"}
}

// loadServable is load plus what a running peer needs, all problems together.
func (p *program) loadServable() (config.Config, error) { return p.servable(p.load()) }

// servable adds to what is wrong with a configuration what a running peer needs.
func (p *program) servable(c config.Config, err error) (config.Config, error) {
	var found, more config.Problems
	if err != nil && !errors.As(err, &found) {
		return c, err
	}
	if errors.As(c.CheckServe(), &more) {
		for _, m := range more {
			if !mentions(found, m.Key) { // a value that was refused counts as not written
				found = append(found, m)
			}
		}
	}
	if len(found) == 0 {
		return c, nil
	}
	return c, configError(found)
}

// loadAgain returns what reads the configuration of a running peer again. The
// usual file need not be there, but one that was there and is gone would undo
// every line of it: that is a mistake.
func (p *program) loadAgain(first config.Config) func() (config.Config, error) {
	var was string
	for _, s := range first.Effective() {
		if s.Origin.Kind == config.FromFile {
			was = s.Origin.Name
		}
	}
	return func() (config.Config, error) {
		if name, _, err := p.configFile(); err == nil && name == "" && was != "" {
			return config.Config{}, fmt.Errorf("%s: it is gone, and this peer was started with what stood in it", was)
		}
		c, err := p.servable(p.peruse())
		var said *Failure
		if errors.As(err, &said) {
			err = said.Err // the hint is about a command
		}
		return c, err
	}
}

func mentions(problems config.Problems, key string) bool {
	for _, p := range problems {
		if p.Key == key {
			return true
		}
	}
	return false
}

// peer returns a client of the peer on this host, or the one that --peer names. A configuration that will
// not do is a warning here: it must not silence the diagnostics of a peer that
// runs (promise 7).
func (p *program) peer() *control {
	if p.remote.peer != "" {
		return p.remotePeer()
	}
	c, err := p.peruse()
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		for _, problem := range problems {
			p.warn("%v", problem)
		}
	case err != nil:
		p.warn("%v", err)
		c = config.Default()
		if s, given := p.values["socket"]; given {
			c.Socket = s
		}
	}
	return newControl(c.Socket)
}

// warn is talk that --quiet does not silence.
func (p *program) warn(format string, args ...any) {
	fmt.Fprintf(p.errw, talkWarning+format+"\n", args...)
}

// say is talk: what was done and what comes next.
func (p *program) say(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintf(p.errw, "trivet: "+format+"\n", args...)
	}
}
