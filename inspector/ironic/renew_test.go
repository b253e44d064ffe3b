package ironic

import (
	"context"
	"testing"
)

// Calls that begin later go to the Ironic of the new configuration, one that is
// under way ends where it began, and files that cannot be read change nothing.
func TestAnotherIronicIsReloaded(t *testing.T) {
	old, next := serve(t, calls[0].answer, calls[0].answer), serve(t, calls[0].answer, calls[0].answer)
	c := dial(t, conf(old.URL))
	broken := conf(next.URL)
	broken.TLS.CAFile = "/nowhere/ca.pem"
	if _, err := c.Prepare(broken); err == nil {
		t.Fatal("a CA that is not there was taken")
	}
	take, err := c.Prepare(conf(next.URL))
	if err != nil {
		t.Fatal(err)
	}
	under := c.now.Load() // a call that has begun holds its line
	if got := calls[0].do(t.Context(), c); len(old.seen()) != 1 {
		t.Errorf("renewed-before-its-time: %v; the old Ironic saw %d calls", got, len(old.seen()))
	}
	take()
	if got := calls[0].do(t.Context(), c); len(next.seen()) != 1 || len(old.seen()) != 1 {
		t.Errorf("not-renewed: %v; the new Ironic saw %d calls, the old one %d", got, len(next.seen()), len(old.seen()))
	}
	if _, err := under.do(context.WithoutCancel(t.Context()),
		call{method: "GET", path: "nodes/" + node1, limit: maxNode}); err != nil || len(old.seen()) != 2 {
		t.Errorf("the call that had begun: %v; the old Ironic saw %d calls", err, len(old.seen()))
	}
}
