// Package events tells what happened to the cluster and to its nodes: it reads the
// events that the replicated state records (eventring.Event), gives each a sentence,
// and lets many readers follow them; and it reports to the log what no command
// records.
//
// A Hub serves all readers of one peer. Each reader has a position, which is the ID
// of the newest event that it was given, and no queue: events are rendered once for
// all readers, and a reader that is slow reads from the ring of the state, until the
// ring has moved past its position. Then it has to begin again (a reset). Because
// positions mean the same on every peer, a reader may go on at another.
//
// A Reporter is the other direction. It collects what this peer has seen and its
// session commits, many at once and at a bounded rate.
package events
