//go:build unix

package boltletters

import (
	"os"
	"syscall"
)

// crashedBySignal reports whether the process ended by what a damaged map of a file gives it, and not by another's kill.
func crashedBySignal(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGBUS || status.Signal() == syscall.SIGSEGV || status.Signal() == syscall.SIGABRT)
}
