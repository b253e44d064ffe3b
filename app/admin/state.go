package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/entry"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/nodesync"
	"github.com/trivet-ha/trivet/fsm/settings"
)

// Log reads the replicated state.
type Log interface {
	Read(ctx context.Context) (fsm.View, error) // linearizable
	View() fsm.View                             // as this peer has applied it
}

// State is the replicated state, as operators see and change it.
type State struct {
	Log   Log
	Do    api.Doer
	Wall  func() time.Time     // for what people read in the log
	Stale func() time.Duration // how old this peer's own view may be; below 0: nothing bounds it
	// Rewritten returns the options whose files this peer has not read since they were changed.
	Rewritten func() (keys []string)
	Waiting   func() (keys []string) // options that count from this peer's next start
}

func (s *State) routes(g *echo.Group) {
	g.GET("/tokens", see(s, tokens))
	g.GET("/settings", see(s, listSettings))
	g.GET("/settings/:key", see(s, setting))
	g.GET("/nodes/sync", see(s, syncOf))
	g.PUT("/nodes/sync", act(s.confirmSync))
	g.GET("/relays", see(s, listRelays))
	g.GET("/gossip", see(s, gossipKeys))
	g.GET("/failover/remediations", see(s, remediations))
	g.GET("/failover/remediations/:id", see(s, remediation))
	g.GET("/snapshot", s.saveSnapshot)
	g.GET("/debug/check", get(s.check))
	g.GET("/debug/dump", s.dump)
}

// changes are the routes that commit one command, and have a dry run.
func (s *State) changes(g *echo.Group) {
	g.DELETE("/tokens/:id", s.remove(func(c echo.Context) fsm.Command {
		return membership.RevokeJoinToken{ID: c.Param("id")}
	}))
	g.PUT("/settings/:key", serve(http.StatusOK, adminLimit, s.putSetting))
	g.DELETE("/settings/:key",
		s.remove(func(c echo.Context) fsm.Command { return settings.DeleteSetting{Key: c.Param("key")} }))
	g.POST("/failover/remediations/:id/release", serve(http.StatusOK, adminLimit, s.release))
	g.POST("/failover/pause", serve(http.StatusOK, adminLimit, s.pause))
	g.POST("/failover/resume", serve(http.StatusOK, adminLimit, s.resume))
}

// readView returns a linearizable view, or with ?stale=1 this peer's own.
func (s *State) readView(c echo.Context) (fsm.View, error) {
	if c.QueryParam("stale") == "1" {
		if age := s.Stale(); age >= 0 {
			c.Response().Header().Set("X-Stale-For", fmt.Sprint((age + time.Millisecond - 1).Milliseconds()))
		}
		return s.Log.View(), nil
	}
	limited, cancel := context.WithTimeout(c.Request().Context(), adminLimit/4)
	defer cancel()
	return s.Log.Read(limited)
}

// see makes a handler that answers with what f finds in the state.
func see[O any](s *State, f func(v fsm.View, c echo.Context) (O, error)) echo.HandlerFunc {
	return get(func(_ context.Context, c echo.Context) (out O, err error) {
		v, err := s.readView(c)
		if err != nil {
			return out, err
		}
		return f(v, c)
	})
}

// clientSpace keeps the request IDs of this interface apart from others'.
const clientSpace = "control/"

// do commits a command for the caller and returns its result or refusal.
func (s *State) do(c echo.Context, cmd fsm.Command) (fsm.Result, error) {
	if ctx := c.Request().Context(); isDry(ctx) {
		return fsm.Result{}, plan(ctx, s.Log.Read, s.Wall(), cmd)
	}
	client := c.Request().Header.Get(echo.HeaderXRequestID)
	if client != "" {
		client = clientSpace + client
	}
	if len(client) > entry.MaxClient {
		return fsm.Result{}, invalid("X-Request-Id: at most %d bytes", entry.MaxClient-len(clientSpace))
	}
	res, err := api.Traced(s.Do).Do(c.Request().Context(), client, cmd)
	if err != nil {
		return res, err
	}
	return res, res.Err()
}

// remove makes a handler that commits what the path names.
func (s *State) remove(command func(echo.Context) fsm.Command) echo.HandlerFunc {
	return act(func(_ context.Context, c echo.Context, _ none) error {
		_, err := s.do(c, command(c))
		return err
	})
}

// wallTime shows a moment for people; the log's own clock is not one.
func wallTime(unixMillis int64) string {
	if unixMillis == 0 {
		return ""
	}
	return time.UnixMilli(unixMillis).UTC().Format(time.RFC3339)
}

