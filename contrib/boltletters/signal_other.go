//go:build !unix

package boltletters

import "os"

// crashedBySignal is false: there are none.
func crashedBySignal(*os.ProcessState) bool { return false }
