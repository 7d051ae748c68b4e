// Package lab runs scenarios: sample traffic through the library, faults on a
// fleet, and a verdict from the data.
package lab
