package config

import "strings"

// longestKey bounds the work for a key that is none.
const longestKey = 40

// nearest is the known key that differs least, "" if none is near.
func nearest(key string, known []string) (best string) {
	if len(key) > longestKey {
		return ""
	}
	least := 1 + min(3, max(1, len(key)/2))
	for _, k := range known {
		d := distance(key, k)
		if len(key) > 2 && strings.HasPrefix(k, key) {
			d = 1 // cut short
		}
		if d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the characters to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			step := diagonal
			if a[i] != b[j] {
				step++
			}
			diagonal, row[j+1] = row[j+1], min(step, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
