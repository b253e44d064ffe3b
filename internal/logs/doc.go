// Package logs adds to log/slog what the log of a daemon needs: bounds for
// warnings that repeat, the ID of the request that a line belongs to, the newest lines
// in memory, and the priorities that systemd's journal reads.
//
// A logger is limited where it is made: each caller of Limit and LimitAt says what repeats.
package logs
