// Package fleettest is what the tests against a real fleet have in common. Only tests import it; it
// takes a test as an interface, so that nothing links package testing.
package fleettest
