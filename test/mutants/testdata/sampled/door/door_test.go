package door

import "testing"

func TestEnter(t *testing.T) {
	for token, refused := range map[int]bool{1: true, 2: false, 3: false} {
		if err := Enter(token, 2); (err != nil) != refused {
			t.Errorf("token %d: %v", token, err)
		}
	}
}
