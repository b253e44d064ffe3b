package term

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/client"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

func TestExitCodes(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("context of it: %w", err) }
	cases := []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, ExitOK},
		{"anything", errors.New("broken"), ExitFailed},
		{"deadline", wrap(context.DeadlineExceeded), ExitOutcomeUnknown},
		{"failure", wrap(Fail(ExitNotFound, "", "gone")), ExitNotFound},
		{"api invalid", &api.Error{Code: api.CodeInvalid}, ExitUsage},
		{"api not found", wrap(&api.Error{Code: api.CodeNotFound}), ExitNotFound},
		{"api conflict", &api.Error{Code: api.CodeConflict}, ExitConflict},
		{"api no leader", &api.Error{Code: api.CodeNoLeader}, ExitNoLeader},
		{"api unknown outcome", &api.Error{Code: api.CodeOutcomeUnknown}, ExitOutcomeUnknown},
		{"api table full", &api.Error{Code: api.CodeTableFull}, ExitFailed},
		{"api not authorised", &api.Error{Code: api.CodeNotAuthorised}, ExitNotAuthorised},
		{"api off", &api.Error{Code: api.CodeOff}, ExitUsage},
		{"leases are off", wrap(&client.Error{Status: 404, Message: api.LeasesOff + " to true"}), ExitUsage},
		{"no such lease", &client.Error{Status: 404, Message: "nobody has it"}, ExitNotFound},
		{"another has it", &client.Error{Status: 409, About: "leases", Message: "held"}, ExitConflict},
		{"no data is stored", &client.Error{Status: 404,
			Message: "Inspector is not configured to store data. Set the [processing]store_data configuration option to change this."},
			ExitUsage},
		{"no data is stored to reapply",
			&client.Error{Status: 400,
				Message: "Inspector is not configured to store introspection data. Set the [processing]store_data configuration option to change this."},
			ExitUsage},
		{"api failed", &api.Error{Code: api.CodeFailed}, ExitFailed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := ExitOf(c.err); got != c.want {
				t.Errorf("exit %d, want %d", got, c.want)
			}
			var f *Failure
			var e *api.Error
			if (errors.As(c.err, &f) || errors.As(c.err, &e)) && c.name != "failure" && HintOf(c.err) == "" {
				t.Error("a refusal without a hint")
			}
		})
	}
	if ExitLostLeadership != leader.ExitLostLeadership {
		t.Errorf("75 of the command line is %d in leader", leader.ExitLostLeadership)
	}
}
