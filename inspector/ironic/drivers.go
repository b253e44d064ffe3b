package ironic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ErrNoDriver says that a call chose a driver that no conductor of Ironic has, also none that is down.
var ErrNoDriver = errors.New("no conductor of Ironic has the driver")

// driverJudged looks at the error of a call that chooses a node's driver or conductor group. Ironic says
// the same of a driver that it does not have and of one whose conductor is just restarted. Its list of
// conductors tells: it has those that are down, too. Where the list cannot be had, Ironic stays busy.
func (l *line) driverJudged(ctx context.Context, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !noConductor(e.Status, e.Message) {
		return err
	}
	_, rest, _ := strings.Cut(e.Message, "which supports driver ")
	driver, rest, found := strings.Cut(rest, ` for conductor group "`)
	group, _, closed := strings.Cut(rest, `"`)
	if !found || !closed {
		return err
	}
	drivers, known := l.drivers(ctx, group)
	if !known || slices.Contains(drivers, driver) {
		return err
	}
	said := fmt.Sprintf("no conductor of Ironic has the driver %q", driver)
	if group != "" {
		said += fmt.Sprintf(" in conductor group %q", group)
	}
	said += ", also none that is down; it has: " + cmp.Or(strings.Join(drivers, ", "), "none")
	return &Error{Call: e.Call, Status: e.Status, Own: e.Own, Message: cut(said), Err: ErrNoDriver}
}

// drivers lists the drivers of the conductors of a group, in order. It is not known if Ironic shows no
// conductors, or not all.
func (l *line) drivers(ctx context.Context, group string) (drivers []string, known bool) {
	raw, err := l.do(ctx, call{method: http.MethodGet, path: "conductors?fields=conductor_group,drivers", limit: maxPage})
	if err != nil {
		return nil, false
	}
	var page struct {
		Conductors []struct {
			Group   string   `json:"conductor_group"`
			Drivers []string `json:"drivers"`
		} `json:"conductors"`
		Next string `json:"next"`
	}
	if json.Unmarshal(raw, &page) != nil || len(page.Conductors) == 0 || page.Next != "" {
		return nil, false
	}
	for _, c := range page.Conductors {
		if strings.EqualFold(c.Group, group) {
			drivers = append(drivers, c.Drivers...)
		}
	}
	slices.Sort(drivers)
	return slices.Compact(drivers), true
}
