package failover

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/fencing"
)

// lateProof is an authority whose proof is good and comes late, whatever its context
// says: the process stood still between the acknowledgements and the return.
type lateProof time.Duration

func (lateProof) Token() fencing.Token { return 1 }

func (lateProof) Propose(context.Context, fsm.Command) (fsm.Result, error) {
	return fsm.Result{}, errors.New("this test proposes nothing")
}

func (p lateProof) Confirm(context.Context, time.Time) error {
	time.Sleep(time.Duration(p)) // in a bubble
	return nil
}

func (lateProof) Succeeds(uint64, uint64) (time.Time, bool) { return time.Time{}, false }

func (lateProof) Configured() uint64 { return 0 }

// Two seconds after a proof another peer may lead. What has not begun by then does not
// begin.
func TestNoWriteBeginsOnAnOldProof(t *testing.T) {
	for late, begins := range map[time.Duration]bool{0: true, proofLife: true, proofLife + time.Millisecond: false,
		time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			s := &clusterController{a: lateProof(late)}
			began := false
			err := s.write(t.Context(), time.Minute, "write", func(context.Context) error {
				began = true
				return nil
			})
			var unproven errUnproven
			if began != begins || errors.As(err, &unproven) == begins {
				t.Errorf("old-proof: a proof that is %v old: the write began: %v, %v", late, began, err)
			}
		})
	}
}
