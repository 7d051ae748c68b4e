//go:build race

package breakermodel

// checks is how many sequences of about a hundred operations are run: fewer under the race detector, which is slow
// and finds nothing in them, since a sequence is run by one goroutine.
const checks = "500"
