// Package lease holds a lease of a Trivet cluster for a Go program. The context of
// the lease ends when the program must stop acting under it.
//
//	c, err := lease.New(lease.Options{
//		API:    api.Options{Servers: []string{"http://h1:5050", "http://h2:5050", "http://h3:5050"}},
//		Name:   "backup", Holder: "host-7", TTL: 15 * time.Second,
//	})
//	…
//	held, err := c.Acquire(ctx)
//	…
//	defer held.Release(context.WithoutCancel(ctx))
//	err = backUp(held.Context(), held.Token())
//
// The cluster cannot stop a holder whose lease is over: it must stop by itself, in
// time. So the lease's deadline is counted from before the request for it was sent, on
// a clock that goes on while the machine sleeps, and lies a margin before the end that
// the cluster knows. Until then the lease is renewed every third of its ttl.
// Held.Context ends at the deadline; a process that was stopped, with its timers,
// learns the truth from Held.Err, Held.Valid and the context's Err, which look at the
// clock. What a program did begin may still arrive late: send Token with each change,
// and have that refuse a lower one than it has seen.
//
// The package imports package client and nothing else of Trivet.
package lease
