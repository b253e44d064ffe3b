package main

import (
	"fmt"
	"slices"
	"time"
)

// Sample is a set of measured durations.
type Sample []time.Duration

// Quantile returns the value below which a share q of the sample lies, by the
// nearest rank; 0 of an empty sample.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// P50 returns the median.
func (s Sample) P50() time.Duration { return s.Quantile(0.5) }

// Max returns the greatest value.
func (s Sample) Max() time.Duration { return s.Quantile(1) }

// String shows median, tail and size.
func (s Sample) String() string {
	return fmt.Sprintf("p50 %v, p90 %v, max %v, n=%d", short(s.P50()), short(s.Quantile(0.9)), short(s.Max()), len(s))
}

// short rounds to three digits or so.
func short(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	default:
		return d.Round(time.Microsecond)
	}
}

// median returns the middle of some values; they must not be empty.
func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
