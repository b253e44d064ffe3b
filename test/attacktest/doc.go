// Package attacktest attacks peers over real sockets with what an attacker may
// have: nothing, many connections, or the credentials of a peer that was removed. It
// has tests only.
package attacktest
