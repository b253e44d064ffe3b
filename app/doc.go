// Package app wires one peer together: New opens and starts it, Ready waits
// until it serves, Ended says why it must stop, Stop stops it in order. It has
// no globals, so that three peers fit in one test. Core is a peer without
// sockets and files; the simulation runs those.
package app
