//go:build e2e && !race

package attacktest

// raceDetector multiplies what a process takes of memory and time: memory is not
// judged then, and the floods are smaller.
const raceDetector = false
