//go:build e2e

package labtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetalintrospection/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetalintrospection/v1/introspection"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/trivet-ha/trivet/test/labtest/openstack"
	"github.com/trivet-ha/trivet/test/labtest/program"
	"github.com/trivet-ha/trivet/test/testenv"
)

// gophercloudClient drives introspections with the client of gophercloud, every
// call through the next peer.
func gophercloudClient(t *testing.T, ironic *openstack.Ironic) {
	s := New(t).Introspecting(ironic.Addr)
	s.Trio()
	machines := ironic.Enroll(0, 3)
	s.Fleet(machines[:2])
	g := newGophers(s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*endLimit)
	defer cancel()

	for _, m := range machines {
		if err := introspection.StartIntrospection(
			ctx, g.next(), m.UUID, introspection.StartOpts{}).ExtractErr(); err != nil {
			t.Fatalf("start %s: %v", m.Name, err)
		}
	}
	for _, m := range machines[:2] {
		g.finished(ctx, m)
	}
	s.WaitState(endLimit, machines[2:], "waiting")
	g.listed(ctx, machines)
	g.data(ctx, machines[0])
	before := g.status(ctx, machines[0]).FinishedAt
	if err := introspection.ReApplyIntrospection(ctx, g.next(), machines[0].UUID).ExtractErr(); err != nil {
		t.Fatalf("reapply: %v", err)
	}
	s.Eventually(endLimit, "the data was applied again", func() error {
		if now := g.status(ctx, machines[0]); now.State != "finished" || !now.FinishedAt.After(before) {
			return fmt.Errorf("%+v", now)
		}
		return nil
	})
	if err := introspection.AbortIntrospection(ctx, g.next(), machines[2].UUID).ExtractErr(); err != nil {
		t.Fatalf("abort: %v", err)
	}
	s.WaitState(endLimit, machines[2:], "error")
	if got := g.status(ctx, machines[2]); got.Error != "Canceled by operator" || !got.Finished {
		t.Errorf("after the abort: %+v", got)
	}
	missing := introspection.GetIntrospectionStatus(ctx, g.next(), openstack.MachineNumber(99).UUID).Err
	if !gophercloud.ResponseCodeIs(missing, 404) {
		t.Errorf("a node that nobody knows: %v", missing)
	}
}

// gophers are clients of gophercloud, one for each peer.
type gophers struct {
	*SiteLab
	clients []*gophercloud.ServiceClient
	turn    int
}

func newGophers(s *SiteLab) *gophers {
	s.t.Helper()
	g := &gophers{SiteLab: s}
	for _, p := range s.Peers {
		c, err := noauth.NewBareMetalIntrospectionNoAuth(
			noauth.EndpointOpts{IronicInspectorEndpoint: "http://" + p.API + "/v1"})
		testenv.Must(s.t, err)
		g.clients = append(g.clients, c)
	}
	return g
}

func (g *gophers) next() *gophercloud.ServiceClient {
	g.turn++
	return g.clients[g.turn%len(g.clients)]
}

func (g *gophers) status(ctx context.Context, m openstack.Machine) *introspection.Introspection {
	g.t.Helper()
	got, err := introspection.GetIntrospectionStatus(ctx, g.next(), m.UUID).Extract()
	if err != nil {
		g.t.Fatalf("status of %s: %v", m.Name, err)
	}
	return got
}

func (g *gophers) finished(ctx context.Context, m openstack.Machine) {
	g.t.Helper()
	g.Eventually(endLimit, m.Name+" is finished", func() error {
		got := g.status(ctx, m)
		if !got.Finished || got.Error != "" || got.FinishedAt.Before(got.StartedAt) {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

// listed wants one page with all the machines.
func (g *gophers) listed(ctx context.Context, machines []openstack.Machine) {
	g.t.Helper()
	seen := make(map[string]string)
	pager := introspection.ListIntrospections(g.next(), introspection.ListIntrospectionsOpts{Limit: 10})
	err := pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
		all, err := introspection.ExtractIntrospections(page)
		for _, one := range all {
			seen[one.UUID] = one.State
		}
		return true, err
	})
	if err != nil || len(seen) != len(machines) {
		g.t.Errorf("listed are %v (%v), want %d", seen, err, len(machines))
	}
}

// data wants what the hooks made of the inventory.
func (g *gophers) data(ctx context.Context, m openstack.Machine) {
	g.t.Helper()
	data, err := introspection.GetIntrospectionData(ctx, g.next(), m.UUID).Extract()
	if err != nil {
		g.t.Fatalf("data of %s: %v", m.Name, err)
	}
	if data.CPUs == 0 || data.MemoryMB == 0 || len(data.MACs) == 0 || data.MACs[0] != m.MAC ||
		len(data.Inventory.Interfaces) == 0 {
		g.t.Errorf("data of %s: %+v", m.Name, data)
	}
}

// sdkScript is the other client's side of openstackSDK.
//
//go:embed testdata/sdk/introspect.py
var sdkScript string

// openstackSDK drives introspections with Debian's openstacksdk.
func openstackSDK(t *testing.T, ironic *openstack.Ironic) {
	installSDK(t)
	s := New(t).Introspecting(ironic.Addr)
	s.Trio()
	machines := ironic.Enroll(0, 2)
	s.Fleet(machines[:1])
	words := []string{"-c", sdkScript, machines[0].UUID, machines[1].UUID}
	for _, p := range s.Peers {
		words = append(words, "http://"+p.API)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*endLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/bin/python3", words...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + s.dir, "LANG=C.UTF-8"}
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "all is well\n") {
		t.Fatalf("the SDK: %v\n%s", err, program.Tail(string(out), 30))
	}
	report := s.WaitState(endLimit, machines[1:], "error")[machines[1].UUID]
	if report.Reason() != "Canceled by operator" {
		t.Errorf("the SDK's abort ended with %q", report.Reason())
	}
}

// installSDK brings in the SDK's Debian package.
func installSDK(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/usr/lib/python3/dist-packages/openstack"); errors.Is(err, os.ErrNotExist) {
		program.Install(t, "openstacksdk", "python3-openstacksdk")
	}
}
