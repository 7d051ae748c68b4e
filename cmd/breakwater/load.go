package main

import (
	"fmt"
	"os"
)

// loadAverage is the machine's load over the last minute, nil where the system does not tell it so.
func loadAverage() *float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	return parseLoad(string(text))
}

func parseLoad(text string) *float64 {
	var load float64
	if _, err := fmt.Sscan(text, &load); err != nil {
		return nil
	}
	return &load
}
