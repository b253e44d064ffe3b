package hostkernel

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/firewall"
)

// TestModel: what has ended cannot be swapped, and nothing gets through without a
// lease and lists.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		m := &Model{Late: 50 * time.Millisecond, Opened: func() { opened++ }}
		ctx := t.Context()
		want := func(what string, err, is error, mac string, lets bool) {
			t.Helper()
			if !errors.Is(err, is) || err == nil != (is == nil) {
				t.Errorf("%s: %v, want %v", what, err, is)
			}
			if got := m.Lets(mac, time.Now()); got != lets {
				t.Errorf("%s: %s gets through: %v", what, mac, got)
			}
		}
		if _, err := m.Read(ctx); !errors.Is(err, firewall.ErrForeign) {
			t.Errorf("read before lists were written: %v", err)
		}
		want("nothing is armed", m.Open(ctx, time.Second), firewall.ErrLapsed, mac(1), false)
		want("armed", m.Arm(ctx, time.Second), nil, mac(1), false)
		want("open without lists", m.Open(ctx, time.Second), nil, mac(1), false)
		pass := true
		want("change without lists", m.Change(ctx, firewall.Change{Pass: &pass}), firewall.ErrForeign, mac(1), false)
		want("lists", m.Replace(ctx, firewall.Ruleset{Allow: []string{mac(1)}, Deny: []string{mac(1), mac(2)}}), nil, mac(1),
			true)
		want("denied", nil, nil, mac(2), false)
		want("unknown without pass rule", nil, nil, mac(3), false)
		want("pass rule", m.Change(ctx, firewall.Change{Pass: &pass}), nil, mac(3), true)
		want("denied in spite of the pass rule", nil, nil, mac(2), false)
		time.Sleep(1049 * time.Millisecond) // in a bubble
		want("the last moment", m.Hold(ctx, time.Second), nil, mac(1), true)
		time.Sleep(1050 * time.Millisecond) // in a bubble
		want("it has lapsed", m.Hold(ctx, time.Second), firewall.ErrLapsed, mac(1), false)
		if until := m.Until(); !until.Equal(time.Now()) {
			t.Errorf("it ended at %v, now is %v", until, time.Now())
		}
		want("armed once", m.Open(ctx, time.Second), firewall.ErrLapsed, mac(1), false)
		_ = m.Arm(ctx, time.Second) // it has no error
		want("open again", m.Open(ctx, time.Second), nil, mac(1), true)
		want("shut", m.Shut(ctx), nil, mac(1), false)
		if opened != 3 || !m.Until().IsZero() {
			t.Errorf("opened %d times, until %v", opened, m.Until())
		}
		_ = m.Arm(ctx, time.Second)
		_ = m.Open(ctx, time.Second)
		if m.Flush(); m.Lets(mac(1), time.Now()) {
			t.Error("something gets through after a flush")
		}
	})
}

func mac(n int) string { return fmt.Sprintf("52:54:00:00:00:%02x", n) }
