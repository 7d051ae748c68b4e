//go:build unix && !linux

package fleet

import "syscall"

// dieWithUs can do nothing here: after a crash of ours the servers run on until
// the next Start sweeps them.
func dieWithUs(*syscall.SysProcAttr) {}
