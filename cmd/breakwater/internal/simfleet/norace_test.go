//go:build !race

package simfleet_test

const raced = false
