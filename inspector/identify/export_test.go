package identify

import "context"

// For tests outside of this package.
const (
	LongestRead  = longestRead
	ReadBurst    = readBurst
	ReadInterval = readInterval
)

// NewSharedRead is newSharedRead.
func NewSharedRead[T any](read func(context.Context) (T, error)) *sharedRead[T] {
	return newSharedRead(read)
}
