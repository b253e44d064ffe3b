package health

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/fsm"
)

// answerLimit is how long a peer may take to prove that it lives.
const answerLimit = time.Second

// Strands refuses, with the arithmetic, if the voters other than id do not
// answer in a majority at this moment; an observer has no vote. The log refuses likewise when it applies
// the removal, but it learns of a death only when the session ends, up to 10 s
// later: long enough for one host to die and another to leave.
func (c *Members) Strands(ctx context.Context, id string) error {
	v := c.Log.View()
	if v.MemberFlags(id).Observer {
		return nil
	}
	var rest []fsm.Member
	for _, m := range v.Voters() {
		if m.ID != id {
			rest = append(rest, m)
		}
	}
	silent := c.Silent(ctx, rest)
	if need := len(rest)/2 + 1; len(rest) > 0 && len(rest)-len(silent) < need {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf(
			"without it %d members remain, of which %d answer (not %s), and a majority of them is %d: they could not go on",
			len(rest), len(rest)-len(silent), strings.Join(silent, ", "), need)}
	}
	return nil
}

// Silent returns the names of the members that do not answer, as themselves, on
// their peers' port.
func (c *Members) Silent(ctx context.Context, members []fsm.Member) []string {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	lives := make([]bool, len(members))
	var asking sync.WaitGroup
	for i, m := range members {
		asking.Go(func() {
			if m.ID == c.Self.ID {
				lives[i] = true
				return
			}
			if conn, err := c.Dial(ctx, m.ID, m.Address); err == nil {
				lives[i] = conn.Close() == nil
			}
		})
	}
	asking.Wait()
	var out []string
	for i, m := range members {
		if !lives[i] {
			out = append(out, m.Name)
		}
	}
	return out
}
