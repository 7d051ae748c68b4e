//go:build !race

package breakermodel

// checks is how many sequences of about a hundred operations are run.
const checks = "10000"
