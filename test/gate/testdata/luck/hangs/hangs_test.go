package hangs

import "testing"

func TestHangs(t *testing.T) { select {} }
