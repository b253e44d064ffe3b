// Package periodic is what the leader does again and again for introspection: it ends what
// has timed out, deletes expired reports, and deletes the records of nodes that Ironic does
// not have any more.
package periodic
