package chaos

import "testing"

// TestLevelled: what grows without end fails, what rises once or goes up and down does
// not.
func TestLevelled(t *testing.T) {
	shapes := map[string]struct {
		at   func(i float64) float64 // i from 0 to 1
		fine bool
	}{
		"flat":                  {func(float64) float64 { return 100 }, true},
		"warms up":              {func(i float64) float64 { return 100 * min(1, 0.2+4*i) }, true},
		"grows without end":     {func(i float64) float64 { return 100 + 100*i }, false},
		"saws":                  {func(i float64) float64 { return 100 + float64(int(i*1000)%50) }, true},
		"a leak under the saws": {func(i float64) float64 { return 100 + float64(int(i*1000)%50) + 200*i }, false},
		"one spike at the end":  {func(i float64) float64 { return 100 + 1000*float64(int(i+0.01)) }, true},
	}
	for name, s := range shapes {
		var samples []float64
		for i := range 200 {
			samples = append(samples, s.at(float64(i)/200))
		}
		if err := levelled(samples, 1.2, 0); (err == nil) != s.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
	if levelled(make([]float64, fewest-1), 2, 1) == nil {
		t.Error("too few samples are taken for a proof")
	}
}
