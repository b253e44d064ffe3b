package ballast

import (
	"testing"
	"time"
)

func TestWriteTimesAreThoseOfLate(t *testing.T) {
	var r ring
	if got := r.summary(); got != (WriteTimes{}) {
		t.Errorf("of nothing: %+v", got)
	}
	r.add(time.Hour)
	if got := r.summary(); got != (WriteTimes{1, time.Hour, time.Hour}) {
		t.Errorf("of one: %+v", got)
	}
	for i := range keptTimes {
		r.add(time.Duration(i) * time.Millisecond)
	}
	if got := r.summary(); got !=
		(WriteTimes{keptTimes, keptTimes / 2 * time.Millisecond, (keptTimes - 1) * time.Millisecond}) {
		t.Errorf("the hour is long ago: %+v", got)
	}
}
