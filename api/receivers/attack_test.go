package receivers

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/trivet-ha/trivet/test/memlog"
)

// Whatever fails, each event is delivered at least once and for the first time in order,
// and one ID names one content: leaders die in the middle, answers are lost, receivers
// refuse and hang, proofs and entries fail.
func TestDeliveriesUnderAttack(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, memlog.New(t))
			one := &server{t: t}
			var fault atomic.Int32
			one.answer = func(ctx context.Context, _ int) (int, error) {
				switch fault.Load() {
				case 1:
					return 0, errLost
				case 2:
					return http.StatusGone, nil
				case 3:
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return http.StatusAccepted, nil
			}
			_, stop := s.lead(s.receiver("cmdb", one))
			settle(2 * time.Second)
			for range rapid.IntRange(1, 12).Draw(draw, "steps") {
				switch rapid.IntRange(0, 4).Draw(draw, "step") {
				case 0:
					stop()
					_, stop = s.lead(s.receiver("cmdb", one))
				case 1:
					fault.Store(rapid.Int32Range(0, 3).Draw(draw, "fault"))
				case 2:
					s.setReject(errLost)
				case 3:
					s.setReject(nil)
				}
				s.say(warning, rapid.IntRange(0, 3).Draw(draw, "events"))
				settle(time.Duration(rapid.IntRange(0, 3000).Draw(draw, "ms")) * time.Millisecond)
			}
			fault.Store(0)
			s.setReject(nil)
			settle(3 * mostPause)
			stop()
			contents, next := make(map[string]string), 1
			for _, d := range one.got() {
				if before, known := contents[d.id]; known && before != string(d.body) {
					t.Fatalf("ID %s names two contents", d.id)
				}
				contents[d.id] = string(d.body)
				if !d.taken {
					continue
				}
				for _, e := range told([]taken{d}) {
					switch n, _ := strconv.Atoi(e); {
					case n > next:
						t.Fatalf("lost or out of order: event %d before %d", n, next)
					case n == next:
						next++
					}
				}
			}
			if next != s.said+1 {
				t.Fatalf("lost: the last event that was delivered is %d of %d", next-1, s.said)
			}
		})
	})
}
