package admin

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// Configuration is the configuration of a peer, which may be read again.
type Configuration struct {
	Conf atomic.Pointer[config.Config] // in force; what it points to never changes
	Load func() (config.Config, error) // nil: there is none that could be read again
	// Prepare makes everything that another configuration needs because of the keys applied,
	// and returns what puts it into its place, which cannot fail.
	Prepare func(next config.Config, applied []string) (parts []func(), err error)
	// Rewritten returns the keys of a configuration whose files hold another text than the
	// one that counts, and which files hang.
	Rewritten func(config.Config) (keys []string, hangs []error)
	Name      string // by which the cluster knows this host
	Logger    *slog.Logger

	left  atomic.Pointer[unapplied] // since the newest attempt to reload; nil before the first
	mu    sync.Mutex                // one reload at a time
	reads bounds.Calls              // each of all that a reload reads
}

// readLimit is how long a reload waits for files that changed keys name. Its caller waits for a little longer.
const readLimit = 30 * time.Second

// Waiting are the keys that were changed and count from the next start of this peer.
func (c *Configuration) Waiting() []string {
	if left := c.left.Load(); left != nil {
		return left.restart
	}
	return nil
}

// Current is the configuration in force.
func (c *Configuration) Current() config.Config { return *c.Conf.Load() }

func (c *Configuration) changes(g *echo.Group) {
	g.POST("/config/reload", get(func(ctx context.Context, _ echo.Context) (Reloaded, error) {
		if isDry(ctx) {
			return Reloaded{}, c.plan()
		}
		return c.Reload()
	}))
}

// Reloaded is what became of a configuration that was read again: the keys whose
// values have changed since the last time.
type Reloaded struct {
	Applied []string `json:"applied"` // they count now
	// Restart are the keys that count from the next start of this peer. They stay
	// here, and in the peer's status, until then, or until they are changed back.
	Restart  []string `json:"restart"`
	Together []string `json:"together,omitempty"` // why none is applied although some could be
	Warnings []string `json:"warnings,omitempty"` // what deserves a second look
}

// unapplied is what stands in the configuration's sources and does not count.
type unapplied struct {
	restart []string // keys that wait for the next start
	refused error    // why the sources were not taken at all
}

// Reload reads the configuration again. What a running peer can change is
// changed: everything that may fail is made first, next to what is in force, and
// then put in its place, so that a configuration that will not do changes
// nothing. Each part is replaced in one step; what has begun ends by what it
// began with. The answer names what has changed, and what has to wait for the
// next start. A refusal is an *api.Error. It may be called concurrently.
func (c *Configuration) Reload() (Reloaded, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Load == nil {
		return Reloaded{}, errNoSources()
	}
	n, err := c.readAgain()
	if err != nil {
		return Reloaded{}, c.refuse(err)
	}
	for _, put := range n.parts {
		put()
	}
	c.Conf.Store(&n.Config)
	c.left.Store(&unapplied{restart: n.Restart})
	return c.reloaded(n), nil
}

// renewal is a configuration that was read again, with what a reload puts into its place.
type renewal struct {
	config.Renewal
	next  config.Config // what its sources say
	parts []func()
	hangs []error // files that count as they were
}

// readAgain makes the renewal, or is refused where a file system hangs: what it makes later is dropped then.
func (c *Configuration) readAgain() (*renewal, error) {
	var made *renewal
	var refused error
	if err := c.reads.Do(readLimit, func() { made, refused = c.renew() }); err != nil {
		return nil, fmt.Errorf("read the files of the configuration, of which 'trivet status' names those that hang: %w", err)
	}
	return made, refused
}

func (c *Configuration) renew() (*renewal, error) {
	next, err := c.Load()
	if err != nil {
		return nil, err
	}
	n := &renewal{Renewal: c.Current().Renew(next), next: next}
	rewritten, hangs := c.Rewritten(n.Config)
	n.Renewal, n.hangs = c.Current().Renew(next, rewritten...), hangs
	n.parts, err = c.Prepare(n.Config, n.Applied)
	return n, err
}

