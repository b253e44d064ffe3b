//go:build e2e

package labtest

import (
	"testing"

	"github.com/trivet-ha/trivet/test/labtest/kubelab"
)

// TestControlPlaneIsBuilt builds kubelab, ten minutes on a fresh machine, in a run of its
// own, so that the tests of failover begin with one that is there.
func TestControlPlaneIsBuilt(t *testing.T) { kubelab.Build(t) }
