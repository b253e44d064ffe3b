package fsm

import "github.com/trivet-ha/trivet/fsm/entry"

// Names of package entry that stand in what this package takes and returns: code that
// commits entries needs no other package for that.
type (
	// Time is cluster time.
	Time = entry.Time
	// Header is in every entry.
	Header = entry.Header
	// Command is a verb of the log.
	Command = entry.Command
	// RequestID names one request of one session.
	RequestID = entry.RequestID
	// Result is what applying one entry gave.
	Result = entry.Result
	// Code says how a command ended.
	Code = entry.Code
	// Error is a refusal by the state machine.
	Error = entry.Error
)

// How a command may end; see the constants of package entry.
const (
	OK                = entry.OK
	StaleToken        = entry.StaleToken
	SessionEnded      = entry.SessionEnded
	OutcomeUnknown    = entry.OutcomeUnknown
	TableFull         = entry.TableFull
	QueueFull         = entry.QueueFull
	NotFound          = entry.NotFound
	Conflict          = entry.Conflict
	IllegalTransition = entry.IllegalTransition
	Invalid           = entry.Invalid
	Expired           = entry.Expired
	ClaimLost         = entry.ClaimLost
	Refused           = entry.Refused
	UnknownEntry      = entry.UnknownEntry
	Fenced            = entry.Fenced
	Outdated          = entry.Outdated
)