// plan is Reload in a dry run: what it makes is dropped.
func (c *Configuration) plan() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Load == nil {
		return errNoSources()
	}
	n, err := c.readAgain()
	if err != nil {
		return refusedConfig(err)
	}
	was, after := make(map[string]string), make(map[string]string)
	for _, s := range c.Current().Effective() {
		was[s.Key] = s.Value
	}
	for _, s := range n.next.Effective() {
		if after[s.Key] = s.Value; s.Value == was[s.Key] { // counts alone if it differs: a secret
			after[s.Key] += " (another)"
		}
	}
	var out plannedError
	for _, key := range n.Applied {
		out.Before += key + ": " + was[key] + "\n"
		out.After += key + ": " + after[key] + "\n"
	}
	for _, key := range n.Restart {
		out.Before += key + ": " + was[key] + "\n"
		out.After += key + ": " + after[key] + "  # after a restart\n"
	}
	return &out
}

func errNoSources() error {
	return conflict("restart it", "this peer has no configuration that could be read again")
}

// refuse keeps why nothing was changed, for the status, and tells it.
func (c *Configuration) refuse(why error) error {
	left := unapplied{refused: why, restart: c.Waiting()}
	c.left.Store(&left)
	for line := range strings.SplitSeq(why.Error(), "\n") {
		c.Logger.Error("reload configuration failed, keeping the current one", "err", line)
	}
	return refusedConfig(why)
}

func refusedConfig(why error) *api.Error {
	return &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: why.Error(),
		Hint: "nothing was changed; mend what is named and look again with 'trivet config check'"}
}

// reloaded tells what a reload came to, and logs it.
func (c *Configuration) reloaded(n *renewal) Reloaded {
	log := c.Logger
	for _, key := range n.Restart {
		log.Warn("configuration change needs a restart", "key", key)
	}
	out := Reloaded{Applied: slices.Concat([]string{}, n.Applied), Restart: slices.Concat([]string{}, n.Restart)}
	for _, err := range n.hangs {
		log.Warn("look at a file for a change failed, keeping what was read before", "err", err)
		out.Warnings = append(out.Warnings, fmt.Sprintf("%v; what was read before counts", err))
	}
	for _, problem := range n.Together {
		log.Warn("reload configuration failed next to keys that need a restart, keeping the current one", "err",
			problem.String())
		out.Together = append(out.Together, problem.String())
	}
	for _, w := range append(n.Config.Warnings(), c.useless()...) {
		out.Warnings = append(out.Warnings, w.String())
	}
	log.Info("configuration reloaded", "applied", n.Applied, "needs_restart", n.Restart)
	return out
}

// useless finds what is of no use in the configuration in force.
func (c *Configuration) useless() config.Problems {
	now := c.Current()
	return append(now.CheckPairs(), now.CheckName(c.Name)...)
}

// Warnings are what is of no use in the configuration in force, and what stands in its
// sources and does not count.
func (c *Configuration) Warnings() []api.Warning {
	var out []api.Warning
	for _, p := range c.useless() {
		do, then := p.Do, "restart"
		if o, _ := config.Lookup(p.Key); o.Change == config.AtJoin {
			then = "reload" // a restart changes nothing
		}
		p.Do = ""
		out = append(out, api.Warning{Code: "useless_options", Text: p.String(),
			Remedy: do + "; 'trivet config check', then 'systemctl " + then + " trivet'"})
	}
	left := c.left.Load()
	if left == nil {
		return out
	}
	if why := left.refused; why != nil {
		first, more, _ := strings.Cut(why.Error(), "\n")
		if n := strings.Count(more, "\n") + 1; more != "" {
			first += fmt.Sprintf(" (and %d more)", n)
		}
		out = append(out, api.Warning{Code: "config_refused",
			Text:   "the configuration was read again and will not do, so nothing was changed: " + first,
			Remedy: "mend what 'trivet config check' names, then 'systemctl reload trivet'"})
	}
	if keys := left.restart; len(keys) > 0 {
		out = append(out, api.Warning{Code: "restart_needed",
			Text:   "changed in the configuration, and counts from the next start of this peer: " + strings.Join(keys, ", "),
			Remedy: "'systemctl restart trivet', when 'trivet status' says that one peer may be lost; or change it back"})
	}
	return out
}

// Text is the configuration in force, without secrets, and what waits.
func (c *Configuration) Text() []byte {
	var out bytes.Buffer
	for _, s := range c.Conf.Load().Effective() {
		fmt.Fprintf(&out, "%s: %s  # %v\n", s.Key, s.Value, s.Origin)
	}
	if left := c.left.Load(); left != nil {
		fmt.Fprintf(&out, "# waits for a restart: %v; refused: %v\n", left.restart, left.refused)
	}
	return out.Bytes()
}
