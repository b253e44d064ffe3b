package admin

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/failover"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/bounds"
)

// maxHistory bounds what is listed at once; the log keeps no more.
const maxHistory = kubestate.MaxRemediations

// remediations lists what was done, the newest first; ?limit=N of them.
func remediations(v fsm.View, c echo.Context) ([]Remediation, error) {
	limit := maxHistory
	if text := c.QueryParam("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxHistory {
			return nil, invalid("limit: it is a number from 1 to %d, not %q", maxHistory, text)
		}
		limit = n
	}
	out := []Remediation{}
	for _, r := range v.RemediationHistory(limit) {
		out = append(out, RemediationOf(v, r))
	}
	return out, nil
}

func remediation(v fsm.View, c echo.Context) (Remediation, error) {
	id, err := remediationID(c)
	if err != nil {
		return Remediation{}, err
	}
	r, ok := v.Remediation(id)
	if !ok {
		return Remediation{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: "there is no remediation " + id.String(), Hint: "see 'trivet failover history'"}
	}
	return RemediationOf(v, r), nil
}

func remediationID(ctx echo.Context) (fencing.Token, error) {
	text := ctx.Param("id")
	id, err := fencing.ParseToken(text)
	if err != nil {
		return 0, invalid("%q is not the number of a remediation", cut(text))
	}
	return id, nil
}

// RemediationOf shows a remediation of the log. Its times are wall clocks as
// the peers told them, and peers have the names that v knows.
func RemediationOf(v fsm.View, r kubestate.Remediation) Remediation {
	out := Remediation{
		ID: r.Intent, Cluster: r.Cluster, Node: r.Node, UID: r.UID, BootID: r.BootID, ControlPlane: r.ControlPlane,
		State: r.State.String(), Open: !r.State.Ended(), Device: r.Device, Attempts: r.Attempts, WasOff: r.WasOff,
		Steps: make([]RemediationStep, 0, len(r.Steps)),
	}
	for i, s := range r.Steps {
		peer := s.Peer // one that left keeps its ID, and an operator has no other name
		if m, ok := v.Member(s.Peer); ok {
			peer = m.Name
		}
		out.Steps = append(out.Steps, RemediationStep{
			State: s.State.String(), Token: s.Token, At: stepTime(s.Millis), Peer: peer, Operator: s.Operator, Device: s.Device,
			Reason: s.Reason,
		})
		if i == 0 {
			out.Began = stepTime(s.Millis)
		}
		if i == 0 || s.State != r.Steps[i-1].State {
			out.Since = stepTime(s.Millis)
		}
		if s.Reason != "" {
			out.Reason = s.Reason
		}
	}
	return out
}

// stepTime shows when a step was taken: they may be milliseconds apart.
func stepTime(unixMillis int64) string {
	if unixMillis == 0 {
		return ""
	}
	return time.UnixMilli(unixMillis).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// pause stops failover from beginning anything. The answer is what is paused
// then.
func (s *State) pause(_ context.Context, c echo.Context, in PauseOrder) (_ []FailoverPause, err error) {
	length := time.Duration(0)
	if in.For != "" {
		if length, err = time.ParseDuration(in.For); err != nil || length <= 0 {
			return nil, invalid("for: %q is not a duration above 0; write it as in 2h", cut(in.For))
		}
	}
	return s.changePause(c, in, kubestate.PauseFailover{Paused: true, For: length})
}

// resume ends a pause. That there is none is no error.
func (s *State) resume(_ context.Context, c echo.Context, in PauseOrder) ([]FailoverPause, error) {
	if in.For != "" {
		return nil, invalid("for: what is resumed is not paused for a while")
	}
	return s.changePause(c, in, kubestate.PauseFailover{})
}

func (s *State) changePause(c echo.Context, in PauseOrder, order kubestate.PauseFailover) ([]FailoverPause, error) {
	order.Cluster, order.By, order.Reason, order.Millis = in.Cluster, operatorOf(c, in.By), in.Reason, s.wallMillis()
	if _, err := s.do(c, order); err != nil {
		return nil, err
	}
	v, err := s.readView(c)
	if err != nil {
		return nil, err
	}
	return PausesOf(v), nil
}

// PausesOf are the pauses that are in force, that of all clusters first.
func PausesOf(v fsm.View) []FailoverPause {
	out := []FailoverPause{}
	for _, p := range v.FailoverPauses() {
		row := FailoverPause{Cluster: p.Cluster, By: p.By, Reason: p.Reason, Since: wallTime(p.Millis)}
		if p.Until != 0 {
			row.EndsIn = max(p.Until.Sub(v.Now()), 0).Round(time.Second).String()
		}
		out = append(out, row)
	}
	return out
}

// release lets a remediation that is stuck go on, or ends it. Where what has ended keeps its
// kube node from being fenced, to let it be fenced is noted there.
func (s *State) release(_ context.Context, c echo.Context, in ReleaseOrder) (Remediation, error) {
	id, err := remediationID(c)
	if err != nil {
		return Remediation{}, err
	}
	order := kubestate.ReleaseRemediation{Intent: id, To: kubestate.RemFencing, By: operatorOf(c, in.By),
		Reason: in.Reason, Millis: s.wallMillis()}
	switch in.To {
	case kubestate.RemFencing.String():
		if err := s.unreadFences(); err != nil {
			return Remediation{}, err
		}
	case kubestate.RemCancelled.String():
		order.To = kubestate.RemCancelled
	default:
		return Remediation{}, invalid("to: it is %v or %v, not %q", kubestate.RemFencing, kubestate.RemCancelled, cut(in.To))
	}
	v, err := s.readView(c)
	if err != nil {
		return Remediation{}, err
	}
	r, _ := v.Remediation(id)
	held, awaits := failover.AwaitsWord(v, r.Cluster, r.Node)
	if awaits && r.State != kubestate.RemStuck && order.To == kubestate.RemFencing {
		order.Intent, order.Ended = held.Intent, true
	}
	if _, err := s.do(c, order); err != nil {
		return Remediation{}, err
	}
	if v, err = s.readView(c); err != nil {
		return Remediation{}, err
	}
	return remediation(v, c)
}

// unreadFences refuses what would be done by the devices of before: the machine that they name may be the wrong one
// still.
func (s *State) unreadFences() error {
	const key = "failover.fence_file"
	if slices.Contains(s.Waiting(), key) {
		return conflict("'trivet config check' and 'systemctl restart trivet' on one host after the other, then release it again",
			"%s was changed on this host, and counts from the next start of its peer", key)
	}
	if slices.Contains(s.Rewritten(), key) {
		return conflict("'trivet config check' and 'systemctl reload trivet' on every host, then release it again",
			"%s was changed on this host, and its peer has not read it since", key)
	}
	return nil
}

// cut bounds what a refusal repeats of what its caller wrote.
func cut(text string) string { return bounds.Excerpt(text, 200) }

// maxOperatorName bounds what a caller says of itself, in bytes; the log takes a
// little more.
const maxOperatorName = 100

// operatorOf names who asks: what the connection proves, after what they say.
func operatorOf(ctx echo.Context, said string) string {
	who := bounds.Excerpt(api.CallerName(ctx.Request().Context()), maxOperatorName)
	if said == "" {
		return who
	}
	return bounds.Excerpt(said, maxOperatorName) + " (" + who + ")"
}

func (s *State) wallMillis() int64 {
	if s.Wall == nil {
		return 0
	}
	return s.Wall().UnixMilli()
}