// Check is the answer of the invariant check.
type Check struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
	Index   uint64 `json:"applied_index"`
	Hash    string `json:"hash"`
	Version int    `json:"cluster_version"`
}

func (s *State) check(context.Context, echo.Context) (Check, error) {
	v := s.Log.View()
	out := Check{OK: true, Index: v.Index(), Hash: fmt.Sprintf("%x", v.Hash()), Version: v.ClusterVersion()}
	if err := v.Check(); err != nil {
		out.OK, out.Problem = false, err.Error()
	}
	return out, nil
}

func (s *State) dump(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	return s.Log.View().Dump(c.Response())
}

// Setting is one replicated setting.
type Setting struct {
	Key   string        `json:"key"`
	Value string        `json:"value"`
	Token fencing.Token `json:"token,omitempty"` // of the write, in an answer to one
}

func listSettings(v fsm.View, _ echo.Context) ([]Setting, error) {
	out := []Setting{}
	for _, one := range v.Settings() {
		out = append(out, Setting{Key: one.Key, Value: one.Value})
	}
	return out, nil
}

func setting(v fsm.View, c echo.Context) (Setting, error) {
	one, ok := v.Setting(c.Param("key"))
	if !ok {
		return Setting{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("setting %q does not exist", c.Param("key"))}
	}
	return Setting{Key: one.Key, Value: one.Value}, nil
}

// ownSettings begins the keys that operators may write. Trivet itself keeps nothing
// among the settings: what it acts on is validated by the domain of its own.
const ownSettings = "user."

func (s *State) putSetting(_ context.Context, c echo.Context, in Setting) (Setting, error) {
	if key := c.Param("key"); !strings.HasPrefix(key, ownSettings) {
		return Setting{}, invalid("a setting's key begins with %q: %s%s", ownSettings, ownSettings, key)
	}
	res, err := s.do(c, settings.PutSetting{Key: c.Param("key"), Value: in.Value})
	return Setting{Key: c.Param("key"), Value: in.Value, Token: res.Token}, err
}

// Relay is a ramdisk's data that is handed on to Ironic, or was.
type Relay struct {
	Sequence fencing.Token `json:"sequence"`
	Node     string        `json:"node,omitempty"` // not there if its node is not known
	State    string        `json:"state"`          // pending, taken or failed
	Tries    int           `json:"tries"`
	Reason   string        `json:"reason,omitempty"` // what Ironic said last, or what happened instead
	Accepted string        `json:"accepted"`
	Ended    string        `json:"ended,omitempty"`
	Document string        `json:"document"`
}

// listRelays lists them, the newest first.
func listRelays(v fsm.View, _ echo.Context) ([]Relay, error) {
	out := []Relay{}
	for r := range v.Relays() {
		out = append(out, Relay{
			Sequence: r.Sequence, Node: r.Node, State: r.State.String(), Tries: r.Tries, Reason: r.Reason,
			Accepted: wallTime(r.AcceptedMillis), Ended: wallTime(r.EndedMillis), Document: r.Document.String(),
		})
	}
	return out, nil
}

// Sync is how the synchronisation with Ironic stands.
type Sync struct {
	Suspected bool   `json:"suspected"` // nothing is deleted for the time being
	Reason    string `json:"reason,omitempty"`
	Missing   int    `json:"missing"` // nodes with a record that Ironic did not list
	Known     int    `json:"known"`   // nodes with a record
	// Digest names the missing nodes; empty when there is nothing to confirm.
	Digest    string `json:"digest,omitempty"`
	Confirmed bool   `json:"confirmed"` // the leader acts on it at its next round
	// Ports says the same of the list of ports, whose MACs are the blacklist; nil if it is believed.
	Ports *Sync `json:"ports,omitempty"`
}

func syncOf(v fsm.View, _ echo.Context) (Sync, error) {
	out := suspected(v.SyncSuspicion())
	if s, ok := v.PortSuspicion(); ok {
		ports := suspected(s, ok)
		out.Ports = &ports
	}
	return out, nil
}

func suspected(s nodesync.Suspicion, ok bool) Sync {
	return Sync{Suspected: ok, Reason: s.Reason, Missing: s.Missing, Known: s.Known, Digest: s.Digest,
		Confirmed: s.Confirmed}
}

// confirmSync lets the leader believe the list that misses just the nodes, or the
// ports, that the caller was shown: the entry itself compares them.
func (s *State) confirmSync(_ context.Context, c echo.Context, in Sync) error {
	if in.Digest == "" {
		return conflict("look again: 'trivet node sync'", "there is nothing to confirm")
	}
	_, err := s.do(c, nodesync.Confirm{Digest: in.Digest})
	return err
}
