// Package app wires one peer together: New, Start, Ready, Reload, Stop. It has
// no globals, so that three peers fit in one test.
package app
