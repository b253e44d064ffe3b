package chaos

import (
	"fmt"
	"slices"
)

// fewest samples, over which a median of a quarter says something.
const fewest = 16

// levelled returns an error unless what was sampled levels off: the median of the last
// quarter is at most factor times that of the second, and spare more.
func levelled(samples []float64, factor, spare float64) error {
	n := len(samples)
	if n < fewest {
		return fmt.Errorf("%d samples say nothing, %d are needed", n, fewest)
	}
	before, after := median(samples[n/4:n/2]), median(samples[n-n/4:])
	if after > before*factor+spare {
		return fmt.Errorf("the median rose from %.4g to %.4g, by more than %.3g times and %.4g", before, after, factor, spare)
	}
	return nil
}

// median returns the middle one, of an even number the lower of both.
func median(samples []float64) float64 { return percentile(samples, 0.5) }

// percentile returns the sample that a share of all do not exceed, 0 of none.
func percentile(samples []float64, share float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(share*float64(len(sorted)-1))]
}
