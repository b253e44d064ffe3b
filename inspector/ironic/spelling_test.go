package ironic

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Ironic keeps UUIDs of nodes as they were enrolled, firmware writes them in upper case, and
// Python takes more. Records have one spelling.
const asRecorded = "4c4c4544-0035-5a10-8030-b2c04f4b4c32"

func spellings() []string {
	return []string{asRecorded, strings.ToUpper(asRecorded), "4C4C4544-0035-5a10-8030-b2c04f4b4c32",
		strings.ReplaceAll(asRecorded, "-", ""), "{" + asRecorded + "}"}
}

// Every list has nodes as records do.
func TestListsHaveNodesAsRecordsDo(t *testing.T) {
	for what, list := range map[string]func(ctx context.Context, c *Client) ([]string, error){
		"IDs": func(ctx context.Context, c *Client) ([]string, error) { return c.NodeIDs(ctx) },
		"names": func(ctx context.Context, c *Client) (ids []string, err error) {
			nodes, err := c.NodeNames(ctx)
			for _, n := range nodes {
				ids = append(ids, n.UUID)
			}
			return ids, err
		},
		"BMCs": func(ctx context.Context, c *Client) (ids []string, err error) {
			nodes, err := c.NodesWithBMC(ctx)
			for _, n := range nodes {
				ids = append(ids, n.UUID)
			}
			return ids, err
		},
		"inspected": func(ctx context.Context, c *Client) ([]string, error) { return c.Inspected(ctx, []string{""}) },
		"ports": func(ctx context.Context, c *Client) (ids []string, err error) {
			ports, err := c.AllPorts(ctx)
			for _, p := range ports {
				ids = append(ids, p.Node)
			}
			return ids, err
		},
	} {
		for _, spelled := range spellings() {
			f := serve(t, answer{200, `{"nodes":[{"uuid":"` + spelled + `","provision_state":"inspecting"}],
				"ports":[{"uuid":"` + port1 +
				`","node_uuid":"` + spelled + `","address":"52:54:00:00:00:0A"}]}`})
			if got, err := list(t.Context(), dial(t, conf(f.URL))); err != nil || len(got) != 1 || got[0] != asRecorded {
				t.Errorf("spelling: %s: node %s is %q (%v)", what, spelled, got, err)
			}
		}
	}
}

// A node that was enrolled in upper case is found by the UUID that records have, also where
// Ironic's database compares with case; the first answer counts where there is no such node.
func TestNodeEnrolledInUpperCaseIsFound(t *testing.T) {
	enrolled := strings.ToUpper(asRecorded)
	var asked []string
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.RequestURI(), enrolled) {
			_, _ = io.WriteString(w, `{"uuid":"`+enrolled+`","power_state":"power on","ports":[{"uuid":"`+port1+
				`","address":"52:54:00:00:00:0A"}]}`) // the client may have gone
			return
		}
		a := fault(404, "Node x could not be found.")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body) // as above
	}))
	t.Cleanup(f.Close)
	c := dial(t, conf(f.URL))
	for what, call := range map[string]func(ctx context.Context, node string) error{
		"read":      func(ctx context.Context, node string) error { _, err := c.Node(ctx, node); return err },
		"patch":     func(ctx context.Context, node string) error { _, err := c.PatchNode(ctx, node, nil); return err },
		"ports":     func(ctx context.Context, node string) error { _, err := c.Ports(ctx, node); return err },
		"addresses": func(ctx context.Context, node string) error { _, err := c.Addresses(ctx, node); return err },
		"power":     func(ctx context.Context, node string) error { _, _, _, err := c.PowerState(ctx, node); return err },
		"switch":    func(ctx context.Context, node string) error { return c.SetPower(ctx, node, PowerOff) },
	} {
		asked = nil
		if err := call(t.Context(), asRecorded); err != nil || len(asked) != 2 {
			t.Errorf("spelling: %s: %v, asked %q", what, err, asked)
		}
		asked = nil
		if err := call(t.Context(), node1); err == nil || len(asked) != 1 {
			t.Errorf("spelling: %s of no node: %v, asked %q", what, err, asked)
		}
	}
	if n, err := c.Node(t.Context(), asRecorded); err != nil || n.UUID != enrolled {
		t.Errorf("spelling: it is asked for as %s further (%v), enrolled as %s", n.UUID, err, enrolled)
	}
}
