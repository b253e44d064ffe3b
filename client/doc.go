// Package client speaks the introspection API of ironic-inspector, version 1,
// to the peers of a Trivet cluster or to any other server of it.
//
// A client is given all the peers. A question goes to the one that answered
// last; a peer that cannot be reached or has no leader is passed over for the
// next, and when none answers all are asked again, with pauses, for as long as
// the context allows and the kind of question is worth. What changes something
// is repeated only when that cannot do it twice: where an answer was lost, the
// client looks first.
//
//	c, err := client.New(client.Options{Servers: []string{"http://h1:5050", "http://h2:5050", "http://h3:5050"}})
//	…
//	err = c.Start(ctx, "node-1", client.StartOptions{})
//	for i, err := range c.List(ctx, client.ListOptions{States: []string{client.StateError}}) { … }
//
// The package imports nothing else of Trivet.
package client
