package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trivet-ha/trivet/firewall"
	"github.com/trivet-ha/trivet/test/hostkernel"
)

// told is a table and lists that write down what is asked of them.
type told struct {
	hostkernel.Model
	order []string
	err   error // of the table
}

func (c *told) Mend(context.Context) error {
	c.order = append(c.order, "table")
	return c.err
}

func (c *told) Left(context.Context) (time.Duration, error) {
	c.order = append(c.order, "table")
	return 0, c.err
}

func (c *told) Replace(ctx context.Context, r firewall.Ruleset) error {
	c.order = append(c.order, "lists")
	return c.Model.Replace(ctx, r)
}

// TestLeased wants the lease before lists that let anything through, and its
// loss to be seen with theirs.
func TestLeased(t *testing.T) {
	c := &told{}
	l := leased{c, c}
	if err := l.Replace(t.Context(), firewall.Ruleset{Pass: true}); err != nil ||
		!slices.Equal(c.order, []string{"table", "lists"}) {
		t.Errorf("the rules were written in this order: %q (%v), want the table first", c.order, err)
	}
	if _, err := l.Read(t.Context()); err != nil {
		t.Errorf("read what is whole: %v", err)
	}
	c.err, c.order = firewall.ErrForeign, nil
	if _, err := l.Read(t.Context()); !errors.Is(err, firewall.ErrForeign) {
		t.Errorf("read without the table: %v, want %v", err, firewall.ErrForeign)
	}
	c.order = nil
	if err := l.Replace(t.Context(), firewall.Ruleset{Pass: true}); err == nil || slices.Contains(c.order, "lists") {
		t.Errorf("without the table lists were written: %q (%v)", c.order, err)
	}
}

// sight is a watcher that tells what a test tells it.
type sight chan struct{}

func (s sight) Changed() <-chan struct{} { return s }

func (s sight) Run(ctx context.Context) { <-ctx.Done() }

func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		first, second := make(sight), make(sight)
		w := watches{[]watcher{first, second}, make(chan struct{}, 1)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		for _, one := range []sight{first, second} {
			one <- struct{}{}
			one <- struct{}{} // the same news
			synctest.Wait()
			<-w.news
			if len(w.news) > 0 {
				t.Error("the same news came twice")
			}
		}
		stop()
		<-done
	})
}
