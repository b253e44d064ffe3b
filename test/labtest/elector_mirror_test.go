//go:build e2e

package labtest

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/trivet-ha/trivet/client/lease"
	"github.com/trivet-ha/trivet/fsm/fencing"
	"github.com/trivet-ha/trivet/lease/elector"
	"github.com/trivet-ha/trivet/lease/elector/kube"
	"github.com/trivet-ha/trivet/test/labtest/kubelab"
	"github.com/trivet-ha/trivet/test/testenv"
)

// TestElectorMirror shows two leaders, one after the other, to a real API server.
func TestElectorMirror(t *testing.T) {
	t.Parallel()
	k := kubelab.Start(t, "--lite")
	m, err := kube.Open(kube.Options{Kubeconfig: k.Kubeconfig(), Namespace: "default", Name: "x", Lease: true,
		Endpoints: true, TTL: 5 * time.Second,
		Now: lease.Boottime, Wall: time.Now, Logger: slog.New(slog.DiscardHandler)})
	testenv.Must(t, err)
	defer m.Close()
	write := func(name string, token fencing.Token) error {
		now := lease.Boottime()
		return m.Write(t.Context(), elector.Claim{Name: name, Token: token, Asked: now, Until: now + 5*time.Second})
	}
	shows := func(want, kind, path string) {
		t.Helper()
		if got := k.Get(path, kind, "x", "--namespace", "default"); !strings.Contains(got, want) {
			t.Errorf("%s %s: %s, want %s", kind, path, got, want)
		}
	}
	for range 2 { // the first makes the objects, the second renews them
		testenv.Must(t, write("one", 7))
	}
	shows("one", "lease", "{.spec.holderIdentity}")
	shows("0", "lease", "{.spec.leaseTransitions}")
	shows(`\"holderIdentity\":\"one\"`, "endpoints", "{.metadata.annotations}")
	testenv.Must(t, write("two", 1<<40))
	for _, kind := range []string{"lease", "endpoints"} {
		shows("1099511627776", kind, "{.metadata.annotations.trivet\\.dev/fencing-token}")
	}
	shows("two", "lease", "{.spec.holderIdentity}")
	shows("1", "lease", "{.spec.leaseTransitions}")
	if err := write("one", 7); !errors.Is(err, kube.ErrNewer) {
		t.Errorf("mirror-token: a deposed one wrote: %v", err)
	}
	shows("two", "lease", "{.spec.holderIdentity}")
}
