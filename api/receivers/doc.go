// Package receivers sends the events of the cluster to the receivers that the configuration
// names, as signed POST requests by the convention of Standard Webhooks (docs/events.md).
//
// A Deliverer is a duty of the leader. Each receiver has a goroutine of its own, which reads
// the ring of the state from the place up to which the receiver has taken the events: it
// has no queue, and a receiver that is dead or slow delays no other. A delivery is announced
// in the log before it is sent (deliveries.Progress), so that the next leader repeats the same
// one, under the same ID; what was taken is noted with the next announcement, or within a
// second. One entry a second is the most for all receivers together.
package receivers
