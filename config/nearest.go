package config

// Nearest returns the candidate that differs from word by the fewest
// insertions, deletions, changes and swaps of neighbours; "" when none is close
// enough to be what was meant.
func Nearest(word string, candidates []string) string {
	if len(word) > 128 { // bounds the work; no candidate is near that long
		return ""
	}
	best, least := "", max(2, len(word)/3)+1
	for _, candidate := range candidates {
		if candidate == "" {
			continue
		}
		if d := distance(word, candidate); d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the optimal string alignment distance, in bytes.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 0
			if a[i-1] != b[j-1] {
				change = 1
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
