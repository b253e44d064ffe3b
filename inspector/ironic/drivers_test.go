package ironic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Ironic says the same of a driver that it does not have, and of one whose conductor is restarted: its list
// of conductors, with those that are down, tells which it is.
func TestDriverThatIronicDoesNotHave(t *testing.T) {
	const lacks = `No valid host was found. Reason: No conductor service registered which supports driver %s for ` +
		`conductor group "%s". Ensure the driver is valid and enabled.`
	const both = `{"conductors": [{"conductor_group": "", "drivers": ["redfish", "ipmi"]},
		{"conductor_group": "rack", "drivers": ["ilo"]}]}`
	const none = `{"conductors": []}`
	patch := func(path string) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			_, err := c.PatchNode(ctx, node1, []Patch{{Op: "add", Path: path, Value: "x"}})
			return err
		}
	}
	driver := func(ctx context.Context, c *Client) error {
		_, err := c.PatchDriver(ctx, node1, []Patch{{Op: "add", Path: "/driver", Value: "x"}})
		return err
	}
	create := func(ctx context.Context, c *Client) error {
		_, err := c.CreateNode(ctx, NewNode{UUID: node1, Driver: "x"})
		return err
	}
	for name, c := range map[string]struct {
		do            func(context.Context, *Client) error
		driver, group string
		conductors    answer
		want          string // "": it waits
	}{
		"no such driver": {create, "fake-hardware", "", answer{200, both},
			`"fake-hardware", also none that is down; it has: ipmi, redfish`},
		"by a patch": {driver, "idrack", "", answer{200, both}, `"idrack", also`},
		"no such driver there": {create, "ipmi", "rack", answer{200, both},
			`"ipmi" in conductor group "rack", also none that is down; it has: ilo`},
		"no such group":          {patch("/conductor_group"), "ipmi", "rak", answer{200, both}, `it has: none`},
		"its conductor is down":  {create, "ipmi", "", answer{200, both}, ""},
		"that, by a patch":       {driver, "ilo", "Rack", answer{200, both}, ""},
		"no conductor, ever":     {create, "ipmi", "", answer{200, none}, ""},
		"more than one page":     {create, "x", "", answer{200, strings.Replace(both, "{", `{"next": "y",`, 1)}, ""},
		"a list that is refused": {create, "x", "", fault(403, "Access was denied"), ""},
		"other words":            {create, "x", "", answer{200, both}, ""},
		"a driver of before":     {patch("/extra/x"), "x", "", answer{200, both}, ""},
	} {
		said := fmt.Sprintf(lacks, c.driver, c.group)
		if name == "other words" {
			said = "No valid host was found. Reason: none."
		}
		f := serve(t, fault(400, said), c.conductors)
		err := c.do(t.Context(), dial(t, conf(f.URL)))
		if c.want == "" {
			if !Unjudged(err) || !Busy(err) || err.Error() != said {
				t.Errorf("no-driver: %s: %v", name, err)
			}
		} else if Unjudged(err) || Busy(err) || !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("no-driver: %s: %v", name, err)
		}
	}
}
